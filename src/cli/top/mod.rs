//! `flowgate top`: requests, nodes and sessions of the running gateway, live on a terminal
//! ([`live`]); the nodes as text ([`plain`]) where there is none. It asks over the control socket,
//! so that a gateway that is not watched does nothing for it.

mod app;
mod draw;
mod live;
mod plain;
mod requests;

use super::control;
use crate::auth::SessionInfo;
use crate::config::{Config, parse_duration};
use crate::server::{Answer, Ask};
use crate::stdio::{print_line, report};
use engine::profile::Profile;
use requests::Counters;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

const OTHER_VERSION: &str = "the running flowgate gives another answer: it is of another version";

/// The interval between two views.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(30);
    let interval = parse_duration(text).filter(|interval| range.contains(interval));
    interval.ok_or_else(|| "expected a duration from 1s to 30s".to_owned())
}

/// Shows the live view, or the nodes of one interval if that is wanted or the output is no
/// terminal.
pub(super) fn show(config: &Config, interval: Duration, once: bool) -> ExitCode {
    if !once && io::stdout().is_terminal() {
        return live::run(config, interval);
    }
    let (profile, memory) = match profile(config, interval) {
        Ok(measured) => measured,
        Err(reason) => return refuse(&reason),
    };
    print_line(plain::view(&profile, memory));
    ExitCode::SUCCESS
}

fn refuse(reason: &str) -> ExitCode {
    report(format_args!("flowgate: {reason}"));
    ExitCode::FAILURE
}

fn profile(config: &Config, interval: Duration) -> Result<(Profile, u64), String> {
    let ask = Ask::Profile {
        seconds: interval.as_secs_f64(),
    };
    // An engine in a process of its own has a control socket of its own.
    let process = config.engine.process.as_ref();
    let directory = process.map_or(&config.storage.directory, |process| &process.directory);
    match control::answer(directory, &ask)? {
        Answer::Profile { profile, memory } => Ok((profile, memory)),
        Answer::Refused(reason) => Err(reason),
        _ => Err(OTHER_VERSION.to_owned()),
    }
}

fn sessions(config: &Config) -> Result<Vec<SessionInfo>, String> {
    match control::answer(&config.storage.directory, &Ask::List)? {
        Answer::Sessions(sessions) => Ok(sessions),
        Answer::Refused(reason) => Err(reason),
        _ => Err(OTHER_VERSION.to_owned()),
    }
}

fn metrics(config: &Config) -> Result<Counters, String> {
    match control::answer(&config.storage.directory, &Ask::Metrics)? {
        Answer::Metrics(page) => Ok(Counters::read(&page)),
        Answer::Refused(reason) => Err(reason),
        _ => Err(OTHER_VERSION.to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_from_one_to_thirty_seconds() {
        assert_eq!(interval("2s").unwrap(), Duration::from_secs(2));
        for wrong in ["0s", "31s", "1m", "2", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
