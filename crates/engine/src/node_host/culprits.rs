//! Packages that end the process: one that does so several times in a row is left out, so that the
//! others run on.
//!
//! The host reports which package it loads, and whose code threw the exception that it ends with.

use smol_str::SmolStr;
use std::collections::BTreeSet;

/// Ends in a row after which a package is left out. Our choice, as `start_attempts` of flows.
pub(super) const MAX_ENDS: u32 = 3;

/// What is known of the ends of the process.
#[derive(Default)]
pub(super) struct Culprits {
    /// The package that is being loaded.
    loading: Option<SmolStr>,
    /// The package whose exception was not caught.
    blamed: Option<SmolStr>,
    /// The package that the last end is put down to, and how many in a row.
    last: Option<(SmolStr, u32)>,
    left_out: BTreeSet<SmolStr>,
}

impl Culprits {
    /// The process loads this package; `None`: it has loaded all.
    pub(super) fn loading(&mut self, package: Option<SmolStr>) {
        self.loading = package;
    }

    /// The process ends because of this package, as far as can be seen.
    pub(super) fn blame(&mut self, package: Option<SmolStr>) {
        self.blamed = package;
    }

    /// The process has ended; `settled`: it had lived for a while. Returns the package that is left
    /// out from now on.
    pub(super) fn ended(&mut self, settled: bool) -> Option<SmolStr> {
        let loading = self.loading.take();
        let culprit = self.blamed.take().or(loading);
        let before = self.last.take().filter(|_| !settled);
        let culprit = culprit?;
        let count = before
            .filter(|(last, _)| *last == culprit)
            .map_or(1, |(_, count)| count + 1);
        if count < MAX_ENDS {
            self.last = Some((culprit, count));
            return None;
        }
        self.left_out.insert(culprit.clone());
        Some(culprit)
    }

    /// The packages that are left out.
    pub(super) fn left_out(&self) -> &BTreeSet<SmolStr> {
        &self.left_out
    }

    /// Takes all packages back. False: none was left out.
    pub(super) fn take_back(&mut self) -> bool {
        !std::mem::take(&mut self.left_out).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(culprits: &mut Culprits, package: &str) -> Option<SmolStr> {
        culprits.blame(Some(package.into()));
        culprits.ended(false)
    }

    #[test]
    fn a_package_is_left_out_after_three_ends_in_a_row() {
        let mut culprits = Culprits::default();
        for package in ["a", "a", "b", "a", "a"] {
            assert_eq!(end(&mut culprits, package), None);
        }
        assert_eq!(end(&mut culprits, "a").as_deref(), Some("a"));
        assert!(culprits.left_out().contains("a"));
        assert!(culprits.take_back() && !culprits.take_back());
        assert_eq!(end(&mut culprits, "a"), None);
    }

    #[test]
    fn ends_after_a_long_life_or_without_a_culprit_begin_anew() {
        let mut culprits = Culprits::default();
        for settled in [true, false] {
            end(&mut culprits, "a");
            end(&mut culprits, "a");
            if settled {
                culprits.blame(Some("a".into()));
            }
            assert_eq!(culprits.ended(settled), None);
        }
        assert_eq!(end(&mut culprits, "a"), None);
    }

    #[test]
    fn the_package_that_was_being_loaded_is_the_culprit_if_nothing_else_is() {
        let mut culprits = Culprits::default();
        for _ in 1..MAX_ENDS {
            culprits.loading(Some("a".into()));
            assert_eq!(culprits.ended(false), None);
        }
        culprits.loading(Some("a".into()));
        assert_eq!(culprits.ended(false).as_deref(), Some("a"));
        culprits.loading(Some("a".into()));
        culprits.loading(None);
        assert_eq!(culprits.ended(false), None);
    }
}
