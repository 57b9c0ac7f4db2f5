//! The budget of a node's work on one message: time, and bytes that it makes.
//!
//! The budget belongs to the thread, so that a format checks it wherever its work may be more than
//! linear in its text, without a parameter through all of its functions. A thread with [usual
//! limits](set_usual) has a whole budget again at each [`begin`]; [`within`] gives other limits for
//! a while. Other work has no limits.

use super::Failure;
use smol_str::SmolStr;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The `code` of a failure because of time.
pub const TIME: &str = "WORK_TIMEOUT";
/// The `code` of a failure because of bytes.
pub const BYTES: &str = "WORK_MEMORY";

/// Units of work between two looks at the clock: some 10 µs.
const UNITS_PER_LOOK: usize = 4096;

/// The limits of some work.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Its longest run; `None`: any.
    pub time: Option<Duration>,
    /// The bytes that it may make; `None`: any number.
    pub bytes: Option<usize>,
    /// Set when nothing waits for the result any more: the work ends as if its time were over.
    pub stopped: Option<Arc<AtomicBool>>,
}

struct Budget {
    limits: Limits,
    /// The end of the time; set when the clock is first looked at, so that small work costs no
    /// look.
    ends: Option<Instant>,
    /// Bytes that are left.
    bytes: usize,
    /// Units until the next look at the clock.
    units: usize,
    /// The error of the limit that was exceeded: it stays so.
    exceeded: Option<&'static str>,
}

thread_local! {
    static BUDGET: RefCell<Option<Budget>> = const { RefCell::new(None) };
    /// True if the usual budget begins anew when it is next used: most work never asks for it.
    static BEGINS: Cell<bool> = const { Cell::new(false) };
    static USUAL: RefCell<Option<Limits>> = const { RefCell::new(None) };
}

/// Puts the budget back that was there before, after a panic as well.
struct Restore {
    budget: Option<Budget>,
    begins: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.budget.take();
        BUDGET.with(|budget| *budget.borrow_mut() = before);
        BEGINS.set(self.begins);
    }
}

/// Sets the limits of all work of this thread.
pub fn set_usual(limits: Limits) {
    USUAL.with(|usual| *usual.borrow_mut() = Some(limits));
}

/// Begins other work, with the whole budget of this thread.
#[inline]
pub fn begin() {
    BEGINS.set(true);
}

/// Takes from the budget of now, if there is one.
fn take(act: impl FnOnce(&mut Budget) -> Result<(), Failure>) -> Result<(), Failure> {
    BUDGET.with(|budget| {
        let mut budget = budget.borrow_mut();
        if BEGINS.replace(false) {
            *budget = USUAL.with(|usual| usual.borrow().clone()).map(Budget::new);
        }
        budget.as_mut().map_or(Ok(()), act)
    })
}

/// Does work within limits. A limit inside of another one replaces it.
pub fn within<T>(limits: Limits, work: impl FnOnce() -> T) -> T {
    let budget = Budget::new(limits);
    let _restore = Restore {
        budget: BUDGET.with(|current| current.borrow_mut().replace(budget)),
        begins: BEGINS.replace(false),
    };
    work()
}

/// Takes units of work from the budget; a unit is some nanoseconds. Fails when the time is over.
#[inline]
pub fn work(units: usize) -> Result<(), Failure> {
    take(|budget| budget.work(units))
}

/// Takes bytes that were made, or are about to be, from the budget, and as many units of work by
/// the 16.
#[inline]
pub fn made(bytes: usize) -> Result<(), Failure> {
    take(|budget| budget.made(bytes))
}

/// Returns whether a limit was exceeded, for work that cannot fail where it is done.
pub fn check() -> Result<(), Failure> {
    work(0)
}

impl Budget {
    fn new(limits: Limits) -> Self {
        Self {
            bytes: limits.bytes.unwrap_or(usize::MAX),
            ends: None,
            units: UNITS_PER_LOOK,
            exceeded: None,
            limits,
        }
    }

    #[inline]
    fn work(&mut self, units: usize) -> Result<(), Failure> {
        if units < self.units {
            self.units -= units;
            return match self.exceeded {
                None => Ok(()),
                Some(code) => Err(self.failure(code)),
            };
        }
        self.look()
    }

    fn made(&mut self, bytes: usize) -> Result<(), Failure> {
        match self.bytes.checked_sub(bytes) {
            Some(left) => self.bytes = left,
            None => {
                self.exceeded.get_or_insert(BYTES);
            }
        }
        self.work(1 + bytes / 16)
    }

    #[cold]
    fn look(&mut self) -> Result<(), Failure> {
        self.units = UNITS_PER_LOOK;
        let stopped = (self.limits.stopped.as_ref()).is_some_and(|s| s.load(Ordering::Relaxed));
        let late = self.limits.time.is_some_and(|time| {
            let now = Instant::now();
            now >= *self.ends.get_or_insert_with(|| now + time)
        });
        if stopped || late {
            self.exceeded.get_or_insert(TIME);
        }
        match self.exceeded {
            None => Ok(()),
            Some(code) => Err(self.failure(code)),
        }
    }

    #[cold]
    fn failure(&self, code: &'static str) -> Failure {
        let message = if code == BYTES {
            let bytes = self.limits.bytes.unwrap_or_default();
            format!("the work on one message makes more than {bytes} bytes")
        } else {
            let time = self.limits.time.unwrap_or_default();
            format!("the work on one message takes longer than {time:?}")
        };
        Failure {
            code: SmolStr::new_static(code),
            ..Failure::error(message)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn work_without_a_budget_has_no_limits() {
        assert!(work(usize::MAX).is_ok() && made(usize::MAX).is_ok());
    }

    #[test]
    fn bytes_that_are_made_are_counted_and_an_exceeded_budget_stays_exceeded() {
        let limits = Limits {
            bytes: Some(100),
            ..Limits::default()
        };
        let failure = within(limits, || {
            made(60).and_then(|()| made(40)).unwrap();
            assert!(made(1).is_err());
            check().unwrap_err()
        });
        assert_eq!(failure.code, BYTES);
        assert_eq!(
            failure.message,
            "the work on one message makes more than 100 bytes"
        );
        assert!(check().is_ok());
    }

    #[test]
    fn each_beginning_has_the_usual_budget_and_work_within_others_takes_nothing_of_it() {
        set_usual(Limits {
            bytes: Some(10),
            ..Limits::default()
        });
        begin();
        assert!(made(8).is_ok());
        assert!(within(Limits::default(), || made(100)).is_ok());
        assert!(made(8).is_err() && check().is_err());
        begin();
        assert!(within(Limits::default(), || made(100)).is_ok());
        assert!(made(8).is_ok());
    }

    #[test]
    fn time_is_looked_at_after_some_units_and_a_stop_ends_the_work() {
        let stopped = Arc::new(AtomicBool::new(false));
        let limits = Limits {
            stopped: Some(Arc::clone(&stopped)),
            ..Limits::default()
        };
        within(limits, || {
            assert!(work(UNITS_PER_LOOK).is_ok());
            stopped.store(true, Ordering::Relaxed);
            assert!(work(1).is_ok());
            assert_eq!(work(UNITS_PER_LOOK).unwrap_err().code, TIME);
            assert!(work(1).is_err());
        });
        let limits = Limits {
            time: Some(Duration::ZERO),
            ..Limits::default()
        };
        let results = within(limits, || {
            [(); 2].map(|()| work(UNITS_PER_LOOK / 2).is_ok())
        });
        assert_eq!(results, [true, false]);
    }
}
