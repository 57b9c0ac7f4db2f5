//! Suppression of records by kind, user and address, in time.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::audit::Actor;
use serde_json::Value;
use std::time::Duration;

const NOW: u64 = 1_700_000_000;

fn limits() -> config::Audit {
    config::Audit {
        off: false,
        stdout: false,
        rotate_size: 16 << 20,
        rotate_age: Duration::from_hours(168),
        keep: 10,
        keep_for: Duration::from_hours(24 * 90),
        max_size: 1 << 30,
        refuse: true,
        signing_key: None,
        checkpoint: Duration::from_mins(1),
        sinks: Vec::new(),
    }
}

fn entry(event: Event, user: &str, address: &str, now: u64) -> Entry {
    Entry {
        event,
        actor: Actor {
            user: user.into(),
            address: Some(address.parse().unwrap()),
            has_all: false,
            ..Actor::program()
        },
        now,
        facts: json!({}),
    }
}

/// The number of events that each record counts.
fn times(written: &[Entry]) -> Vec<u64> {
    let times = written.iter().map(|entry| entry.facts["times"].as_u64());
    times.map(|times| times.unwrap_or(1)).collect()
}

#[test]
fn the_first_refusals_of_a_user_and_address_are_written_and_the_others_counted() {
    for event in [
        Event::Denied,
        Event::LoginCredentials,
        Event::LoginScope,
        Event::LoginThrottled,
        Event::LoginInvalid,
        Event::LoginStore,
        Event::LoginProvider,
        Event::Lockout,
        Event::RevokeFail,
        Event::WriteFail,
        Event::CommsRefused,
    ] {
        let mut suppression = Suppression::new(&limits());
        let mut written = Vec::new();
        for n in 0..1000 {
            written.extend(suppression.passed(entry(event, "ann", "192.0.2.1", NOW + n / 50)));
        }
        assert_eq!(times(&written), [1; EACH as usize], "{event:?}");
        assert_eq!(suppression.take_suppressed(), 995);
        // Another user, and another address, have records of their own.
        for (user, address) in [("bob", "192.0.2.1"), ("ann", "192.0.2.2")] {
            assert_eq!(
                suppression.passed(entry(event, user, address, NOW)).len(),
                1
            );
        }
        let summary = suppression.ticked(NOW + WINDOW);
        assert_eq!(times(&summary), [995]);
        let [summary] = &summary[..] else { panic!() };
        assert_eq!((summary.event, summary.actor.user.as_str()), (event, "ann"));
        assert_eq!(summary.facts["since"], "2023-11-14T22:13:20Z");
        assert_eq!(summary.now, NOW + WINDOW);
    }
}

#[test]
fn a_repeated_refusal_is_written_less_often_down_to_once_an_hour() {
    let mut suppression = Suppression::new(&limits());
    let mut at = Vec::new();
    for second in 0..24 * 3600 {
        let denied = entry(Event::Denied, "ann", "192.0.2.1", NOW + second);
        let written = suppression.passed(denied);
        at.extend(times(&written).into_iter().map(|times| (second, times)));
    }
    let [one, .., last] = &at[..] else { panic!() };
    assert_eq!((*one, last.1), ((0, 1), MAX_WINDOW));
    assert_eq!(
        at[5..9].iter().map(|at| at.0).collect::<Vec<_>>(),
        [60, 180, 420, 900]
    );
    assert!(at.len() < 5 + 6 + 24, "{at:?}");

    // After an hour of silence it is written at once again.
    assert_eq!(times(&suppression.ticked(NOW + 30 * 3600)).len(), 1);
    assert!(suppression.ticked(NOW + 32 * 3600).is_empty());
    assert_eq!(suppression.len(), 0);
}

#[test]
fn unknown_users_from_one_network_are_counted_together() {
    let mut suppression = Suppression::new(&limits());
    let mut written = Vec::new();
    for n in 0..100 {
        let unknown = format!("unknown:{n:08x}");
        let address = format!("2001:db8::{n:x}");
        written.extend(suppression.passed(entry(Event::LoginCredentials, &unknown, &address, NOW)));
    }
    assert_eq!(written.len(), EACH as usize);
    assert_eq!(times(&suppression.flushed()), [95]);
}

