//! The work of a node on one message, where that may take long.
//!
//! Every call of a node has a budget ([`value::budget`]) of time and of bytes that it makes. Work
//! that may take longer than some milliseconds is done at another thread, and a long sequence of
//! messages is sent in several rounds, so that other flows go on. The node's own flow, and those
//! that it is joined with, wait meanwhile, as if the work were done here: their messages keep their
//! order.

use super::host::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use value::{Failure, Message, PART, Value, budget};

/// Bytes of a value on which the engine's thread works itself, if that takes no longer than
/// [`AT_ONCE`]. Our choice: the fast formats take a millisecond.
const SMALL: usize = 64 << 10;
/// The longest work of the engine's thread on such a value; the rest is done again at another
/// thread. Our choice: a fifth of what other flows may wait.
const AT_ONCE: Duration = Duration::from_millis(10);
/// Messages of a sequence that are sent in one round. Our choice: a millisecond.
const ROUND: usize = 500;

/// A message, and the result of the work on it.
pub(crate) struct Worked<T> {
    pub message: Message,
    pub result: Result<T, Failure>,
}

/// Messages that a node makes of one and sends one by one. It ends at the first failure.
pub(crate) struct Sequence {
    pub messages: Box<dyn Iterator<Item = Result<Message, (Failure, Message)>>>,
    pub done: Done,
}

/// The message that is done with when all are sent.
pub(crate) enum Done {
    Message(Message),
    /// The last one that was sent; this one if there was none.
    Last(Message),
}

/// The bytes of a value, about.
pub(crate) fn size(value: &Value) -> usize {
    value.extent().parts() as usize * PART
}

/// Ends the work when the node has closed.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<E: 'static> Host<'_, E> {
    /// Does work on a value of a message. The result is given back if the value is small and the
    /// work short, else it is an event of the node; the work may begin a second time then.
    pub(crate) fn work<T: Send + 'static>(
        &mut self,
        message: Message,
        size: usize,
        event: fn(Worked<T>) -> E,
        work: impl Fn() -> Result<T, Failure> + Send + 'static,
    ) -> Option<Worked<T>> {
        let mut limits = self.state.work_limits();
        if size <= SMALL {
            let short = budget::Limits {
                time: Some(AT_ONCE),
                ..limits.clone()
            };
            let result = budget::within(short, &work);
            if !matches!(&result, Err(failure) if failure.code == budget::TIME) {
                return Some(Worked { message, result });
            }
        }
        let stopped = Arc::new(AtomicBool::new(false));
        limits.stopped = Some(Arc::clone(&stopped));
        let workers = Arc::clone(&self.state.workers);
        self.state.queue.hold(self.instance.slot);
        self.spawn(async move {
            let _stop = StopOnDrop(stopped);
            // It is never closed: without a permit the work would only not be counted.
            let permit = workers.acquire_owned().await;
            let worker = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                budget::within(limits, work)
            });
            let result = worker.await.unwrap_or_else(|_| {
                let text = "the node failed inside on this message";
                Err(Failure::error(text))
            });
            event(Worked { message, result })
        });
        None
    }

    /// Sends a sequence, in several rounds if it is long: the rest is an event of the node then.
    pub(crate) fn send_sequence(&mut self, mut sequence: Sequence, event: fn(Sequence) -> E) {
        for _ in 0..ROUND {
            match sequence.messages.next() {
                Some(Ok(message)) => {
                    if self.watched()
                        && let Done::Last(last) = &mut sequence.done
                    {
                        *last = message.clone();
                    }
                    self.send(0, message);
                }
                Some(Err((failure, message))) => return self.error(failure, Some(message)),
                None => {
                    let (Done::Message(message) | Done::Last(message)) = sequence.done;
                    return self.done(message);
                }
            }
        }
        self.state.queue.hold(self.instance.slot);
        self.spawn(async move {
            tokio::task::yield_now().await;
            event(sequence)
        });
    }
}
