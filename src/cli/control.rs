//! The commands that use the control socket of the running gateway: tokens, sessions, reload. `top`
//! uses it too.
//!
//! Asks, and prints what is answered: for people, or as JSON for scripts.

use super::table::aligned;
use crate::audit::rfc3339;
use crate::auth::{NEVER, NewToken, SessionInfo};
use crate::config::{Config, parse_duration};
use crate::server::{Answer, Ask, control_key, control_socket};
use crate::stdio::{print_line, report};
use clap::{Args, Subcommand};
use crypto::Secret;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The time-out for the gateway's response. Our choice: a reload reads files, everything else takes
/// milliseconds.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The longest lifetime but `never`. Our choice: ten years.
const MAX_TIMEOUT: Duration = Duration::from_hours(3650 * 24);

/// The longest freeze. Our choice: one that is forgotten ends within about a year.
const MAX_FREEZE: Duration = Duration::from_hours(366 * 24);

#[derive(Subcommand)]
pub(super) enum TokenCommand {
    /// Make a token for a machine and print it, once
    ///
    /// It has a name instead of a user, and permissions of its own. Logs and audit call it
    /// `token:NAME`.
    #[command(
        after_help = "Examples:\n  flowgate token create --name ci --permission flows.write --expires 90d\n  flowgate token create --name backup --permission flows.read --expires never --json"
    )]
    Create {
        /// Letters, digits, `.`, `-` and `_`; no other token has it
        #[arg(long)]
        name: String,
        /// Its permissions, such as flows.write, read or "*"; may be given several times
        #[arg(long = "permission", required = true, value_name = "PERMISSION")]
        permissions: Vec<String>,
        /// A network that its requests must come from, such as 10.0.0.0/8; may be given several
        /// times
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<String>,
        /// The limit of its requests: 10/s, 100/m or 5000/h
        #[arg(long, value_name = "LIMIT")]
        rate_limit: Option<String>,
        /// Its lifetime: 12h, 90d, at most 3650d; or never
        #[arg(long, default_value = "90d", value_parser = lifetime)]
        expires: Lifetime,
        #[command(flatten)]
        output: Output,
    },
    /// Show the tokens of machines
    #[command(after_help = "Example:\n  flowgate token list")]
    List {
        #[command(flatten)]
        output: Output,
    },
    /// End a token now and close all that is open with it
    #[command(after_help = "Example:\n  flowgate token revoke ci")]
    Revoke {
        /// Its name
        name: String,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Subcommand)]
pub(super) enum SessionCommand {
    /// Show who is signed in
    #[command(after_help = "Example:\n  flowgate session list --user maria")]
    List {
        #[command(flatten)]
        list: ListOptions,
    },
    /// End sessions now and close all that is open with them
    #[command(
        after_help = "Examples:\n  flowgate session revoke --user maria\n  flowgate session revoke --id 1f0c8e6a4b2d9753\n  flowgate session revoke --all"
    )]
    Revoke {
        #[command(flatten)]
        which: SessionSelector,
        #[command(flatten)]
        output: Output,
    },
}

/// All sessions, a user's or one.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(super) struct SessionSelector {
    /// All sessions of this user
    #[arg(long)]
    user: Option<String>,
    /// The session that `session list` shows with this id
    #[arg(long)]
    id: Option<String>,
    /// All sessions of all users; the tokens of machines stay
    #[arg(long)]
    all: bool,
}

/// What a list of users' sessions or passkeys has.
#[derive(Args)]
pub(super) struct ListOptions {
    /// Only this user's
    #[arg(long)]
    pub(super) user: Option<String>,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(Args)]
pub(super) struct Output {
    /// Print JSON, for scripts
    #[arg(long)]
    pub(super) json: bool,
}

/// `None`: for ever.
#[derive(Clone, Copy)]
pub(super) struct Lifetime(Option<Duration>);

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime(None));
    }
    let range = Duration::from_secs(1)..=MAX_TIMEOUT;
    let lifetime = parse_duration(text).filter(|lifetime| range.contains(lifetime));
    let lifetime = lifetime.map(|lifetime| Lifetime(Some(lifetime)));
    lifetime.ok_or_else(|| "expected a duration from 1s to 3650d, such as 90d, or never".to_owned())
}

pub(super) fn token(config: &Config, command: TokenCommand) -> ExitCode {
    match command {
        TokenCommand::Create {
            name,
            permissions,
            networks,
            rate_limit,
            expires: Lifetime(expires),
            output,
        } => {
            if expires.is_none() {
                report(format_args!(
                    "warning: this token never ends; end it with `flowgate token revoke {name}`"
                ));
            }
            for hint in permissions
                .iter()
                .filter_map(|name| config.permission_hint(name))
            {
                report(format_args!("warning: {hint}"));
            }
            let ask = Ask::CreateToken(NewToken {
                name,
                permissions,
                networks,
                rate_limit,
                lifetime: expires,
            });
            tell(config, &ask, &output, |_| true)
        }
        TokenCommand::List { output } => tell(config, &Ask::List, &output, |listed| {
            listed.token().is_some()
        }),
        TokenCommand::Revoke { name, output } => {
            tell(config, &Ask::RevokeToken { name }, &output, |_| true)
        }
    }
}

