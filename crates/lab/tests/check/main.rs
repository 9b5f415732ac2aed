//! The checkers at work: seeds of a ten-node MACsec and IPsec network under all
//! impairments, and planted bugs that they must find.

mod plants;
mod sample;
mod shipped;
mod ten;
