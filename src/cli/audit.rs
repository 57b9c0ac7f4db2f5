//! `flowgate audit verify`: whether the audit log is as it was written.

use crate::audit::{Report, verify, verify_files};
use crate::config::Config;
use std::path::PathBuf;
use std::process::ExitCode;

/// Verifies these files, or the whole log that the config names.
pub(super) fn check(config: &Config, files: &[PathBuf]) -> ExitCode {
    let found = if !files.is_empty() {
        verify_files(files)
    } else if config.audit.stdout {
        eprintln!(
            "flowgate: the audit log goes to standard output ([audit] to); name the files where it is kept"
        );
        return ExitCode::FAILURE;
    } else {
        verify(&config.storage.directory)
    };
    match found {
        Ok(report) => {
            println!("{}", summary(&report));
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("flowgate: {fault}");
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
    text
}