#[test]
fn acts_of_a_user_are_written_each_while_the_bytes_of_that_user_last_and_those_of_an_administrator_always()
 {
    for event in Event::ALL {
        let act = |user: &str, has_all: bool| {
            let mut act = entry(*event, user, "192.0.2.1", NOW);
            act.actor.has_all = has_all;
            act
        };
        if class(&act("ann", false)) != Class::Act {
            continue;
        }
        let mut suppression = Suppression::new(&limits());
        for _ in 0..10_000 {
            assert_eq!(suppression.passed(act("admin", true)).len(), 1);
        }
        assert_eq!((suppression.len(), suppression.take_suppressed()), (0, 0));
        let mut lines = Vec::new();
        for _ in 0..10_000 {
            lines.extend(suppression.passed(act("ann", false)));
        }
        let burst = (1 << 20) / (FIXED + 5);
        let least = usize::try_from(burst).unwrap();
        assert!((least..least + 4).contains(&lines.len()), "{}", lines.len());
        lines.extend(suppression.flushed());
        assert_eq!(times(&lines).iter().sum::<u64>(), 10_000, "{event:?}");
    }
}

#[test]
fn repeated_writes_are_counted_each_by_itself_and_distinct_ones_per_user() {
    let mut suppression = Suppression::new(&limits());
    let write = |user: &str, path: String, now| Entry {
        facts: json!({ "method": "POST", "path": path, "status": 200 }),
        ..entry(Event::Write, user, "192.0.2.1", now)
    };
    let mut equal = Vec::new();
    for _ in 0..2000 {
        equal.extend(suppression.passed(write("ann", "/inject/a".into(), NOW)));
    }
    assert_eq!(equal.len(), 5);
    let summary = suppression.ticked(NOW + WINDOW);
    assert_eq!(times(&summary), [1995]);
    assert_eq!(summary[0].facts["path"], "/inject/a");

    // A day of distinct writes: they cost a burst and a share, and hide no other act of the user.
    let (mut bytes, mut written) = (0, 0);
    for second in 0..86_400_u64 {
        for n in 0..10 {
            let path = format!("/context/global/{second}-{n}");
            for entry in suppression.passed(write("ann", path, NOW + WINDOW + second)) {
                bytes += cost(&entry);
                written += times(&[entry])[0];
            }
        }
        if second % 3600 == 1800 {
            let token = entry(
                Event::TokenCreate,
                "ann",
                "192.0.2.1",
                NOW + WINDOW + second,
            );
            let found = suppression.passed(token);
            assert!(found.iter().any(|entry| entry.event == Event::TokenCreate));
            let other = write("bob", format!("/inject/{second}"), NOW + WINDOW + second);
            assert_eq!(suppression.passed(other).len(), 1);
        }
    }
    // 64 such users for 90 days do not fill the log.
    assert!(
        bytes < (1 << 20) + (1 << 30) / 64 / 90 + (200 << 10),
        "{bytes}"
    );
    assert!(suppression.len() < 100, "{}", suppression.len());
    let left: u64 = times(&suppression.flushed()).iter().sum();
    assert_eq!(written + left, 864_000);
}

#[test]
fn the_reserve_is_for_administrators_and_security_relevant_records() {
    let mut suppression = Suppression::new(&limits());
    suppression.ticked(NOW);
    suppression.set_reserve(true);
    let mut lines = Vec::new();
    let mut pass = |event, user: &str, has_all| {
        let mut record = entry(event, user, "192.0.2.1", NOW);
        record.actor.has_all = has_all;
        suppression.pass(record, &mut |entry| {
            lines.push((entry.event, entry.actor.user.clone()));
            true
        })
    };
    for _ in 0..100 {
        for event in [Event::Write, Event::WriteBegin, Event::CommsOpen] {
            assert!(!pass(event, "ann", false), "{event:?}");
        }
        for event in [Event::Login, Event::Deploy, Event::Denied] {
            assert!(pass(event, "ann", false), "{event:?}");
        }
    }
    assert!(pass(Event::Login, "bob", false));
    for event in [Event::Login, Event::Deploy, Event::Write, Event::WriteBegin] {
        assert!(pass(event, "admin", true), "{event:?}");
    }
    let of = |user: &str| lines.iter().filter(|(_, of)| of == user).count();
    assert_eq!((of("ann"), of("bob"), of("admin")), (3 + 3, 1, 4));
    // The counts are written from time to time.
    let counted = suppression.ticked(NOW + 300);
    let times: u64 = times(&counted).iter().sum();
    assert_eq!(times, 300 + 97 + 97 + 100);
}

