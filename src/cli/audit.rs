//! `flowgate audit`: makes the key that signs the audit log, and verifies whether the log is as it
//! was written.

use crate::audit::{self, Anchor, KeyError, PublicKey, Report, Signed, SigningKey, Trust};
use crate::config::Config;
use crate::stdio::{print_line, report};
use crate::store;
use clap::Args;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

/// What vouches for the lines.
#[derive(Args)]
pub(super) struct Trusted {
    /// The public key that has signed the log; several, if it was replaced
    #[arg(long = "key", value_name = "PUBLIC", value_parser = public_key)]
    keys: Vec<PublicKey>,
    /// A file of lines that another machine has received; they must be in the log as they are there
    #[arg(long, value_name = "FILE", requires = "keys")]
    seen: Vec<PathBuf>,
    /// Lines that are accepted unsigned, such as 1-250: those before the key was made, or before a
    /// crash
    #[arg(long, value_name = "FROM-TO", value_parser = range, requires = "keys")]
    accept: Vec<RangeInclusive<u64>>,
}

fn public_key(text: &str) -> Result<PublicKey, String> {
    PublicKey::parse(text).ok_or_else(|| "expected what `flowgate audit key` prints".to_owned())
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let numbers = text.split_once('-').and_then(|(from, to)| {
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to).then_some(from..=to)
    });
    numbers.ok_or_else(|| "expected two numbers of lines, such as 1-250".to_owned())
}

/// Makes the key that the config names, unless it is there, and prints its public key.
pub(super) fn key(config: &Config) -> ExitCode {
    let Some(path) = &config.audit.signing_key else {
        report(format_args!(
            "flowgate: name the file of the key first: [audit] signing_key in gateway.toml"
        ));
        return ExitCode::FAILURE;
    };
    let read = SigningKey::read(path);
    let key = match read {
        Err(KeyError::Missing(_)) => {
            let made = SigningKey::make(path);
            if made.is_ok() {
                report(format_args!("made {}; its public key:", path.display()));
            }
            made
        }
        read => read,
    };
    match key {
        Ok(key) => {
            print_line(key.public());
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(format_args!("flowgate: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Verifies these files, or the whole log that the config names.
pub(super) fn check(config: &Config, files: &[PathBuf], trusted: Trusted) -> ExitCode {
    let trust = Trust {
        keys: trusted.keys,
        accepted: trusted.accept,
        seen: trusted.seen,
        anchor: store::audit_head(&config.storage).and_then(|text| Anchor::parse(&text)),
    };
    let directory = &config.storage.directory;
    let found = match (files, trust.keys.is_empty()) {
        ([], _) if config.audit.stdout => {
            report(format_args!(
                "flowgate: the audit log goes to standard output ([audit] to); name the files where it is kept"
            ));
            return ExitCode::FAILURE;
        }
        ([], true) => audit::verify_anchored(directory, trust.anchor.as_ref()),
        ([], false) => audit::verify_signed(directory, &trust),
        (files, true) => audit::verify_files(files),
        (files, false) => audit::verify_files_signed(files, &trust),
    };
    match found {
        Ok(report) => {
            print_line(summary(&report));
            ExitCode::SUCCESS
        }
        Err(fault) => {
            report(format_args!("flowgate: {fault}"));
            ExitCode::FAILURE
        }
    }
}

fn summary(report: &Report) -> String {
    let lines = report.lines;
    let mut text = format!("{lines} lines, chain intact");
    if let Some(removed) = &report.removed {
        let time = |time: &str| match time {
            "" => "an unknown time".to_owned(),
            time => time.to_owned(),
        };
        let (to, since, until) = (removed.to, time(&removed.since), time(&removed.until));
        let removed = format!(
            "\nrotation removed {to} lines before them: numbers 1 to {to}, from {since} to {until}"
        );
        text.push_str(&removed);
    }
    for position in &report.repairs {
        text.push_str("\nrepaired when it was opened, see ");
        text.push_str(&position.to_string());
    }
    text + &report.signed.as_ref().map(signatures).unwrap_or_default()
}

fn signatures(signed: &Signed) -> String {
    let Signed {
        checkpoints,
        last,
        time,
        gateway,
        waiting,
        log,
    } = signed;
    if *checkpoints == 0 {
        return "\nno checkpoint".to_owned();
    }
    let log = match log.as_str() {
        "" => String::new(),
        log => format!(", of log {log}"),
    };
    let last =
        format!("\n{checkpoints} checkpoints, the last at line {last} of {time} on {gateway}{log}");
    match waiting {
        0 => last,
        waiting => format!("{last}\n{waiting} lines after it wait for the next one"),
    }
}
