//! Puts the changes between two flow sets onto a third one, element by element.

use super::{FlowSet, Malformed, Node, flow_of};
use smol_str::SmolStr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Why changes cannot be put onto another flow set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RebaseError {
    /// Both sides have changed these elements, or one has removed the flow on which the other has
    /// changed them.
    #[error("both change {}", .0.join(", "))]
    Conflicts(Vec<SmolStr>),
    /// The result is no flow set.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A flow set that was made of the base.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The flow set.
    pub flows: &'a FlowSet,
    /// The elements whose credentials were changed.
    pub credentials: &'a HashSet<SmolStr>,
}

impl<'a> Side<'a> {
    fn differing(self, base: &'a FlowSet) -> HashSet<&'a SmolStr> {
        let mut ids = differing(base, self.flows);
        ids.extend(self.credentials);
        ids
    }
}

/// The active flow set with the changes from `base` to `changed`. The order is that of `active`;
/// added elements follow the element that they follow in `changed`. Linear.
pub fn rebase(base: &FlowSet, changed: Side<'_>, active: Side<'_>) -> Result<FlowSet, RebaseError> {
    let (ours, theirs) = (changed.differing(base), active.differing(base));
    let (sent, changed, active) = (changed.credentials, changed.flows, active.flows);
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
    use std::sync::LazyLock;

    fn set(elements: &str) -> FlowSet {
        FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap()
    }

    static NONE: LazyLock<HashSet<SmolStr>> = LazyLock::new(HashSet::new);

    /// A side that has changed no credentials.
    fn plain(flows: &FlowSet) -> Side<'_> {
        Side {
            flows,
            credentials: &NONE,
        }
    }

    const A: &str = r#"{"id":"A","type":"tab"}"#;
    const N: &str = r#"{"id":"n","type":"x","z":"A"}"#;
    const M: &str = r#"{"id":"m","type":"x","z":"A"}"#;

    fn rebased(base: &[&str], changed: &[&str], active: &[&str]) -> Result<String, RebaseError> {
        let [base, changed, active] = [base, changed, active].map(|part| set(&part.join(",")));
        rebase(&base, plain(&changed), plain(&active)).map(|set| set.to_json())
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
        let [base, active, removed] = [N, &N.replace('x', "y"), ""].map(set);
        let sent = HashSet::from(["n".into()]);
        let with = |flows| Side {
            flows,
            credentials: &sent,
        };
        let conflict = Err(RebaseError::Conflicts(vec!["n".into()]));
        let refused = |ours, theirs| rebase(&base, ours, theirs).map(|set| set.to_json());
        assert_eq!(refused(with(&base), plain(&active)), conflict);
        assert!(refused(with(&base), plain(&base)).is_ok());
        // Those of the others, too, even if nothing else differs.
        assert_eq!(refused(plain(&active), with(&base)), conflict);
        assert_eq!(refused(with(&base), with(&base)), conflict);
        assert_eq!(refused(plain(&removed), with(&base)), conflict);
        assert!(refused(plain(&base), with(&base)).is_ok());
        // Both have made the same of it, and the credentials of the others stay.
        assert!(refused(plain(&active), with(&active)).is_ok());
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
            let [base_set, ours_set, theirs_set] = [&base, ours, theirs].map(flows);
            let result = rebase(&base_set, plain(&ours_set), plain(&theirs_set));
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