#[test]
fn acts_that_any_user_can_repeat_are_counted_per_user() {
    for event in [
        Event::SecretRead,
        Event::Login,
        Event::Revoke,
        Event::CommsOpen,
        Event::CommsClose,
    ] {
        let mut suppression = Suppression::new(&limits());
        let one = |n: u64, user: &str| Entry {
            facts: json!({ "path": format!("/credentials/x/{n}") }),
            ..entry(
                event,
                user,
                &format!("2001:db8:{:x}:{:x}::1", n >> 16, n & 0xffff),
                NOW + n / 2,
            )
        };
        let mut lines = Vec::new();
        for n in 0..2 * 86_400 {
            lines.extend(suppression.passed(one(n, "")));
        }
        assert!(lines.len() <= 24 * (30 + 12), "{event:?}: {}", lines.len());
        // Another user has a budget of their own.
        assert_eq!(suppression.passed(one(2 * 86_400 - 1, "ann")).len(), 1);
        lines.extend(suppression.flushed());
        assert_eq!(times(&lines).iter().sum::<u64>(), 2 * 86_400);
        assert!(lines[..30].iter().all(|line| line.facts["times"].is_null()));
        let summary = &lines[30];
        assert_eq!((summary.event, summary.actor.user.as_str()), (event, ""));
        assert_eq!(summary.facts["since"], rfc3339(NOW + 15));
        assert_eq!(summary.facts["until"], rfc3339(NOW + 314));
        assert_eq!(summary.facts["times"], 600);
    }
}

#[test]
fn users_beyond_the_key_limit_are_counted_together() {
    let mut suppression = Suppression::new(&limits());
    let mut lines = Vec::new();
    for n in 0..5 * MAX_USERS {
        let user = format!("user{n}");
        lines.extend(suppression.passed(entry(Event::Login, &user, "192.0.2.1", NOW)));
    }
    assert_eq!(lines.len(), MAX_USERS + 1);
    lines.extend(suppression.flushed());
    assert_eq!(times(&lines).iter().sum::<u64>(), 5 * MAX_USERS as u64);
}

#[test]
fn a_count_that_cannot_be_written_is_kept_until_it_can() {
    for event in [Event::Write, Event::SecretRead, Event::Denied, Event::Login] {
        let mut suppression = Suppression::new(&limits());
        let mut written = Vec::new();
        for _ in 0..100 {
            written.extend(suppression.passed(entry(event, "ann", "192.0.2.1", NOW)));
        }
        suppression.dropped(Event::Denied, 100);
        let mut attempts = 0;
        for second in 0..1000 {
            suppression.tick(NOW + second, &mut |_| {
                attempts += 1;
                false
            });
        }
        assert!((10..=20).contains(&attempts), "{event:?}: {attempts}");
        suppression.flush(&mut |_| false);
        let mut summaries = suppression.ticked(NOW + 1100);
        summaries.extend(suppression.flushed());
        written.extend(summaries);
        assert_eq!(times(&written).iter().sum::<u64>(), 200, "{event:?}");
    }
}

#[test]
fn a_deployment_that_fails_after_it_was_recorded_is_no_refusal() {
    let fail = |reason: &str| Entry {
        facts: json!({ "reason": reason }),
        ..entry(Event::DeployFail, "ann", "192.0.2.1", NOW)
    };
    for (reason, expected) in [
        ("stale", Class::Refused),
        ("malformed", Class::Refused),
        ("no_such_flow", Class::Refused),
        ("storage_failed", Class::Act),
        ("audit_unavailable", Class::Act),
        ("upstream", Class::Act),
        ("refused", Class::Act),
    ] {
        assert_eq!(class(&fail(reason)), expected, "{reason}");
    }
}

