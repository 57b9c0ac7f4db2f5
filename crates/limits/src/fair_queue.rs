//! A fair queue for work that takes long, such as a password to hash: bounded, fair among addresses
//! or users, and with room kept for known ones.
//!
//! Two lanes take turns: known parties and others. Within a lane the parties take turns (start-time
//! fair queuing, Goyal et al. 1996); in a full lane a newcomer takes the place of the party that
//! holds the most (as `fq_codel` does, RFC 8290 §4.1). So a storm holds up its own party first,
//! then other unknown ones, and known ones hardly.

use crate::party::Party;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Requests that wait at most. At 20 ms a hash and two at a time the last one waits for 2.6 s;
/// further ones are refused with a retry time.
const WAITING: usize = 256;

/// The maximum of these in one lane; the others stay free for the other lane.
const LANE: usize = 192;

/// The longest wait for a turn. Our choice: clients and the proxies before them give up after 30 s
/// or more.
pub const MAX_WAIT: Duration = Duration::from_secs(10);

/// Hands out turns, a few at a time.
#[derive(Debug)]
pub struct FairQueue {
    turns: usize,
    longest_wait: Duration,
    state: Mutex<State>,
}

/// The right to work; the next one gets it when this is dropped.
#[derive(Debug)]
pub struct Turn(Arc<FairQueue>);

#[derive(Debug, Default)]
struct State {
    taken: usize,
    entered: u64,
    known: Lane,
    strangers: Lane,
    /// True if the known lane had the last turn.
    last_was_known: bool,
}

/// Those who wait, in the order in which they came.
#[derive(Debug, Default)]
struct Lane {
    waiting: Vec<Waiting>,
    /// The number of those waiting for each party.
    counts: HashMap<Party, usize>,
    /// The round that is being served.
    round: usize,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    party: Party,
    /// When it is served: after as many rounds as its party had waiting before it.
    round: usize,
    turn: oneshot::Sender<Turn>,
}

impl FairQueue {
    /// With this many turns at a time, one at least.
    pub fn new(turns: usize) -> Arc<Self> {
        Arc::new(Self {
            turns: turns.max(1),
            longest_wait: MAX_WAIT,
            state: Mutex::default(),
        })
    }

    /// Waits for a turn; `None` if the queue is full, or the wait too long.
    pub async fn turn(self: &Arc<Self>, party: impl Into<Party>, known: bool) -> Option<Turn> {
        let party = party.into();
        let (turn, granted) = oneshot::channel();
        let place = {
            let mut state = self.state();
            if state.taken < self.turns {
                state.taken += 1;
                return Some(Turn(Arc::clone(self)));
            }
            let number = state.enter(party, known, turn)?;
            WaitingTurn {
                queue: self,
                number,
            }
        };
        let waited = tokio::time::timeout(self.longest_wait, granted).await;
        drop(place);
        waited.ok()?.ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut state = self.0.state();
            state.taken -= 1;
            let next = state.next();
            state.taken += usize::from(next.is_some());
            next
        };
        if let Some(next) = next {
            // If that one has left meanwhile, this turn is dropped too, and goes to the next.
            let _ = next.send(Turn(Arc::clone(&self.0)));
        }
    }
}

/// A place in the queue, given up when its sign-in does not wait any more.
struct WaitingTurn<'a> {
    queue: &'a FairQueue,
    number: u64,
}

impl Drop for WaitingTurn<'_> {
    fn drop(&mut self) {
        let state = &mut *self.queue.state();
        for lane in [&mut state.known, &mut state.strangers] {
            if let Some(index) = lane.waiting.iter().position(|w| w.number == self.number) {
                lane.remove(index);
            }
        }
    }
}

impl State {
    /// Takes a place in a lane; `None` if it is full, and no other address there holds more.
    fn enter(&mut self, party: Party, known: bool, turn: oneshot::Sender<Turn>) -> Option<u64> {
        let (lane, other) = if known {
            (&mut self.known, &self.strangers)
        } else {
            (&mut self.strangers, &self.known)
        };
        if lane.waiting.len() >= LANE.min(WAITING - other.waiting.len()) {
            lane.make_room(&party)?;
        }
        self.entered += 1;
        lane.add(self.entered, party, turn);
        Some(self.entered)
    }

    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let lanes = if self.last_was_known {
            [(false, &mut self.strangers), (true, &mut self.known)]
        } else {
            [(true, &mut self.known), (false, &mut self.strangers)]
        };
        for (known, lane) in lanes {
            if let Some(turn) = lane.next() {
                self.last_was_known = known;
                return Some(turn);
            }
        }
        None
    }
}

