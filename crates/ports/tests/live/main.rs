//! Ports against the kernel: each test in network namespaces of its own. They
//! need root, and say so and pass without it.

mod net;
mod packet;
mod privilege;
mod tap;
mod waiting;
mod xdp;
