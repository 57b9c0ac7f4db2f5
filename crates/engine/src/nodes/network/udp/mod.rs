//! `udp in` and `udp out`.

mod sockets;
pub(in crate::nodes) mod udp_in;
pub(in crate::nodes) mod udp_out;
