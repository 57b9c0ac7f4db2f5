//! Takes one flow back to what it was in an earlier flow set, and leaves all others as they are.

use super::single_flow::Error;
use super::{FlowSet, flow_of};

/// The flow set with the elements of one tab or subflow as they were earlier: all of them, or none
/// if there was none.
pub fn take_back(active: &FlowSet, earlier: &FlowSet, flow: &str) -> Result<FlowSet, Error> {
    let of_flow = |set: &FlowSet, wanted: bool| {
        let nodes = set.nodes().iter();
        let nodes = nodes.filter(move |node| (flow_of(node) == flow) == wanted);
        nodes.cloned().collect::<Vec<_>>()
    };
    let (mut nodes, was) = (of_flow(active, false), of_flow(earlier, true));
    let place = active.nodes().iter().position(|node| flow_of(node) == flow);
    if flow.is_empty() || (was.is_empty() && place.is_none()) {
        return Err(Error::NoSuchFlow);
    }
    // The order of tabs is that of the editor.
    let place = place.unwrap_or(nodes.len());
    nodes.splice(place..place, was);
    Ok(FlowSet::new(nodes)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const A: &str = r#"{"id":"A","type":"tab"},{"id":"a","type":"x","z":"A"}"#;
    const B: &str = r#"{"id":"B","type":"tab"},{"id":"b","type":"x","z":"B"}"#;

    fn taken_back(active: &[&str], earlier: &[&str], flow: &str) -> Result<String, Error> {
        let set = |flows: &[&str]| FlowSet::parse(format!("[{}]", flows.join(",")).as_bytes());
        let taken = take_back(&set(active).unwrap(), &set(earlier).unwrap(), flow);
        taken.map(|set| set.to_json())
    }

    #[test]
    fn one_flow_is_as_it_was_and_the_others_stay() {
        let (new_a, new_b) = (A.replace('x', "y"), B.replace('x', "y"));
        let taken = taken_back(&[&new_a, &new_b], &[B, A], "A").unwrap();
        assert_eq!(taken, format!("[{A},{new_b}]"));
        let removed = taken_back(&[B], &[A, B], "A").unwrap();
        assert_eq!(removed, format!("[{B},{A}]"));
        let added = taken_back(&[A, B], &[B], "A").unwrap();
        assert_eq!(added, format!("[{B}]"));
    }

    #[test]
    fn a_flow_of_neither_set_and_a_node_that_has_moved_are_errors() {
        for flow in ["C", ""] {
            let refused = taken_back(&[A], &[B], flow);
            assert!(matches!(refused, Err(Error::NoSuchFlow)), "{flow}");
        }
        let moved = r#"{"id":"a","type":"x","z":"B"}"#;
        let refused = taken_back(&[moved], &[A], "A");
        assert!(matches!(refused, Err(Error::Malformed(_))));
    }
}
