mod addresses;
mod arp;
mod laws;
mod nd;
mod rig;
