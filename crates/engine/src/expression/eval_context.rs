//! The context of an evaluation: everything that an expression may read besides the message.

use formats::mustache::Lookup;

/// The context of an evaluation: environment variables, context stores, and the time.
pub(crate) trait EvalContext: Lookup + Clone + 'static {
    /// Milliseconds since 1970.
    fn now(&self) -> f64;
}
