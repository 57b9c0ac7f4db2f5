//! `flowgate history`: the flow sets that were deployed, and one of them whole.

use super::table::aligned;
use crate::audit::rfc3339;
use crate::config::Config;
use crate::stdio::{print_line, report};
use crate::store::{ENGINE, Error, History, Revision};
use std::process::ExitCode;

/// Lists all, newest first, or writes the flows of one.
pub(super) fn show(config: &Config, rev: Option<&str>) -> ExitCode {
    let shown = History::open(&config.storage).and_then(|history| match rev {
        None => history.all().map(|revisions| listed(&revisions)),
        Some(rev) => flows(&history, rev),
    });
    match shown {
        Ok(text) => {
            print_line(text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(format_args!("flowgate: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// With the upstreams, if there are any.
fn listed(revisions: &[Revision]) -> String {
    let mut rows = vec![["revision", "deployed", "type", "user", ""].map(str::to_owned)];
    rows.extend(revisions.iter().map(|revision| {
        [
            revision.rev.clone(),
            rfc3339(revision.at),
            revision.kind.clone(),
            revision.user.clone(),
            revision.runtime.clone(),
        ]
    }));
    if revisions.iter().any(|revision| revision.runtime != ENGINE) {
        rows[0][4].push_str("upstream");
    }
    aligned(&rows)
}

fn flows(history: &History, rev: &str) -> Result<String, Error> {
    let flows = history.flows(rev)?;
    Ok(String::from_utf8_lossy(&flows).into_owned())
}
