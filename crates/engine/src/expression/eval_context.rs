//! What an expression may read besides the message.

use formats::mustache::Lookup;

/// Where an expression is evaluated: which environment variables and contexts it reads, and at what time.
pub(crate) trait EvalContext: Lookup + Clone + 'static {
    /// Milliseconds since 1970.
    fn now(&self) -> f64;
}
