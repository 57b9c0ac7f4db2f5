//! The engine's queue: one queue for each group of flows that wires or links join, served in turn,
//! so that a busy flow delays others by one time slice.
//!
//! Deliveries of one group are first in, first out: messages spread breadth first
//! (docs/reference/node-red-engine.md §3.1). Between groups there is no order.
//!
//! A group that holds more than the settings allow is *full*: its sources pause until half of that
//! is left, and it is watched ([`Overload`]) meanwhile.

use crate::delivery::Delivery;
use crate::overload::{Overload, Size};
use crate::pressure::Pressure;
use crate::settings::Settings;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

/// The deliveries that wait, by group.
pub(crate) struct FairQueue {
    /// The group of each slot; slots beyond the end are in group 0.
    groups: Rc<[u32]>,
    queues: Vec<Queue>,
    /// Groups in the order in which they are served; the first one is being served.
    ready: VecDeque<u32>,
    /// A group of this size or more is full.
    most: Size,
    pressure: Rc<Pressure>,
    /// The groups that became full since they were last asked for.
    filled: Vec<u32>,
    /// The slots that hold their groups, as often as they do.
    holding: Vec<u32>,
}

#[derive(Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    /// The sum of their parts.
    parts: u64,
    /// The number of deliveries that were taken so far.
    taken: u64,
    /// The number of holds by nodes of the group.
    holds: usize,
    /// True if the group is in `ready`.
    is_ready: bool,
    is_full: bool,
    /// While the group is full, from the first check on.
    overload: Option<Box<Overload>>,
}

impl Queue {
    fn size(&self) -> Size {
        Size {
            messages: self.deliveries.len(),
            parts: self.parts,
        }
    }
}

impl FairQueue {
    pub(crate) fn new(settings: &Settings, pressure: Rc<Pressure>) -> Self {
        Self {
            groups: Rc::default(),
            queues: Vec::new(),
            ready: VecDeque::new(),
            most: Size {
                messages: settings.queue_messages.max(1),
                parts: (settings.queue_bytes / value::PART).max(1) as u64,
            },
            pressure,
            filled: Vec::new(),
            holding: Vec::new(),
        }
    }

    /// Adds a delivery behind those of its group.
    pub(crate) fn push(&mut self, delivery: Delivery) {
        let group = self.group(delivery.slot);
        let queue = self.queue(group);
        queue.parts += u64::from(delivery.parts);
        queue.deliveries.push_back(delivery);
        let is_held = queue.holds > 0;
        let size = queue.size();
        if !is_held {
            self.make_ready(group);
        }
        if size.messages >= self.most.messages || size.parts >= self.most.parts {
            self.fill(group);
        }
    }

