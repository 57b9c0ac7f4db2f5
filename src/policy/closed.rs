//! `read_only`, freeze windows, and the freeze that an operator has commanded: times without any
//! deployment.

use super::{Rule, Verdict, Violation};
use crate::audit::rfc3339;
use crate::config::{FreezeWindow, Policy};
use jiff::Timestamp;

/// A freeze that an operator has commanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freeze {
    /// When it ends, seconds since 1970.
    pub until: u64,
    /// The reason, for users.
    pub reason: String,
}

/// Whether nothing may be deployed now, in seconds since 1970.
pub fn closed(policy: &Policy, commanded: Option<&Freeze>, now: u64) -> Verdict {
    let read_only = policy.read_only.then(|| {
        let sentence = "the flows are read-only here ([policy] read_only)";
        violation(Rule::ReadOnly, sentence.to_owned())
    });
    let windows = policy.freeze.iter();
    let windows = windows.filter_map(|window| Some((end(window, now)?, window.reason.as_str())));
    let commanded = commanded.map(|freeze| (freeze.until, freeze.reason.as_str()));
    let freezes = windows.chain(commanded).filter(|(until, _)| now < *until);
    let longest = freezes.max_by_key(|(until, _)| *until);
    let frozen = longest.map(|(until, reason)| {
        let sentence = format!("deployments are frozen until {}: {reason}", rfc3339(until));
        violation(Rule::Freeze, sentence)
    });
    Verdict(read_only.into_iter().chain(frozen).collect())
}

/// The end of the window that began last, seconds since 1970; `None`: none has begun.
fn end(window: &FreezeWindow, now: u64) -> Option<u64> {
    let now = Timestamp::from_second(i64::try_from(now).ok()?).ok()?;
    let local = now.to_zoned(window.time_zone.clone());
    let began = window.cron.find_previous_occurrence(&local, true).ok()?;
    let began = u64::try_from(began.timestamp().as_second()).ok()?;
    Some(began + window.duration.as_secs())
}

fn violation(rule: Rule, message: String) -> Violation {
    Violation {
        rule,
        nodes: Vec::new(),
        message,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(time: &str) -> u64 {
        let time: Timestamp = time.parse().unwrap();
        time.as_second().try_into().unwrap()
    }

    fn shown(policy: &Policy, commanded: Option<&Freeze>, time: &str) -> String {
        closed(policy, commanded, at(time)).to_string()
    }

    #[test]
    fn a_window_closes_from_its_start_in_its_time_zone_for_its_duration() {
        let window = FreezeWindow {
            cron: "0 6 * * 1-5".parse().unwrap(),
            duration: Duration::from_hours(12),
            time_zone: jiff::tz::db().get("Europe/Berlin").unwrap(),
            reason: "shift".to_owned(),
        };
        let policy = Policy {
            freeze: vec![window],
            ..Policy::default()
        };
        // A Friday and a Monday in summer, two hours ahead of UTC.
        for (time, frozen) in [
            ("2026-07-10T03:59:59Z", false),
            ("2026-07-10T04:00:00Z", true),
            ("2026-07-10T15:59:59Z", true),
            ("2026-07-10T16:00:00Z", false),
            ("2026-07-11T10:00:00Z", false),
            ("2026-07-13T10:00:00Z", true),
            ("2026-01-09T04:30:00Z", false),
            ("2026-01-09T05:00:00Z", true),
        ] {
            assert_eq!(!shown(&policy, None, time).is_empty(), frozen, "{time}");
        }
        assert_eq!(
            shown(&policy, None, "2026-07-10T10:00:00Z"),
            "deployments are frozen until 2026-07-10T16:00:00Z: shift"
        );
    }

    #[test]
    fn a_commanded_freeze_ends_at_its_time() {
        let freeze = Freeze {
            until: at("2026-07-10T10:00:00Z"),
            reason: "line 3 is running".to_owned(),
        };
        let policy = Policy::default();
        assert_eq!(
            shown(&policy, Some(&freeze), "2026-07-10T09:59:59Z"),
            "deployments are frozen until 2026-07-10T10:00:00Z: line 3 is running"
        );
        assert_eq!(shown(&policy, Some(&freeze), "2026-07-10T10:00:00Z"), "");
    }

    #[test]
    fn read_only_is_closed_at_any_time() {
        let policy = Policy {
            read_only: true,
            ..Policy::default()
        };
        assert!(shown(&policy, None, "2026-07-10T10:00:00Z").contains("read_only"));
    }
}
