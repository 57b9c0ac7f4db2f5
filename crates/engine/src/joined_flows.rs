//! The groups of flows whose deliveries keep their order: flows that wires, links or static link
//! calls join.

/// Disjoint sets of flows (union by smaller index, path halving).
pub(crate) struct JoinedFlows(Vec<u32>);

impl JoinedFlows {
    /// That many flows, each alone.
    pub(crate) fn new(flows: usize) -> Self {
        Self((0..).take(flows).collect())
    }

    /// The group of a flow: the smallest index of its flows.
    pub(crate) fn group(&mut self, flow: usize) -> u32 {
        let mut at = flow;
        while self.0[at] as usize != at {
            self.0[at] = self.0[self.0[at] as usize];
            at = self.0[at] as usize;
        }
        self.0[at]
    }

    /// Joins the groups of two flows.
    pub(crate) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.group(one), self.group(other));
        let (first, second) = (one.min(other), one.max(other));
        self.0[second as usize] = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_joined_through_others() {
        let mut joined = JoinedFlows::new(5);
        joined.join(4, 3);
        joined.join(1, 3);
        let groups = [0, 1, 2, 3, 4].map(|flow| joined.group(flow));
        assert_eq!(groups, [0, 1, 2, 1, 1]);
    }
}