    fn queue(&mut self, group: u32) -> &mut Queue {
        let index = group as usize;
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, Queue::default);
        }
        &mut self.queues[index]
    }

    fn make_ready(&mut self, group: u32) {
        let queue = self.queue(group);
        if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(group);
        }
    }

    /// Delivers nothing to the group of a slot until that slot releases it: its node still works on
    /// a message, and what came after waits as if the work were done here.
    pub(crate) fn hold(&mut self, slot: u32) {
        let group = self.group(slot);
        self.holding.push(slot);
        self.queue(group).holds += 1;
    }

    /// Takes a hold of a slot back, if there is one.
    pub(crate) fn release(&mut self, slot: u32) -> bool {
        let Some(at) = self.holding.iter().position(|held| *held == slot) else {
            return false;
        };
        self.holding.swap_remove(at);
        let group = self.group(slot);
        self.queue(group).holds -= 1;
        if !self.is_held(group) {
            self.make_ready(group);
        }
        true
    }

    /// Returns whether a node holds the group.
    pub(crate) fn is_held(&self, group: u32) -> bool {
        let queue = self.queues.get(group as usize);
        queue.is_some_and(|queue| queue.holds > 0)
    }

    /// Marks a group as full.
    #[cold]
    fn fill(&mut self, group: u32) {
        let queue = &mut self.queues[group as usize];
        if !queue.is_full {
            queue.is_full = true;
            self.pressure.set_full(group, true);
            self.filled.push(group);
        }
    }

    /// Takes the groups that have become full.
    pub(crate) fn filled(&mut self) -> impl Iterator<Item = u32> {
        std::mem::take(&mut self.filled).into_iter()
    }

    /// Takes the next delivery of the group that is being served; when it has none, of the next
    /// group.
    pub(crate) fn next(&mut self) -> Option<Delivery> {
        loop {
            let queue = &mut self.queues[*self.ready.front()? as usize];
            if queue.holds == 0
                && let Some(delivery) = queue.deliveries.pop_front()
            {
                queue.parts -= u64::from(delivery.parts);
                queue.taken += 1;
                return Some(delivery);
            }
            queue.is_ready = false;
            self.ready.pop_front();
        }
    }

    /// Lets the sources of groups go on that are at most half full by now. Gives the groups that
    /// never get shorter.
    pub(crate) fn check(&mut self, now: Instant) -> Vec<u32> {
        let mut lost = Vec::new();
        for group in self.pressure.full() {
            let queue = &mut self.queues[group as usize];
            if queue.holds > 0 {
                continue;
            }
            let size = queue.size();
            if size.messages <= self.most.messages / 2 && size.parts <= self.most.parts / 2 {
                (queue.is_full, queue.overload) = (false, None);
                self.pressure.set_full(group, false);
                continue;
            }
            let overload = (queue.overload)
                .get_or_insert_with(|| Box::new(Overload::new(size, queue.taken, now)));
            if overload.is_lost(size, queue.taken, now) {
                lost.push(group);
            }
        }
        lost
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
        self.size(group).messages
    }

    /// The deliveries that wait in a group, and their parts.
    pub(crate) fn size(&self, group: u32) -> Size {
        let queue = self.queues.get(group as usize);
        queue.map(Queue::size).unwrap_or_default()
    }

    /// The group with the most bytes.
    pub(crate) fn largest(&self) -> Option<u32> {
        (0..)
            .zip(&self.queues)
            .max_by_key(|(_, queue)| queue.parts)
            .map(|(group, _)| group)
    }

    /// The number of deliveries that wait in all groups.
    pub(crate) fn total(&self) -> usize {
        self.queues.iter().map(|queue| queue.deliveries.len()).sum()
    }

    /// Moves the newest deliveries of a group before all others of it.
    pub(crate) fn bring_forward(&mut self, group: u32, newest: usize) {
        if let Some(queue) = self.queues.get_mut(group as usize) {
            let count = newest.min(queue.deliveries.len());
            queue.deliveries.rotate_right(count);
        }
    }

    /// Returns whether no delivery waits that can be made: those of held groups cannot.
    pub(crate) fn is_empty(&self) -> bool {
        let mut ready = self.ready.iter();
        ready.all(|group| self.is_held(*group) || self.len(*group) == 0)
    }

    /// Takes all deliveries of a group.
    pub(crate) fn empty(&mut self, group: u32) -> VecDeque<Delivery> {
        let Some(queue) = self.queues.get_mut(group as usize) else {
            return VecDeque::new();
        };
        queue.parts = 0;
        std::mem::take(&mut queue.deliveries)
    }

    /// Removes the deliveries that do not meet a condition.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Delivery) -> bool) {
        for queue in &mut self.queues {
            let parts = &mut queue.parts;
            queue.deliveries.retain(|delivery| {
                let kept = keep(delivery);
                *parts -= if kept { 0 } else { u64::from(delivery.parts) };
                kept
            });
        }
    }

    /// Puts every slot into its group. Waiting deliveries move along; those of one group keep their
    /// order.
    pub(crate) fn regroup(&mut self, groups: Vec<u32>) {
        let holding = std::mem::take(&mut self.holding);
        for slot in &holding {
            let group = self.group(*slot);
            self.queue(group).holds = 0;
            self.make_ready(group);
        }
        let waiting: Vec<_> = std::iter::from_fn(|| self.next()).collect();
        self.groups = groups.into();
        self.queues.clear();
        self.filled.clear();
        self.pressure.regroup(Rc::clone(&self.groups));
        for slot in holding {
            self.hold(slot);
        }
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
    use crate::pressure::InFlight;
    use std::time::Duration;
    use value::{Message, Value};

    fn queue(messages: usize, bytes: usize) -> FairQueue {
        let settings = Settings {
            queue_messages: messages,
            queue_bytes: bytes,
            ..Settings::default()
        };
        FairQueue::new(&settings, Pressure::new(InFlight::new(&settings)))
    }

    fn push(queue: &mut FairQueue, slot: u32, text: &str) {
        let item = Item::Message(Message::with_payload(Value::from(text)));
        queue.push(Delivery::new(slot, item));
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
        let mut queue = queue(1000, 1 << 20);
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
        let mut queue = queue(1000, 1 << 20);
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
        let mut queue = queue(1000, 1 << 20);
        queue.regroup(vec![0, 1]);
        for (slot, text) in [(0, "a1"), (1, "b1"), (0, "a2")] {
            push(&mut queue, slot, text);
        }
        queue.regroup(vec![0, 0]);
        assert_eq!(queue.len(0), 3);
        let order = [(); 3].map(|()| next(&mut queue));
        assert_eq!(order, ["a1", "a2", "b1"]);
    }

    #[test]
    fn a_held_group_waits_while_others_are_served_and_keeps_its_order() {
        let mut queue = queue(1000, 1 << 20);
        queue.regroup(vec![0, 1]);
        push(&mut queue, 0, "a1");
        queue.hold(0);
        queue.hold(0);
        for (slot, text) in [(1, "b1"), (0, "a2"), (1, "b2")] {
            push(&mut queue, slot, text);
        }
        assert_eq!([next(&mut queue), next(&mut queue)], ["b1", "b2"]);
        assert!(queue.is_empty() && queue.next().is_none() && queue.total() == 2);
        queue.regroup(vec![1, 0]);
        assert!(queue.release(0) && queue.next().is_none());
        assert!(queue.release(0) && !queue.release(0));
        assert_eq!([next(&mut queue), next(&mut queue)], ["a1", "a2"]);
    }

    #[test]
    fn a_group_with_too_many_messages_is_full_until_half_of_them_are_left() {
        let mut queue = queue(4, 1 << 20);
        queue.regroup(vec![0, 1]);
        for text in ["1", "2", "3", "4"] {
            assert!(!queue.pressure.is_full(0), "{text}");
            push(&mut queue, 0, text);
        }
        assert!(queue.pressure.is_full(0) && !queue.pressure.is_full(1));
        for full in [true, false] {
            next(&mut queue);
            assert!(queue.check(Instant::now()).is_empty());
            assert_eq!(queue.pressure.is_full(0), full);
        }
    }

    #[test]
    fn a_group_with_too_many_bytes_is_full_and_what_is_subtracted_was_added() {
        let mut queue = queue(1000, 6400);
        // A message has eight parts and one for its object, one for its payload, and one for every
        // 64 bytes of it.
        push(&mut queue, 0, &"x".repeat(5700));
        assert_eq!(queue.size(0).parts, 8 + 1 + 1 + 89);
        assert!(!queue.pressure.any());
        push(&mut queue, 0, "y");
        assert_eq!(queue.size(0).bytes(), 109 * 64);
        assert!(queue.pressure.is_full(0));
        queue.retain(|delivery| delivery.parts < 11);
        assert_eq!(queue.size(0).parts, 10);
        queue.check(Instant::now());
        assert!(!queue.pressure.any());
        next(&mut queue);
        assert_eq!(queue.size(0), Size::default());
    }

    #[test]
    fn a_group_that_doubles_is_given_up() {
        let mut queue = queue(4, 1 << 20);
        for text in ["1", "2", "3", "4"] {
            push(&mut queue, 0, text);
        }
        let mut delivered = 0;
        while queue.check(Instant::now()).is_empty() {
            let text = next(&mut queue);
            push(&mut queue, 0, &text);
            push(&mut queue, 0, &text);
            delivered += 1;
        }
        assert_eq!(delivered, 4 + 8 + 16);
        assert_eq!(queue.empty(0).len(), 32);
        queue.check(Instant::now() + Duration::from_secs(1));
        assert!(!queue.pressure.any());
    }

    #[test]
    fn groups_that_are_joined_are_full_by_what_they_hold_together() {
        let mut queue = queue(4, 1 << 20);
        queue.regroup(vec![0, 1]);
        for slot in [0, 1, 0, 1, 1, 1] {
            push(&mut queue, slot, "x");
        }
        assert_eq!(queue.pressure.full(), [1]);
        queue.regroup(vec![0, 0]);
        assert_eq!(queue.pressure.full(), [0]);
        queue.regroup(vec![0, 1, 1]);
        assert_eq!(queue.pressure.full(), [1]);
    }
}