impl Lane {
    fn add(&mut self, number: u64, party: Party, turn: oneshot::Sender<Turn>) {
        let round = self.round + self.share(&party);
        for (party, _) in party.levels() {
            *self.counts.entry(party).or_default() += 1;
        }
        self.waiting.push(Waiting {
            number,
            party,
            round,
            turn,
        });
    }

    /// The earliest round, and in it who came first.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let waiting = self.waiting.iter().enumerate();
        let (index, _) = waiting.min_by_key(|(_, waiting)| waiting.round)?;
        let next = self.remove(index);
        self.round = self.round.max(next.round + 1);
        Some(next.turn)
    }

    /// Sends away the newest of the party that holds the most, if that is more than a newcomer of
    /// this one would hold.
    fn make_room(&mut self, newcomer: &Party) -> Option<()> {
        let waiting = self.waiting.iter().enumerate();
        let (index, most) = waiting
            .map(|(index, waiting)| (index, self.share(&waiting.party)))
            .max_by_key(|(_, share)| *share)?;
        (most > self.share(newcomer) + 1).then(|| drop(self.remove(index)))
    }

    /// The number waiting for a party: the largest count of its networks, each divided by the
    /// network's factor.
    fn share(&self, party: &Party) -> usize {
        let shares = party.levels().map(|(party, factor)| {
            let count = self.counts.get(&party).copied().unwrap_or_default();
            count / usize::try_from(factor).unwrap_or(usize::MAX)
        });
        shares.max().unwrap_or_default()
    }

    fn remove(&mut self, index: usize) -> Waiting {
        let removed = self.waiting.remove(index);
        for (party, _) in removed.party.levels() {
            if let Some(count) = self.counts.get_mut(&party) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&party);
                }
            }
        }
        removed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::*;
    use crate::ip_prefix::IpPrefix;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Waits = Pin<Box<dyn Future<Output = Option<Turn>>>>;

    fn prefix(text: &str) -> IpPrefix {
        IpPrefix::of(text.parse().unwrap())
    }

    fn address(n: usize) -> IpPrefix {
        prefix(&format!("192.0.2.{n}"))
    }

    /// A sign-in that has asked for its turn; `Err`: it was refused at once.
    fn enqueue(
        queue: &Arc<FairQueue>,
        prefix: IpPrefix,
        known: bool,
    ) -> Result<Waits, Option<Turn>> {
        let queue = Arc::clone(queue);
        let mut waits: Waits = Box::pin(async move { queue.turn(prefix, known).await });
        match poll_once(&mut waits) {
            Poll::Pending => Ok(waits),
            Poll::Ready(turn) => Err(turn),
        }
    }

    fn poll_once(waits: &mut Waits) -> Poll<Option<Turn>> {
        waits.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A queue of one turn, which is taken.
    fn busy() -> (Arc<FairQueue>, Turn) {
        let queue = FairQueue::new(1);
        let turn = enqueue(&queue, address(0), false).err().flatten().unwrap();
        (queue, turn)
    }

    /// Returns the order of service, each as soon as the one before is done.
    fn order(mut turn: Turn, mut waiting: Vec<(&str, Waits)>) -> Vec<&str> {
        let mut served = Vec::new();
        while !waiting.is_empty() {
            drop(turn);
            let next =
                waiting
                    .iter_mut()
                    .enumerate()
                    .find_map(|(index, (_, waits))| match poll_once(waits) {
                        Poll::Ready(Some(turn)) => Some((index, turn)),
                        _ => None,
                    });
            let (index, granted) = next.unwrap();
            turn = granted;
            served.push(waiting.remove(index).0);
        }
        served
    }

    #[tokio::test]
    async fn addresses_alternate_and_known_ones_get_every_second_turn() {
        let (queue, turn) = busy();
        let mut waiting = Vec::new();
        for (name, n, known) in [
            ("a1", 1, false),
            ("a2", 1, false),
            ("a3", 1, false),
            ("b1", 2, false),
            ("k1", 3, true),
            ("k2", 3, true),
            ("c1", 4, false),
        ] {
            waiting.push((name, enqueue(&queue, address(n), known).ok().unwrap()));
        }
        let served = order(turn, waiting);
        assert_eq!(served, ["k1", "a1", "k2", "b1", "c1", "a2", "a3"]);
        assert!(
            enqueue(&queue, address(1), false).is_err(),
            "all turns are free"
        );
    }

    #[tokio::test]
    async fn one_address_may_fill_its_lane_but_makes_room_for_others() {
        let (queue, turn) = busy();
        let mut storm: Vec<Waits> = Vec::new();
        while let Ok(waits) = enqueue(&queue, address(1), false) {
            storm.push(waits);
        }
        assert_eq!(storm.len(), LANE);
        let mut honest = enqueue(&queue, address(2), false).ok().unwrap();
        let pushed_out = storm.last_mut().unwrap();
        assert!(
            matches!(poll_once(pushed_out), Poll::Ready(None)),
            "the newest"
        );
        assert!(enqueue(&queue, address(1), false).is_err());
        drop(turn);
        let Poll::Ready(Some(turn)) = poll_once(&mut storm[0]) else {
            panic!("the first is served first")
        };
        drop(turn);
        assert!(matches!(poll_once(&mut honest), Poll::Ready(Some(_))));
    }

    #[tokio::test]
    async fn a_flood_from_many_addresses_leaves_room_for_known_ones() {
        let (queue, turn) = busy();
        let strangers: Vec<_> = (0..LANE)
            .map(|n| enqueue(&queue, address(n), false).ok().unwrap())
            .collect();
        assert!(enqueue(&queue, address(250), false).is_err(), "it is full");
        let mut known: Vec<_> = (0..WAITING - LANE)
            .map(|n| enqueue(&queue, address(n), true).ok().unwrap())
            .collect();
        assert!(enqueue(&queue, address(251), true).is_err(), "that too");
        drop(turn);
        assert!(matches!(poll_once(&mut known[0]), Poll::Ready(Some(_))));
        drop(strangers);
        drop(known);
        assert!(queue.state().known.counts.is_empty());
        assert!(queue.state().strangers.counts.is_empty());
        assert_eq!(queue.state().taken, 0);
    }

    #[tokio::test]
    async fn one_ipv6_48_cannot_lock_out_other_networks() {
        let (queue, _turn) = busy();
        let network = |n: usize| prefix(&format!("2001:db8:0:{n:x}::1"));
        let mut storm: Vec<_> = (0..LANE)
            .map(|n| enqueue(&queue, network(n), false).ok().unwrap())
            .collect();
        assert!(enqueue(&queue, network(LANE), false).is_err());
        assert!(enqueue(&queue, prefix("2001:db8:1::1"), false).is_ok());
        let refused = storm.iter_mut().map(poll_once);
        assert_eq!(refused.filter(Poll::is_ready).count(), 1);
    }

    #[tokio::test]
    async fn a_cancelled_waiter_gives_up_its_position_and_turn() {
        let (queue, turn) = busy();
        let first = enqueue(&queue, address(1), false).ok().unwrap();
        let second = enqueue(&queue, address(2), false).ok().unwrap();
        let mut third = enqueue(&queue, address(3), false).ok().unwrap();
        drop(first);
        assert_eq!(queue.state().strangers.waiting.len(), 2);
        drop(turn);
        // It has its turn, and leaves before it looks.
        drop(second);
        assert!(matches!(poll_once(&mut third), Poll::Ready(Some(_))));
    }

    #[tokio::test]
    async fn the_waiting_time_is_limited() {
        let queue = Arc::new(FairQueue {
            turns: 1,
            longest_wait: Duration::from_millis(20),
            state: Mutex::default(),
        });
        let _turn = queue.turn(address(0), true).await.unwrap();
        assert!(queue.turn(address(1), true).await.is_none());
        assert!(queue.state().known.waiting.is_empty());
    }
}
