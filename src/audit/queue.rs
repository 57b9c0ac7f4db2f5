//! The queue before the writer: one order of records, and a limit for each class, so that neither
//! refusals nor what one user repeats displace anything.

use super::Event;
use super::record::Entry;
use super::suppression::{Class, class};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

/// Records that may wait to be written, beside refusals; further ones are lost, or refuse the act.
/// Our choice: some MiB, seconds of a disk that hangs.
const WAITING: usize = 4096;
/// The same of records that any user can repeat, without their callers waiting; further ones are
/// counted.
const WAITING_REPEATED: usize = WAITING / 2;
/// Refusals that may wait to be written; further ones are counted. Our choice: far less than the
/// others may.
const WAITING_REFUSED: usize = 1024;

/// Work for the writer.
pub(super) enum Order {
    /// A record, and what its caller waits for.
    Record(Entry, Wait),
    /// The time, seconds since 1970, so that windows of suppression end without a record.
    Tick(u64),
}

/// The step that the caller waits for.
pub(super) enum Wait {
    Nothing,
    /// That the line stands in the file.
    Written(oneshot::Sender<bool>),
    /// That it survives a power failure.
    Durable(oneshot::Sender<bool>),
}

/// The result of queueing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    Yes,
    /// It is counted as suppressed.
    Counted,
    /// It is lost: the writer is too slow or gone.
    Lost,
}

/// The callers' end.
pub(super) struct Queue {
    orders: Sender<Box<Order>>,
    limits: Arc<Limits>,
}

/// The writer's end.
pub(super) struct Orders {
    orders: Receiver<Box<Order>>,
    limits: Arc<Limits>,
}

#[derive(Default)]
struct Limits {
    waiting: AtomicUsize,
    refused: AtomicUsize,
    dropped: Dropped,
}

/// Records that did not fit and were counted, by the number of their event.
struct Dropped([AtomicU64; Event::ALL.len()]);

impl Default for Dropped {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; Event::ALL.len()])
    }
}

pub(super) fn queue() -> (Queue, Orders) {
    let (sender, receiver) = channel();
    let limits = Arc::<Limits>::default();
    let queue = Queue {
        orders: sender,
        limits: Arc::clone(&limits),
    };
    let orders = Orders {
        orders: receiver,
        limits,
    };
    (queue, orders)
}

impl Queue {
    /// Never waits.
    pub(super) fn push(&self, order: Order) -> Queued {
        let (count, limit) = self.limits.of(&order);
        let full = count.fetch_add(1, Ordering::Relaxed) >= limit;
        if !full {
            return match self.orders.send(Box::new(order)) {
                Ok(()) => Queued::Yes,
                Err(SendError(_)) => Queued::Lost,
            };
        }
        count.fetch_sub(1, Ordering::Relaxed);
        match order {
            Order::Record(entry, Wait::Nothing) if class(&entry) != Class::Act => {
                self.limits.dropped.0[entry.event as usize].fetch_add(1, Ordering::Relaxed);
                Queued::Counted
            }
            Order::Record(..) | Order::Tick(_) => Queued::Lost,
        }
    }
}

impl Orders {
    /// The next order; waits at most that long, or as long as it takes.
    pub(super) fn next(&self, wait: Option<Duration>) -> Result<Order, mpsc::RecvTimeoutError> {
        let order = match wait {
            Some(wait) => self.orders.recv_timeout(wait)?,
            None => self
                .orders
                .recv()
                .map_err(|_| mpsc::RecvTimeoutError::Disconnected)?,
        };
        Ok(self.taken(*order))
    }

    /// Those that wait already.
    pub(super) fn ready(&self) -> impl Iterator<Item = Order> + '_ {
        self.orders.try_iter().map(|order| self.taken(*order))
    }

    /// Records that did not fit and were counted since this was asked last.
    pub(super) fn dropped(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        let counts = Event::ALL.iter().zip(&self.limits.dropped.0);
        counts
            .map(|(event, count)| (*event, count.swap(0, Ordering::Relaxed)))
            .filter(|(_, times)| *times > 0)
    }

    fn taken(&self, order: Order) -> Order {
        self.limits.of(&order).0.fetch_sub(1, Ordering::Relaxed);
        order
    }
}

impl Limits {
    fn of(&self, order: &Order) -> (&AtomicUsize, usize) {
        match order {
            Order::Record(entry, _) if class(entry) == Class::Refused => {
                (&self.refused, WAITING_REFUSED)
            }
            Order::Record(entry, Wait::Nothing) if class(entry) != Class::Act => {
                (&self.waiting, WAITING_REPEATED)
            }
            Order::Record(..) | Order::Tick(_) => (&self.waiting, WAITING),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    #[test]
    fn writes_beyond_their_part_of_the_queue_are_counted_and_leave_room_for_others() {
        let (queue, orders) = queue();
        for n in 0..WAITING {
            let expected = if n < WAITING_REPEATED {
                Queued::Yes
            } else {
                Queued::Counted
            };
            assert_eq!(queue.push(record(Event::Write)), expected);
        }
        for _ in 0..WAITING - WAITING_REPEATED {
            assert_eq!(queue.push(record(Event::Deploy)), Queued::Yes);
        }
        let dropped: Vec<_> = orders.dropped().collect();
        assert_eq!(dropped, [(Event::Write, WAITING_REPEATED as u64)]);
    }

    use super::*;
    use serde_json::json;

    fn record(event: Event) -> Order {
        Order::Record(Entry::of_program(event, json!({}), 0), Wait::Nothing)
    }

    #[test]
    fn refusals_beyond_the_queue_limit_are_counted_and_displace_nothing() {
        let (queue, orders) = queue();
        for n in 0..3 * WAITING_REFUSED {
            let expected = if n < WAITING_REFUSED {
                Queued::Yes
            } else {
                Queued::Counted
            };
            assert_eq!(queue.push(record(Event::Denied)), expected);
        }
        for _ in 0..WAITING {
            assert_eq!(queue.push(record(Event::Deploy)), Queued::Yes);
        }
        assert_eq!(queue.push(record(Event::Deploy)), Queued::Lost);
        let dropped: Vec<_> = orders.dropped().collect();
        assert_eq!(dropped, [(Event::Denied, 2 * WAITING_REFUSED as u64)]);
        assert_eq!(orders.dropped().count(), 0);

        // A record that is taken makes room; the order of arrival is kept.
        let first = orders.next(None).unwrap();
        assert!(matches!(first, Order::Record(entry, _) if entry.event == Event::Denied));
        assert_eq!(queue.push(record(Event::Denied)), Queued::Yes);
        assert_eq!(queue.push(record(Event::Denied)), Queued::Counted);
        assert_eq!(orders.ready().count(), WAITING_REFUSED + WAITING);
        assert_eq!(queue.push(record(Event::Deploy)), Queued::Yes);
    }
}
