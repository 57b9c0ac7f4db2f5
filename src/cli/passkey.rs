//! `flowgate passkey`: shows and removes passkeys of users, in the running gateway.

use super::control::{ListOptions, Output, answer};
use super::table::aligned;
use crate::audit::rfc3339;
use crate::auth::PasskeyInfo;
use crate::config::Config;
use crate::server::{Answer, Ask};
use crate::stdio::{print_line, report};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum PasskeyCommand {
    /// Show the passkeys of users
    #[command(after_help = "Example:\n  flowgate passkey list --user maria")]
    List {
        #[command(flatten)]
        list: ListOptions,
    },
    /// Remove passkeys, such as those of a lost device
    ///
    /// Sessions that began with them go on: end them with `session revoke`.
    #[command(
        after_help = "Examples:\n  flowgate passkey revoke --user maria\n  flowgate passkey revoke --id 1f0c8e6a4b2d9753"
    )]
    Revoke {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        output: Output,
    },
}

/// A user's, or one.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct Which {
    /// All passkeys of this user
    #[arg(long)]
    user: Option<String>,
    /// The passkey that `passkey list` shows with this id
    #[arg(long)]
    id: Option<String>,
}

pub(super) fn run(config: &Config, command: PasskeyCommand) -> ExitCode {
    let (ask, output) = match command {
        PasskeyCommand::List { list } => (Ask::ListPasskeys { user: list.user }, list.output),
        PasskeyCommand::Revoke { which, output } => {
            let Which { user, id } = which;
            (Ask::RevokePasskeys { user, id }, output)
        }
    };
    let refused = match answer(&config.storage.directory, &ask) {
        Ok(Answer::Passkeys(passkeys)) => {
            print_line(text(&ask, &passkeys, output.json));
            return ExitCode::SUCCESS;
        }
        Ok(Answer::Refused(reason)) | Err(reason) => reason,
        Ok(_) => "the running flowgate gives another answer".to_owned(),
    };
    report(format_args!("flowgate: {refused}"));
    ExitCode::FAILURE
}

/// Removed passkeys are reported by their number, listed ones as a table.
fn text(ask: &Ask, passkeys: &[PasskeyInfo], in_json: bool) -> String {
    if in_json {
        return passkeys.iter().map(as_json).collect::<Value>().to_string();
    }
    if matches!(ask, Ask::RevokePasskeys { .. }) {
        return format!("{} revoked", passkeys.len());
    }
    let titles = ["id", "user", "name", "host", "created", "last used"];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(passkeys.iter().map(|passkey| {
        [
            passkey.id.clone(),
            passkey.user.clone(),
            passkey.name.clone(),
            passkey.host.clone(),
            rfc3339(passkey.created),
            passkey.last_used.map_or_else(|| "-".to_owned(), rfc3339),
        ]
    }));
    aligned(&rows)
}

fn as_json(passkey: &PasskeyInfo) -> Value {
    json!({
        "id": passkey.id, "user": passkey.user, "name": passkey.name, "host": passkey.host,
        "created": rfc3339(passkey.created), "last_used": passkey.last_used.map(rfc3339),
    })
}
