//! The elements that a deployment touches, as the history lists them: which, where, and how.

use super::{Difference, FlowSet, compare, flow_of};
use smol_str::SmolStr;
use std::collections::HashSet;

/// An element that differs between two flow sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its id.
    pub id: SmolStr,
    /// The flow that it is on, or was on; empty: none.
    pub flow: SmolStr,
    /// The flow that it was on before, if that is another one.
    pub left: Option<SmolStr>,
    /// How it differs.
    pub difference: Difference,
    /// True if its credentials differ.
    pub credentials: bool,
}

/// The elements that differ, as [`compare`] finds them.
#[allow(clippy::implicit_hasher, reason = "one caller, with the usual hasher")]
pub fn touched(old: &FlowSet, new: &FlowSet, credentials: &HashSet<SmolStr>) -> Vec<Touched> {
    let compared = compare(old, new, credentials).into_iter();
    let touched = compared.map(|one| {
        let flow = flow_of(&one.node);
        let was_on = old.get(&one.node.id).map(|was| flow_of(was));
        Touched {
            id: one.node.id.clone(),
            flow: flow.clone(),
            left: was_on.filter(|was_on| *was_on != flow).cloned(),
            difference: one.difference,
            credentials: one.credentials,
        }
    });
    touched.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_moved_element_names_the_flow_that_it_has_left() {
        let set = |z: &str| {
            let text = format!(r#"[{{"id":"n","type":"x"{z}}},{{"id":"A","type":"tab"}}]"#);
            FlowSet::parse(text.as_bytes()).unwrap()
        };
        let (on_a, on_b, on_none) = (set(r#","z":"A""#), set(r#","z":"B""#), set(""));
        let found = |old: &FlowSet, new: &FlowSet| {
            let found = touched(old, new, &HashSet::new());
            let [one] = found.as_slice() else {
                panic!("{found:?}")
            };
            let left = one.left.as_deref().unwrap_or("-");
            format!("{} {} {} {left}", one.id, one.difference.name(), one.flow)
        };
        assert_eq!(found(&on_a, &on_b), "n moved B A");
        assert_eq!(found(&on_none, &on_a), "n moved A ");
        let named = set(r#","z":"A","name":"N""#);
        assert_eq!(found(&on_a, &named), "n changed A -");
    }
}
