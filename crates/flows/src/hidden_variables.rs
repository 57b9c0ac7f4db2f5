//! The environment variables of the process that flows do not see.

use std::sync::Arc;

/// Environment variables that flows do not see: neither nodes nor the processes that they start.
#[derive(Debug, Clone, Default)]
pub struct HiddenVariables(Arc<[String]>);

impl HiddenVariables {
    /// These names; one that ends in `*` hides all variables that begin so.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// The same and more.
    #[must_use]
    pub fn with(&self, names: impl IntoIterator<Item = String>) -> Self {
        Self(self.0.iter().cloned().chain(names).collect())
    }

    /// Returns whether a variable is hidden.
    pub fn hides(&self, name: &str) -> bool {
        self.0.iter().any(|hidden| match hidden.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == hidden,
        })
    }
}
