//! Puts the changes between two flow sets onto a third one, element by element.

use super::{FlowSet, Malformed, Node, flow_of};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Why changes cannot be put onto another flow set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RebaseError {
    /// Both sides have changed these elements, or one has removed the flow on which the other has changed them.
    #[error("both change {}", .0.join(", "))]
    Conflicts(Vec<SmolStr>),
    /// The result is no flow set.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// The active flow set with the changes from `base` to `changed`. `sent` are the elements that change by their
/// credentials, too. The order is that of `active`; added elements follow the element that they follow in `changed`.
/// Linear.
#[allow(clippy::implicit_hasher, reason = "one caller, with the usual hasher")]
pub fn rebase(
    base: &FlowSet,
    changed: &FlowSet,
    active: &FlowSet,
    sent: &HashSet<SmolStr>,
) -> Result<FlowSet, RebaseError> {
    let mut ours = differing(base, changed);
    ours.extend(sent);
    let theirs = differing(base, active);
    let same = |id: &str| match (changed.get(id), active.get(id)) {
        (Some(ours), Some(theirs)) => ours.same_content(theirs) && !sent.contains(id),
        (None, None) => true,
        _ => false,
    };
    let removed_around = |id: &str, of: &FlowSet, by: &FlowSet| {
        of.get(id).is_some_and(|node| {
            let flow = flow_of(node);
            flow != id && base.get(flow).is_some() && by.get(flow).is_none()
        })
    };
    let lost = |id: &&SmolStr| {
        (ours.contains(*id) && removed_around(id, changed, active))
            || (theirs.contains(*id) && removed_around(id, active, changed))
    };
    let both = ours.intersection(&theirs).filter(|id| !same(id)).copied();
    let lost = ours.union(&theirs).copied().filter(lost);
    let mut conflicts: Vec<SmolStr> = both.chain(lost).cloned().collect();
    if !conflicts.is_empty() {
        conflicts.sort_unstable();
        conflicts.dedup();
        return Err(RebaseError::Conflicts(conflicts));
    }
    Ok(FlowSet::new(merged(changed, active, &ours))?)
}

/// The ids of the elements that one of the two has only, or that differ.
fn differing<'a>(old: &'a FlowSet, new: &'a FlowSet) -> HashSet<&'a SmolStr> {
    let is_new = |node: &&Arc<Node>| {
        let was = old.get(&node.id);
        !was.is_some_and(|was| Arc::ptr_eq(was, node) || was.same_content(node))
    };
    let removed = |node: &&Arc<Node>| new.get(&node.id).is_none();
    let added = new.nodes().iter().filter(is_new);
    let gone = old.nodes().iter().filter(removed);
    added.chain(gone).map(|node| &node.id).collect()
}

fn merged(changed: &FlowSet, active: &FlowSet, ours: &HashSet<&SmolStr>) -> Vec<Arc<Node>> {
    // Added elements by the one that they follow; those that follow none are the first.
    let mut following: HashMap<Option<&SmolStr>, Vec<&Arc<Node>>> = HashMap::new();
    let mut last = None;
    for node in changed.nodes() {
        if active.get(&node.id).is_some() {
            last = Some(&node.id);
        } else if ours.contains(&node.id) {
            following.entry(last).or_default().push(node);
        }
    }
    let first = following.remove(&None).unwrap_or_default();
    let mut nodes: Vec<Arc<Node>> = first.into_iter().cloned().collect();
    for node in active.nodes() {
        match changed.get(&node.id) {
            Some(ours_now) if ours.contains(&node.id) => nodes.push(Arc::clone(ours_now)),
            None if ours.contains(&node.id) => {}
            Some(_) | None => nodes.push(Arc::clone(node)),
        }
        let added = following.remove(&Some(&node.id)).unwrap_or_default();
        nodes.extend(added.into_iter().cloned());
    }
    nodes
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::collection::btree_map;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn set(elements: &str) -> FlowSet {
        FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
    }

    const A: &str = r#"{"id":"A","type":"tab"}"#;
    const N: &str = r#"{"id":"n","type":"x","z":"A"}"#;
    const M: &str = r#"{"id":"m","type":"x","z":"A"}"#;

    fn rebased(base: &[&str], changed: &[&str], active: &[&str]) -> Result<String, RebaseError> {
        let [base, changed, active] = [base, changed, active].map(|part| set(&part.join(",")));
        rebase(&base, &changed, &active, &HashSet::new()).map(|set| set.to_json())
    }

    #[test]
    fn changes_of_different_elements_are_merged_in_the_active_order() {
        let (new_n, new_m) = (N.replace('x', "y"), M.replace('x', "z"));
        let new = r#"{"id":"new","type":"x","z":"A"}"#;
        let merged = rebased(&[A, N, M], &[A, &new_n, new, M], &[A, &new_m, N]).unwrap();
        assert_eq!(merged, format!("[{A},{new_m},{new_n},{new}]"));
        let removed = rebased(&[A, N, M], &[A, M], &[A, N, &new_m]).unwrap();
        assert_eq!(removed, format!("[{A},{new_m}]"));
    }

    #[test]
    fn an_element_that_both_change_is_a_conflict_unless_they_change_it_alike() {
        let (one, other) = (N.replace('x', "y"), N.replace('x', "z"));
        let conflict = |id: &str| Err(RebaseError::Conflicts(vec![id.into()]));
        assert_eq!(rebased(&[A, N], &[A, &one], &[A, &other]), conflict("n"));
        assert_eq!(rebased(&[A, N], &[A], &[A, &other]), conflict("n"));
        assert_eq!(rebased(&[A, N], &[A, &one], &[A]), conflict("n"));
        assert_eq!(rebased(&[A], &[A, &one], &[A, &other]), conflict("n"));
        let alike = rebased(&[A, N], &[A, &one], &[A, &one]).unwrap();
        assert_eq!(alike, format!("[{A},{one}]"));
    }

    #[test]
    fn a_node_on_a_flow_that_the_other_side_has_removed_is_a_conflict() {
        let conflict = Err(RebaseError::Conflicts(vec!["m".into()]));
        assert_eq!(rebased(&[A], &[A, M], &[]), conflict);
        assert_eq!(rebased(&[A], &[], &[A, M]), conflict);
    }

    #[test]
    fn credentials_that_are_sent_conflict_with_a_change_of_their_element() {
        let [base, active] = [N, &N.replace('x', "y")].map(set);
        let sent = HashSet::from(["n".into()]);
        let conflict = RebaseError::Conflicts(vec!["n".into()]);
        let refused = rebase(&base, &base, &active, &sent).unwrap_err();
        assert_eq!(refused, conflict);
        assert!(rebase(&base, &base, &base, &sent).is_ok());
    }

    /// Elements without a flow: an id and a type.
    type Elements = BTreeMap<u8, u8>;

    fn flows(elements: &Elements) -> FlowSet {
        let element = |(id, kind): (&u8, &u8)| format!(r#"{{"id":"{id}","type":"t{kind}"}}"#);
        set(&elements.iter().map(element).collect::<Vec<_>>().join(","))
    }

    proptest! {
        /// Each element of the result is as the side has it that has changed it.
        #[test]
        fn each_element_is_as_the_side_has_it_that_changed_it(
            base in btree_map(0..8_u8, 0..2_u8, 0..8),
            changed in btree_map(0..8_u8, 0..3_u8, 0..8),
            active in btree_map(0..8_u8, 0..3_u8, 0..8),
        ) {
            let ids = 0..8_u8;
            let (is, ours, theirs) =
                (|of: &Elements, id| of.get(&id).copied(), &changed, &active);
            let conflict = |id| {
                let was = is(&base, id);
                is(ours, id) != was && is(theirs, id) != was && is(ours, id) != is(theirs, id)
            };
            let conflicts: Vec<SmolStr> =
                ids.clone().filter(|id| conflict(*id)).map(|id| id.to_string().into()).collect();
            let result = rebase(&flows(&base), &flows(ours), &flows(theirs), &HashSet::new());
            if !conflicts.is_empty() {
                prop_assert_eq!(result.unwrap_err(), RebaseError::Conflicts(conflicts));
                return Ok(());
            }
            let result = result.unwrap();
            for id in ids {
                let wanted = if is(ours, id) == is(&base, id) { is(theirs, id) } else { is(ours, id) };
                let kind = result.get(&id.to_string()).map(|node| node.kind.clone());
                prop_assert_eq!(kind, wanted.map(|kind| format!("t{kind}").into()));
            }
        }
    }
}
