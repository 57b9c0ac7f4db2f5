//! Resources with a share for each client address: memory for unauthenticated callers, and `WebSockets` to flows.

use crate::config::Limits;
use crate::crowd::Crowd;
use crate::quota::Quota;
use std::sync::Arc;

/// Bytes for sign-in forms at a time, and of one address. Our choice: an attacker needs 32 addresses to keep others out, and
/// an office of a thousand people signs in at once.
const SIGN_INS: usize = 32 << 20;
const SIGN_INS_PER_ADDRESS: usize = 1 << 20;

/// Resources with a share for each client address.
#[derive(Debug)]
pub struct Shares {
    /// Bytes of sign-in forms; separate, so that other requests cannot exhaust them.
    pub sign_in: Arc<Quota>,
    /// Bytes of request bodies, responses and frames of unauthenticated callers.
    pub unauthenticated: Arc<Quota>,
    /// Open `WebSockets` to flows of our own engine, limited like connections: those of a trusted proxy do not count for
    /// an address.
    pub sockets: Arc<Crowd>,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        // Whatever the limits of all, one body of the largest size must fit, with its head.
        let least = |body: usize| body + limits.header_bytes;
        let quota = |total: usize, per_address: usize, body: usize| {
            Quota::new(total.max(least(body)), per_address.max(least(body)))
        };
        Self {
            sign_in: quota(SIGN_INS, SIGN_INS_PER_ADDRESS, limits.sign_in_body),
            unauthenticated: quota(
                limits.unauthenticated_bytes,
                limits.unauthenticated_bytes_per_address,
                limits.body,
            ),
            sockets: Crowd::new(limits.connections, limits.connections_per_address),
        }
    }
}