pub(super) fn session(config: &Config, command: SessionCommand) -> ExitCode {
    match command {
        SessionCommand::List { list } => {
            let ListOptions { user, output } = list;
            let shown = |listed: &SessionInfo| {
                listed.token().is_none() && user.as_ref().is_none_or(|user| listed.user == *user)
            };
            tell(config, &Ask::List, &output, shown)
        }
        SessionCommand::Revoke { which, output } => {
            let ask = match which {
                SessionSelector { id: Some(id), .. } => Ask::RevokeSession { id },
                SessionSelector { all: true, .. } => Ask::RevokeAllUsers,
                SessionSelector { user, .. } => Ask::RevokeUser {
                    user: user.unwrap_or_default(),
                },
            };
            tell(config, &ask, &output, |_| true)
        }
    }
}

pub(super) fn freeze(config: &Config, duration: Duration, reason: String) -> ExitCode {
    let ask = Ask::Freeze {
        seconds: duration.as_secs(),
        reason,
    };
    tell(config, &ask, &Output { json: false }, |_| true)
}

pub(super) fn unfreeze(config: &Config) -> ExitCode {
    tell(config, &Ask::Unfreeze, &Output { json: false }, |_| true)
}

/// The duration of a freeze.
pub(super) fn freeze_time(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=MAX_FREEZE;
    let duration = parse_duration(text).filter(|duration| range.contains(duration));
    duration.ok_or_else(|| "expected a duration from 1s to 366d, such as 2h".to_owned())
}

pub(super) fn reload(config: &Config) -> ExitCode {
    tell(config, &Ask::Reload, &Output { json: false }, |_| true)
}

/// Asks and prints the answer; of sessions those that are to be shown.
fn tell(
    config: &Config,
    ask: &Ask,
    output: &Output,
    shown: impl Fn(&SessionInfo) -> bool,
) -> ExitCode {
    let answer = match answer(&config.storage.directory, ask) {
        Ok(Answer::Refused(reason)) => Err(reason),
        other => other,
    };
    let text = match answer {
        Err(reason) => {
            report(format_args!("flowgate: {reason}"));
            return ExitCode::FAILURE;
        }
        Ok(Answer::Token { token, expires }) if output.json => {
            json!({ "token": token, "expires": ending(expires) }).to_string()
        }
        Ok(Answer::Token { token, .. }) => token,
        Ok(Answer::Sessions(mut sessions)) => {
            sessions.retain(shown);
            if output.json {
                sessions.iter().map(as_json).collect::<Value>().to_string()
            } else {
                table(ask, &sessions)
            }
        }
        Ok(Answer::Frozen { until }) => format!("frozen until {}", rfc3339(until)),
        Ok(_) if matches!(ask, Ask::Unfreeze) => "unfrozen".to_owned(),
        Ok(_) => "reloaded".to_owned(),
    };
    print_line(text);
    ExitCode::SUCCESS
}

/// Asks the running gateway.
pub(super) fn answer(directory: &Path, ask: &Ask) -> Result<Answer, String> {
    let socket = control_socket(directory);
    let stream = UnixStream::connect(&socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!(
                "no flowgate runs on this data directory ({})",
                directory.display()
            )
        }
        io::ErrorKind::PermissionDenied => {
            "only root and the user that flowgate runs as may do this".to_owned()
        }
        _ => format!("{}: {error}", socket.display()),
    })?;
    let failed = |error: io::Error| format!("the running flowgate gives no answer: {error}");
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    let key = control_key(directory)
        .map_err(|error| format!("the key of the control socket cannot be read: {error}"))?;
    let ask = serde_json::to_string(ask).map_err(|error| failed(error.into()))?;
    let question = Secret::new(format!("{}\n{ask}\n", key.reveal()));
    (&stream)
        .write_all(question.reveal().as_bytes())
        .map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream)
        .read_line(&mut line)
        .map_err(failed)?;
    serde_json::from_str(&line).map_err(|error| failed(error.into()))
}

/// Ended sessions are reported by their number, listed ones as a table.
fn table(ask: &Ask, sessions: &[SessionInfo]) -> String {
    match ask {
        Ask::List => {}
        Ask::RevokeToken { .. } => return "revoked".to_owned(),
        _ => return format!("{} revoked", sessions.len()),
    }
    let titles = [
        "id",
        "user",
        "client",
        "permissions",
        "created",
        "last used",
        "expires",
        "agent",
    ];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(sessions.iter().map(|listed| {
        let scope = if listed.scope.is_empty() {
            "all of the user".to_owned()
        } else {
            listed.scope.join(" ")
        };
        [
            listed.id.clone(),
            listed.user.clone(),
            listed.client.clone(),
            scope,
            rfc3339(listed.created),
            listed.last_used.map_or_else(|| "-".to_owned(), rfc3339),
            ending(listed.expires),
            listed.agent.clone(),
        ]
    }));
    aligned(&rows)
}

fn as_json(listed: &SessionInfo) -> Value {
    json!({
        "id": listed.id, "user": listed.user, "name": listed.token(), "creator": listed.creator,
        "networks": listed.networks, "client": listed.client,
        "agent": listed.agent, "permissions": listed.scope, "created": rfc3339(listed.created),
        "last_used": listed.last_used.map(rfc3339), "expires": ending(listed.expires),
    })
}

fn ending(expires: u64) -> String {
    if expires == NEVER {
        "never".to_owned()
    } else {
        rfc3339(expires)
    }
}
