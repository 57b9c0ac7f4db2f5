//! The memory budget of the whole program: near it sources pause, above it the flows with the
//! largest queues are stopped.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The interval between two looks at the memory in use. Our choice: a look takes some 10 µs, and a
/// fast source reads 100 MB meanwhile.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time that freed memory has to return to the system after flows were stopped, before others
/// are. Our choice.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Sources pause when this part of the budget is left: a tenth. Our choice.
const RESERVE: u64 = 10;
/// A queue that holds less than this part of the budget is not worth stopping its flows. Our
/// choice.
const WORTHWHILE: u64 = 100;

/// The memory that the program needs, compared with its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Normal,
    /// Sources are to pause.
    High,
    /// The flows with the largest queue are to stop.
    Exceeded,
}

/// The budget, and when the memory in use is looked at again.
pub(crate) struct MemoryBudget {
    bytes: u64,
    /// `None`: at once.
    next: Option<Instant>,
    in_use: fn() -> Option<u64>,
}

impl MemoryBudget {
    /// Of this many bytes; `None`: of half of the memory that the machine has, or its control
    /// group.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        Self {
            bytes: bytes.unwrap_or_else(|| available() / 2),
            next: None,
            in_use,
        }
    }

    /// When the memory in use is looked at again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Looks at the memory in use, if that is due.
    pub(crate) fn check(&mut self, now: Instant) -> Option<Usage> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + INTERVAL);
        let in_use = (self.in_use)()?;
        Some(if in_use > self.bytes {
            Usage::Exceeded
        } else if in_use > self.bytes - self.bytes / RESERVE {
            Usage::High
        } else {
            Usage::Normal
        })
    }

    /// Returns whether to stop the flows that hold this much is worth it.
    pub(crate) fn is_worthwhile(&self, bytes: u64) -> bool {
        bytes > self.bytes / WORTHWHILE
    }

    /// Flows have been stopped: their memory is on its way back.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.next = Some(now + GRACE);
    }
}

/// The memory of this program that no file backs, in bytes.
fn in_use() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// The memory that the program may have: the machine's, or less if its control group has a limit.
fn available() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| kibibytes(&text, "MemTotal:"));
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group_limit(Path::new("/sys/fs/cgroup"), &group);
    // Without /proc the memory in use is unknown too, and the budget has no effect.
    machine.into_iter().chain(limit).min().unwrap_or(u64::MAX)
}

/// The lowest limit of a control group and those around it (cgroups(7), version 2).
fn group_limit(root: &Path, groups: &str) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let within = Path::new(own).ancestors();
    within
        .filter_map(|group| fs::read_to_string(root.join(group).join("memory.max")).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

/// A figure of a file in /proc that has one in kB on each line.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    number.checked_mul(1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_ten_times_a_second() {
        let now = Instant::now();
        let usage = |bytes: u64| {
            let mut budget = MemoryBudget::new(Some(bytes));
            budget.in_use = || Some(950);
            budget.check(now + INTERVAL)
        };
        assert_eq!(usage(900), Some(Usage::Exceeded));
        assert_eq!(usage(1000), Some(Usage::High));
        assert_eq!(usage(2000), Some(Usage::Normal));
        let mut budget = MemoryBudget::new(Some(1000));
        assert!(budget.check(now + INTERVAL).is_some());
        assert_eq!(budget.check(now + INTERVAL), None);
        assert!(budget.check(now + 2 * INTERVAL).is_some());
    }

    #[test]
    fn the_memory_in_use_and_that_of_the_machine_are_known() {
        let (used, available) = (in_use().unwrap(), available());
        assert!(used > 100_000 && used < available && available < u64::MAX);
    }

    #[test]
    fn the_limit_of_a_control_group_is_the_lowest_of_those_around_it() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("a/memory.max"), "5000\n").unwrap();
        let limit = |groups: &str| group_limit(root.path(), groups);
        assert_eq!(limit("1:cpu:/x\n0::/a/b\n"), Some(5000));
        assert_eq!(limit("0::/\n"), None);
    }
}