#[test]
fn many_addresses_use_up_the_credit_and_are_then_counted_per_kind() {
    let mut suppression = Suppression::new(&limits());
    let mut lines = Vec::new();
    let mut offered = 0;
    for second in 0..3600 {
        for n in 0..20 {
            let address = format!("10.{}.{}.{n}", second / 256, second % 256);
            let denied = entry(Event::Denied, "ann", &address, NOW + second);
            lines.extend(suppression.passed(denied));
            offered += 1;
        }
        assert!(suppression.len() <= MAX_KEYS + 1);
    }
    let size = FIXED + 5;
    let credit = (BURST + 3600 * (1 << 29) / (90 * 86_400)) / size;
    assert!(
        lines.len() as u64 <= credit + 7,
        "{} of {credit}",
        lines.len()
    );
    lines.extend(suppression.flushed());
    assert_eq!(times(&lines).iter().sum::<u64>(), offered);
    let all = lines
        .iter()
        .find(|line| line.actor.address.is_none())
        .unwrap();
    assert_eq!(all.facts["of"], "several users or addresses");

    // The first of another kind is written all the same.
    let other = entry(Event::LoginInvalid, "", "192.0.2.1", NOW + 3600);
    assert_eq!(suppression.passed(other).len(), 1);
}

#[test]
fn a_day_of_distributed_refusals_leaves_room_in_the_log() {
    let mut suppression = Suppression::new(&limits());
    let kinds = [Event::Denied, Event::LoginCredentials, Event::CommsRefused];
    let mut bytes = 0;
    for second in (0..86_400).step_by(7) {
        for (n, event) in kinds.into_iter().enumerate() {
            let address = format!("10.{}.{}.{n}", second / 256 % 256, second % 256);
            let refused = entry(event, "ann", &address, NOW + second);
            bytes += suppression.passed(refused).len() as u64 * FIXED;
        }
    }
    // 90 days of that are less than what the log may have.
    assert!(bytes < (1 << 30) / 90, "{bytes}");
}

#[test]
fn a_count_is_written_even_if_the_clock_is_set_back() {
    let mut suppression = Suppression::new(&limits());
    for _ in 0..10 {
        suppression.passed(entry(Event::Denied, "ann", "192.0.2.1", NOW + 86_400));
    }
    // A slow request does not set the time back.
    assert!(
        suppression
            .passed(entry(Event::Deploy, "ann", "192.0.2.1", NOW))
            .len()
            == 1
    );
    assert!(suppression.ticked(NOW + 86_400 + WINDOW - 1).is_empty());
    assert!(suppression.ticked(NOW).is_empty());
    assert_eq!(times(&suppression.ticked(NOW + WINDOW)), [5]);
}

#[test]
fn refusals_dropped_before_suppression_are_counted_too() {
    let mut suppression = Suppression::new(&limits());
    suppression.ticked(NOW);
    suppression.dropped(Event::Denied, 1000);
    let summary = suppression.ticked(NOW + WINDOW);
    assert_eq!(times(&summary), [1000]);
    assert_eq!(summary[0].facts["times"], Value::from(1000));
    assert_eq!(suppression.take_suppressed(), 1000);
}

#[test]
fn invariants_hold_for_sequences_beyond_the_key_limit() {
    for seed in [1_u64, 0x9e37_79b9, 0xdead_beef_cafe] {
        let mut state = seed;
        let mut next = || {
            // xorshift64 (Marsaglia 2003)
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        // 1 GiB an hour: credit never runs out, so that keys do.
        let mut data = vec![0x0f];
        data.extend((0..40_000).map(|_| next()));
        // The clock stands still most of the time.
        for step in data[1..].chunks_exact_mut(4) {
            step[3] = if step[3] < 250 { 0 } else { step[3] };
        }
        crate::audit::fuzzing::suppression(&data);
    }
}
