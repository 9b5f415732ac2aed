//! The checkers at work: seeds of a ten-node MACsec and IPsec network under all
//! impairments, and planted bugs that they must find.

mod away;
mod plants;
mod sample;
mod shipped;
mod ten;
