//! The errors of nodes by tab, for the watch after a deployment. They are no metric: the ids of
//! tabs would be a label without bounds.

use dashmap::DashMap;
use smol_str::SmolStr;
use std::collections::HashSet;

/// The most tabs with a count. Our choice: more than any flow set has. Beyond it all counts begin
/// anew, so that tabs that are gone hide none of those that are there.
const MAX_TABS: usize = 10_000;

/// The numbers of errors.
#[derive(Debug, Default)]
pub(super) struct FlowErrors(DashMap<SmolStr, u64>);

impl FlowErrors {
    pub(super) fn add(&self, tab: &str) {
        if let Some(mut count) = self.0.get_mut(tab) {
            *count += 1;
            return;
        }
        if self.0.len() >= MAX_TABS {
            self.0.clear();
        }
        *self.0.entry(tab.into()).or_default() += 1;
    }

    pub(super) fn sum(&self, tabs: &HashSet<SmolStr>) -> f64 {
        let counts = tabs.iter().filter_map(|tab| self.0.get(tab));
        counts.map(|count| *count as f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_a_new_tab_count_whatever_tabs_there_were() {
        let errors = FlowErrors::default();
        for number in 0..=MAX_TABS {
            errors.add(&number.to_string());
        }
        let newest = SmolStr::from(MAX_TABS.to_string());
        assert_eq!(
            (errors.sum(&HashSet::from([newest])), errors.0.len()),
            (1.0, 1)
        );
    }

    #[test]
    fn only_the_errors_of_these_tabs_count() {
        let errors = FlowErrors::default();
        for tab in ["a", "b", "a", "c"] {
            errors.add(tab);
        }
        let of = |tabs: &[&str]| errors.sum(&tabs.iter().map(SmolStr::new).collect());
        assert_eq!((of(&["a", "c"]), of(&["b", "x"]), of(&[])), (3.0, 1.0, 0.0));
    }
}
