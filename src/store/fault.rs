//! Places where a test can break a deployment off, as a crash or a failing disk would. Nothing happens there otherwise.

use super::Error;

/// A step lies behind: a crash, or an error, may come now.
#[cfg(not(test))]
#[allow(clippy::unnecessary_wraps, reason = "fails in tests only")]
pub(super) const fn point() -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
pub(super) use planned::{Fault, plan, point};

#[cfg(test)]
mod planned {
    use super::Error;
    use std::cell::Cell;
    use std::io::ErrorKind;

    thread_local!(static PLANNED: Cell<Option<(u32, Fault)>> = const { Cell::new(None) });

    /// What happens at a point.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(in crate::store) enum Fault {
        /// The thread ends here, without any tidying up.
        Crash,
        /// The disk is full.
        Full,
    }

    /// Lets the fault come after so many points of this thread; `None` cancels it.
    pub(in crate::store) fn plan(fault: Option<(u32, Fault)>) {
        PLANNED.set(fault);
    }

    pub(in crate::store) fn point() -> Result<(), Error> {
        match PLANNED.take() {
            None => Ok(()),
            Some((0, Fault::Crash)) => std::panic::resume_unwind(Box::new("crash")),
            Some((0, Fault::Full)) => Err(Error::Io {
                what: "a file".into(),
                source: ErrorKind::StorageFull.into(),
            }),
            Some((points, fault)) => {
                PLANNED.set(Some((points - 1, fault)));
                Ok(())
            }
        }
    }
}
