//! Merges the submission of a caller who sees some flows into the whole: what the caller does not
//! see stays as it is and where it is, what the caller sees and leaves out is removed.

use super::sight::Borrowed;
use super::{Rule, Sight, Verdict, Violation, links};
use flows::running::reference;
use flows::{FlowSet, Node, json};
use smol_str::SmolStr;
use std::sync::Arc;

/// The elements of the whole after a submission. It may neither contain nor name an element that
/// the caller does not see, but one that is exactly as it was: the caller has seen it before, and
/// stopped using it.
pub fn merged(sight: &Sight, submitted: &FlowSet) -> Result<Vec<Arc<Node>>, Verdict> {
    let mut foreign = Vec::new();
    let mut own = Vec::new();
    for node in submitted.nodes() {
        match sight.flows().get(&node.id) {
            Some(before) if sight.hides_element(&node.id) => {
                if !before.same_content(node) {
                    foreign.push(node.id.clone());
                }
            }
            before => own.push(whole(sight, node, before, &mut foreign)),
        }
    }
    if !foreign.is_empty() {
        return Err(refused(foreign));
    }
    let mut own = own.into_iter();
    let mut all = Vec::new();
    for node in sight.flows().nodes() {
        if sight.hides_element(&node.id) {
            all.push(Arc::clone(node));
        } else {
            all.extend(own.next());
        }
    }
    all.extend(own);
    Ok(all)
}

/// Refuses a flow set in which the caller's flows would use an element that was hidden: a reference
/// that the submission adds, by whatever variable, would make a config node or subflow of others
/// the caller's own.
pub fn widened(before: &Sight, after: &Sight) -> Verdict {
    match after.borrows(before) {
        None => Verdict::default(),
        Some(Borrowed::Named) => refused(Vec::new()),
        Some(Borrowed::Unresolved(id)) => {
            let message = format!(
                "the element {} names a config node by a variable whose value is known only when it runs, and which could \
                 be one that you may not read; name the config node itself, or by a variable with its id",
                json::shown(&id)
            );
            Verdict(vec![Violation {
                rule: Rule::Flows,
                nodes: vec![id],
                message,
            }])
        }
    }
}

/// The element with its hidden links; collects the ids of hidden elements that it names.
fn whole(
    sight: &Sight,
    node: &Arc<Node>,
    before: Option<&Arc<Node>>,
    foreign: &mut Vec<SmolStr>,
) -> Arc<Node> {
    let shown = before.map(|before| (before, sight.shown_node(before)));
    if let Some((before, shown)) = &shown
        && shown.same_content(node)
    {
        return Arc::clone(before);
    }
    // No editor names a link by a variable, and what that would be is known only when it runs.
    let mut check = |id: &str| {
        if sight.hides(id) || reference(id).is_some() {
            foreign.push(id.into());
        }
    };
    check(&node.z);
    check(&node.group);
    links::each(node, check);
    match shown {
        Some((before, shown)) if !Arc::ptr_eq(before, &shown) => {
            links::restored(node, before, |id| sight.hides(id))
        }
        _ => Arc::clone(node),
    }
}

/// The ids are those of the submission.
pub fn refused(mut ids: Vec<SmolStr>) -> Verdict {
    ids.dedup();
    let named = ids.iter().take(super::NAMED).map(|id| json::shown(id));
    let named: Vec<String> = named.collect();
    let list = if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    };
    Verdict(vec![Violation {
        rule: Rule::Flows,
        message: format!("the submission uses ids of elements that you may not read{list}"),
        nodes: ids,
    }])
}
