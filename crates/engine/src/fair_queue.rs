//! The engine's queue: one queue for each group of flows that wires or links join, served in turn, so that a busy flow
//! delays others by one time slice.
//!
//! Deliveries of one group are first in, first out: messages spread breadth first
//! (docs/reference/node-red-engine.md §3.1). Between groups there is no order.

use crate::delivery::Delivery;
use std::collections::VecDeque;

/// The deliveries that wait, by group.
#[derive(Default)]
pub(crate) struct FairQueue {
    /// The group of each slot; slots beyond the end are in group 0.
    groups: Vec<u32>,
    queues: Vec<Queue>,
    /// Groups in the order in which they are served; the first one is being served.
    ready: VecDeque<u32>,
}

#[derive(Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    /// Whether the group is in `ready`.
    is_ready: bool,
}

impl FairQueue {
    /// Adds a delivery behind those of its group.
    pub(crate) fn push(&mut self, delivery: Delivery) {
        let group = self.group(delivery.slot);
        let index = group as usize;
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, Queue::default);
        }
        let queue = &mut self.queues[index];
        queue.deliveries.push_back(delivery);
        if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(group);
        }
    }

    /// Takes the next delivery of the group that is being served; when it has none, of the next group.
    pub(crate) fn next(&mut self) -> Option<Delivery> {
        loop {
            let queue = &mut self.queues[*self.ready.front()? as usize];
            if let Some(delivery) = queue.deliveries.pop_front() {
                return Some(delivery);
            }
            queue.is_ready = false;
            self.ready.pop_front();
        }
    }

    /// Ends the time slice of the group that is being served: the others come first.
    pub(crate) fn end_slice(&mut self) {
        if self.ready.len() > 1 {
            self.ready.rotate_left(1);
        }
    }

    /// The group of a slot.
    pub(crate) fn group(&self, slot: u32) -> u32 {
        self.groups.get(slot as usize).copied().unwrap_or(0)
    }

    /// The number of deliveries that wait in a group.
    pub(crate) fn len(&self, group: u32) -> usize {
        let queue = self.queues.get(group as usize);
        queue.map_or(0, |queue| queue.deliveries.len())
    }

    /// The number of deliveries that wait in all groups.
    pub(crate) fn total(&self) -> usize {
        self.ready.iter().map(|group| self.len(*group)).sum()
    }

    /// Moves the newest deliveries of a group before all others of it.
    pub(crate) fn bring_forward(&mut self, group: u32, newest: usize) {
        if let Some(queue) = self.queues.get_mut(group as usize) {
            let count = newest.min(queue.deliveries.len());
            queue.deliveries.rotate_right(count);
        }
    }

    /// Whether no delivery waits.
    pub(crate) fn is_empty(&self) -> bool {
        let mut ready = self.ready.iter();
        ready.all(|group| self.len(*group) == 0)
    }

    /// Removes the deliveries that do not meet a condition.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Delivery) -> bool) {
        for queue in &mut self.queues {
            queue.deliveries.retain(&keep);
        }
    }

    /// Puts every slot into its group. Waiting deliveries move along; those of one group keep their order.
    pub(crate) fn regroup(&mut self, groups: Vec<u32>) {
        let waiting: Vec<_> = std::iter::from_fn(|| self.next()).collect();
        self.groups = groups;
        self.queues.clear();
        for delivery in waiting {
            self.push(delivery);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::delivery::Item;
    use value::{Message, Value};

    fn push(queue: &mut FairQueue, slot: u32, text: &str) {
        let item = Item::Message(Message::with_payload(Value::from(text)));
        queue.push(Delivery { slot, item });
    }

    fn next(queue: &mut FairQueue) -> String {
        match queue.next() {
            Some(Delivery {
                item: Item::Message(message),
                ..
            }) => message.get("payload").as_str().unwrap().to_owned(),
            _ => String::new(),
        }
    }

    #[test]
    fn groups_are_served_in_turn_and_each_in_its_order() {
        let mut queue = FairQueue::default();
        queue.regroup(vec![0, 0, 1]);
        for (slot, text) in [(0, "a1"), (1, "a2"), (0, "a3"), (2, "b1"), (2, "b2")] {
            push(&mut queue, slot, text);
        }
        assert_eq!(next(&mut queue), "a1");
        queue.end_slice();
        assert_eq!([next(&mut queue), next(&mut queue)], ["b1", "b2"]);
        assert_eq!(next(&mut queue), "a2", "a group without deliveries is left");
        queue.end_slice();
        assert_eq!(next(&mut queue), "a3", "the only group is served again");
        assert!(queue.is_empty() && queue.next().is_none());
    }

    #[test]
    fn the_newest_deliveries_of_a_group_come_forward() {
        let mut queue = FairQueue::default();
        queue.regroup(vec![0, 1]);
        for (slot, text) in [(0, "a1"), (1, "b1"), (0, "a2"), (0, "a3")] {
            push(&mut queue, slot, text);
        }
        queue.bring_forward(queue.group(0), 2);
        let order = [(); 4].map(|()| next(&mut queue));
        assert_eq!(order, ["a2", "a3", "a1", "b1"]);
    }

    #[test]
    fn groups_that_are_joined_lose_no_delivery() {
        let mut queue = FairQueue::default();
        queue.regroup(vec![0, 1]);
        for (slot, text) in [(0, "a1"), (1, "b1"), (0, "a2")] {
            push(&mut queue, slot, text);
        }
        queue.regroup(vec![0, 0]);
        assert_eq!(queue.len(0), 3);
        let order = [(); 3].map(|()| next(&mut queue));
        assert_eq!(order, ["a1", "a2", "b1"]);
    }
}
