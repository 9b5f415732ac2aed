//! Every backend against the standards' examples, against Wycheproof, against
//! every other; and the engines that use them.

mod batches;
mod beside;
mod differential;
mod engines;
mod gcm;
mod known_answers;
mod packet;
mod wycheproof;
