mod addresses;
mod arp;
mod laws;
mod listener;
mod nd;
mod orders;
mod rig;
