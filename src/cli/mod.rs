//! The command line.
//!
//! Parses the arguments, runs the command, returns the exit code; other modules implement the
//! commands.

mod audit;
mod check_flows;
mod control;
#[cfg(feature = "engine")]
mod editor;
#[cfg(feature = "engine")]
mod engine_process;
mod health;
mod history;
mod import;
mod log;
#[cfg(feature = "engine")]
mod node_host;
#[cfg(feature = "engine")]
mod node_host_launcher;
#[cfg(feature = "engine")]
mod node_host_service;
mod passkey;
mod password;
mod promote;
mod store;
mod table;
#[cfg(feature = "engine")]
mod top;
mod totp;

use crate::auth::admin_notice;
use crate::config::Config;
use crate::server;
use crate::stdio::{print_line, report};
use crate::store::has_generated_admin;
use audit::Trusted;
use check_flows::CheckFlows;
use clap::{Parser, Subcommand};
use control::{SessionCommand, TokenCommand};
use import::Import;
use passkey::PasskeyCommand;
use promote::Promote;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// This program, also when its file has been replaced (proc(5)).
#[cfg(feature = "engine")]
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The exit code of commands for a change that waits for the approval of another user, or would.
const NEEDS_APPROVAL: u8 = 3;

/// The version, the commit if it is known, and the features (`build.rs`).
const VERSION: &str = env!("FLOWGATE_VERSION");

/// The file is for the other command.
const LISTEN: &str =
    "[engine.listen] is for an engine that runs apart: start it with `flowgate engine`";
const NO_LISTEN: &str =
    "`flowgate engine` needs [engine.listen], the socket for the gateway in front of it";

const AFTER_HELP: &str = "\
Exit codes:
  0  fine
  1  a problem with the configuration or the machine, which you can mend; the message says how
  2  wrong usage: an unknown command or option
  3  check-flows, promote: the flows keep the policy, and wait for the approval of another user, or would
  130, 143  a second SIGINT or SIGTERM ended it before everything was finished

Examples:
  flowgate                                   start with ./gateway.toml, or the built-in defaults
  flowgate --config /etc/flowgate.toml run   start with another file
  flowgate run --safe                        load the flows without starting them
  flowgate --config new.toml check           see whether a file is right before using it
  flowgate check-flows flows.json            see whether flows keep the policy before deploying them
  flowgate hash-password                     make a password_hash for [[auth.user]]
  flowgate token create --name ci --permission flows.write --expires 90d
                                             make a token for a machine
  flowgate editor install                    get the files of Node-RED's editor
  flowgate audit verify                      find out whether the audit log was changed";

/// A hardened gateway in front of a flow runtime, and a flow runtime of its own.
///
/// Without a command it runs. The first start makes a self-signed certificate and a user `admin`,
/// whose password is shown once, and listens on <https://127.0.0.1:8443>.
#[derive(Parser)]
#[command(name = "flowgate", version = VERSION, after_help = AFTER_HELP)]
struct Arguments {
    /// The configuration; otherwise gateway.toml in the working directory, or the built-in defaults
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run nodes of npm packages as a service of their own
    ///
    /// Connects to the engine and runs Node.js, which ends with the connection. Stays in the
    /// foreground; the configuration is not read. See docs/node-host.md.
    #[cfg(feature = "engine")]
    NodeHost {
        /// The socket of the engine, as in its configuration
        #[arg(long)]
        socket: PathBuf,
        /// The directory with the packages, as in its configuration
        #[arg(long)]
        directory: PathBuf,
        /// Node.js: a path, or a name that is found in PATH
        #[arg(long, default_value = "node")]
        node: PathBuf,
        /// The heap of Node.js in MiB
        #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(64..=65536))]
        memory: u64,
    },
    /// Become a program that ends with the process that has started it
    #[cfg(feature = "engine")]
    #[command(hide = true)]
    WithParent {
        /// The process id of the gateway
        gateway: u32,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<std::ffi::OsString>,
    },
    /// Be the engine of the gateway that has started this process
    #[cfg(feature = "engine")]
    #[command(hide = true)]
    EngineProcess,
    /// Start the gateway (the default)
    ///
    /// Stays in the foreground and logs to standard error. SIGTERM or SIGINT: finish work under
    /// way, accept no more; a second signal ends at once. SIGHUP, or a change of the files: read
    /// users, routes, certificates, hosts and the upstream's account again.
    #[command(
        after_help = "Examples:\n  flowgate --config /etc/flowgate.toml run\n  flowgate run --safe"
    )]
    Run {
        /// Load the flows and do not start them: the next deployment does, or POST /flows/state
        #[arg(long)]
        safe: bool,
    },
    /// Start the flow engine alone, for a gateway in front of it
    ///
    /// It speaks the admin API on the socket of [engine.listen], without TLS and without a sign-in:
    /// who may connect may do everything. The gateway has `[upstream] url = "unix:PATH"`. Signals
    /// are those of `run`.
    #[cfg(feature = "engine")]
    #[command(
        after_help = "Example:\n  flowgate --config /etc/flowgate/engine.toml engine\n  flowgate --config /etc/flowgate/engine.toml engine --safe"
    )]
    Engine {
        /// Load the flows and do not start them: the next deployment does, or POST /flows/state
        #[arg(long)]
        safe: bool,
    },
    /// Say whether the running gateway is ready
    ///
    /// Asks /readyz of the operations listener that the configuration names, and prints its state
    /// in one line. Ends with 0 if it is ready or degraded, and with 1 otherwise, or if no response
    /// comes within 3 s: the health check of a container, which has no other program for it.
    #[command(after_help = "Example:\n  flowgate --config /etc/flowgate/gateway.toml health")]
    Health,
    /// Say whether the configuration is right
    ///
    /// Prints `gateway.toml: ok`, or the first mistake with file, line and what is allowed there.
    /// Starts nothing.
    #[command(
        after_help = "Example:\n  flowgate --config new.toml check && systemctl reload flowgate"
    )]
    Check,
    /// Say whether a file of flows keeps the policy, and what is suspicious in it
    ///
    /// The rules of `[policy]` are violations, and end it with 1. Missing types, wires and links to
    /// nothing, endpoints that are there twice and secrets in clear are findings, and end it with 1
    /// only with --strict. Flows that keep the policy and would wait for the approval of another
    /// user end it with 3. Needs no running gateway, so that a pipeline can check flows before it
    /// deploys them.
    #[command(
        after_help = "Examples:\n  flowgate check-flows flows.json\n  flowgate --config plant.toml check-flows new.json --base flows.json --user ann\n  flowgate check-flows flows.json --strict --format sarif > flows.sarif"
    )]
    CheckFlows(CheckFlows),
    /// Turn a password into a hash for `password_hash` in [[auth.user]]
    ///
    /// Asks twice, without showing what is typed, when standard input is a terminal; reads one line
    /// from it otherwise. Prints the argon2id hash and nothing else.
    #[command(
        after_help = "Examples:\n  flowgate hash-password\n  flowgate hash-password < password.txt > secrets/admin.hash"
    )]
    HashPassword,
    /// Make a second factor for a user, and print what the user and gateway.toml need
    ///
    /// The secret is for an authenticator app, which also reads it from the URI as a QR code. Each
    /// recovery code counts once. Nothing is stored: add the last two lines to the user's
    /// [[auth.user]], and reload.
    #[command(after_help = "Example:\n  flowgate totp ann")]
    Totp {
        /// The user's name
        user: String,
    },
    /// Look after the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show the flow sets that were deployed, newest first, or the flows of one
    ///
    /// It only reads, so the gateway may run or not. The printed flows of one can be deployed
    /// again.
    #[command(after_help = "Examples:\n  flowgate history\n  flowgate history 3f9a > flows.json")]
    History {
        /// The revision, or how it begins; its flows are printed as JSON, without credentials
        #[arg(value_name = "REVISION")]
        rev: Option<String>,
    },
    /// Deploy a flow set of one gateway's history to another gateway
    ///
    /// An ordinary deployment there, with its policy, if nothing is deployed there meanwhile; its
    /// history says where it came from. Credentials are not part of it: nodes keep those that they
    /// have there, and the nodes that have none are listed. With --check nothing is deployed, and a
    /// violation of the policy ends it with 1. A change that needs the approval of another user
    /// becomes a proposal there, and ends it with 3.
    #[command(
        after_help = "Examples:\n  flowgate promote --from https://test:8443 --to https://line3:8443 --rev v1.4 --check\n  flowgate promote --from https://test:8443 --from-ca test.crt --from-token-file test.token --to https://line3:8443 --rev v1.4"
    )]
    Promote(Promote),
    /// Make a gateway.toml that stands in front of an existing Node-RED
    ///
    /// Reads adminAuth, httpNodeAuth, httpAdminRoot, httpNodeRoot, uiHost, uiPort and https of its
    /// settings.js, and prints the gateway.toml. Standard error has a line for each setting that
    /// needs you. The file is evaluated without files, network, modules and variables of this
    /// machine, for at most 5 s; modules that it requires are not carried over.
    #[command(
        after_help = "Examples:\n  flowgate import ~/.node-red/settings.js --output gateway.toml\n  flowgate import settings.js --environment"
    )]
    Import(Import),
    /// Look after the state of gateways that share a database
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Make, show and end tokens for machines, in the running gateway
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show and end sessions of users, in the running gateway
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show and remove passkeys of users, in the running gateway
    #[command(subcommand)]
    Passkey(PasskeyCommand),
    /// Let the running gateway read users, routes, certificates and hosts again
    ///
    /// As SIGHUP does, but checks the file first and reports the result. If the file has a mistake,
    /// everything stays as it was. No connection is dropped.
    #[command(after_help = "Example:\n  flowgate --config /etc/flowgate.toml reload")]
    Reload,
    /// Let the running gateway refuse every deployment for a time
    ///
    /// Flows cannot be changed, started or stopped, by any user and at any runtime; users are shown
    /// the reason. It lasts beyond a restart. Another freeze takes its place.
    #[command(after_help = "Example:\n  flowgate freeze 2h \"line 3 is running\"")]
    Freeze {
        /// Its duration: 1s to 366d
        #[arg(value_parser = control::freeze_time)]
        duration: std::time::Duration,
        /// The reason, for users
        reason: String,
    },
    /// End what `freeze` has begun
    ///
    /// Freeze windows and `read_only` of the configuration stay.
    #[command(after_help = "Example:\n  flowgate unfreeze")]
    Unfreeze,
    /// Look after the files of Node-RED's editor
    #[cfg(feature = "engine")]
    #[command(subcommand)]
    Editor(editor::EditorCommand),
    /// Show the requests, the nodes and the sessions of the running gateway, live
    ///
    /// 1, 2, 3 or Tab turn to another page, s orders it by the next column, the arrows scroll, and
    /// q or Ctrl-C ends it. The page of nodes shows which of them use the engine's time: a node's
    /// is that of its calls, in percent of the time measured. Above them stands how busy the engine
    /// is, how many messages it delivers and how many wait, and the memory of the gateway. When
    /// standard output is no terminal it prints the nodes once and ends.
    #[cfg(feature = "engine")]
    #[command(after_help = "Examples:\n  flowgate top\n  flowgate top --once --interval 10s")]
    Top {
        /// Print the nodes once and end, for scripts
        #[arg(long)]
        once: bool,
        /// The time that each view measures: 1s to 30s
        #[arg(long, default_value = "2s", value_parser = top::interval)]
        interval: std::time::Duration,
    },
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Make the key that signs the audit log, or print its public key
    ///
    /// Makes the file that `[audit] signing_key` names, unless it is there, and prints the public
    /// key. Give that to those who verify the log: only from outside of this machine it proves
    /// anything. The gateway signs from its next start on.
    #[command(after_help = "Example:\n  flowgate audit key > audit.pub")]
    Key,
    /// Say whether every line of the audit log is there, in its place and unchanged
    ///
    /// Prints `N lines, chain intact`, or the first line that was changed, moved, truncated or is
    /// missing, with its file, and ends with 1. Without FILE it reads the whole log in
    /// `[storage] directory`, and also notices what is missing at its beginning and end; it reports
    /// from when to when rotation has removed records. It only reads, so the gateway may run or
    /// not.
    ///
    /// With --key every line must be signed by a checkpoint of this key, but for the last hundred
    /// at most, which wait for theirs. What was cut off after the last checkpoint only a copy
    /// elsewhere shows: name it with --seen.
    #[command(
        after_help = "Examples:\n  flowgate audit verify\n  flowgate audit verify --key ed25519:o2WfMDNvKNHhqcbOKZNQfbSxV1Q3NbgAIW2LyAvo4hE\n  flowgate audit verify archive/audit.log.0000000001 archive/audit.log.0000051234"
    )]
    Verify {
        /// Files of one log, oldest first; otherwise all that the configuration names
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        trust: Trusted,
    },
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let config = arguments.config.as_deref();
    match arguments.command.unwrap_or(Command::Run { safe: false }) {
        Command::Run { safe } => run(config, safe, false),
        #[cfg(feature = "engine")]
        Command::Engine { safe } => run(config, safe, true),
        Command::Health => with(config, health::show),
        Command::Check => check(config),
        Command::CheckFlows(arguments) => {
            with(config, |config| check_flows::run(config, &arguments))
        }
        Command::HashPassword => hash_password(),
        Command::Totp { user } => totp::print(&user),
        Command::Audit(AuditCommand::Key) => with(config, audit::key),
        Command::Audit(AuditCommand::Verify { files, trust }) => {
            with(config, |config| audit::check(config, &files, trust))
        }
        Command::History { rev } => with(config, |config| history::show(config, rev.as_deref())),
        Command::Promote(arguments) => promote::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Store(command) => with(config, |config| store::run(config, &command)),
        Command::Token(command) => with(config, |config| control::token(config, command)),
        Command::Session(command) => with(config, |config| control::session(config, command)),
        Command::Passkey(command) => with(config, |config| passkey::run(config, command)),
        Command::Reload => with(config, reload),
        Command::Freeze { duration, reason } => {
            with(config, |config| control::freeze(config, duration, reason))
        }
        Command::Unfreeze => with(config, control::unfreeze),
        #[cfg(feature = "engine")]
        Command::WithParent { gateway, program } => {
            node_host_launcher::become_program(gateway, &program)
        }
        #[cfg(feature = "engine")]
        Command::EngineProcess => engine_process::run(),
        #[cfg(feature = "engine")]
        Command::NodeHost {
            socket,
            directory,
            node,
            memory,
        } => node_host_service::run(&socket, &directory, &node, memory << 20),
        #[cfg(feature = "engine")]
        Command::Editor(command) => with(config, |config| editor::run(config, &command)),
        #[cfg(feature = "engine")]
        Command::Top { once, interval } => with(config, |config| top::show(config, interval, once)),
    }
}

/// Runs a command that needs the path of the data directory.
fn with(file: Option<&Path>, command: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
    match Config::load(file) {
        Ok(config) => command(&config),
        Err(error) => refuse(&error),
    }
}

/// Starts the gateway, or the engine alone.
fn run(file: Option<&Path>, safe: bool, apart: bool) -> ExitCode {
    let mut config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    if config.engine.listen.is_some() != apart {
        let name = name(&config);
        report(format_args!(
            "flowgate: {name}: {}",
            if apart { NO_LISTEN } else { LISTEN }
        ));
        return ExitCode::FAILURE;
    }
    config.engine.safe = safe;
    #[cfg(feature = "engine")]
    if let Some(host) = &mut config.engine.node_host {
        host.launcher = Some(OWN_PROGRAM.into());
    }
    log::start(&config.log);
    // Before all other lines: that the API is open.
    let open = config.open_warning();
    if let Some(open) = &open {
        tracing::warn!("{open}");
    }
    tracing::info!(
        config = name(&config),
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    for warning in config.warnings().skip(usize::from(open.is_some())) {
        tracing::warn!("{warning}");
    }
    server::run(config)
}

fn check(file: Option<&Path>) -> ExitCode {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    if let Err(error) = server::check(&config) {
        return refuse(&error);
    }
    warn(&config);
    #[cfg(feature = "engine")]
    if let Some(host) = &config.engine.node_host {
        match node_host::describe(host) {
            Ok(found) => found.iter().for_each(print_line),
            Err(missing) => {
                report(format_args!("flowgate: {missing}"));
                return ExitCode::FAILURE;
            }
        }
    }
    print_line(format_args!("{}: ok", name(&config)));
    ExitCode::SUCCESS
}

/// Prints the warnings, that of an open API first, the notice of the sandbox of pages, and what
/// becomes of the `admin` of the first start.
fn warn(config: &Config) {
    for warning in config.warnings() {
        report(format_args!("warning: {warning}"));
    }
    if let Some(notice) = config.sandbox_notice() {
        report(format_args!("note: {notice}"));
    }
    let has_admin = has_generated_admin(&config.storage);
    let notice = config.auth.as_ref().zip(has_admin);
    if let Some(notice) = notice.and_then(|(auth, has_admin)| admin_notice(auth, has_admin)) {
        report(format_args!("warning: {notice}"));
    }
}

fn reload(config: &Config) -> ExitCode {
    match server::check(config) {
        Ok(()) => {
            warn(config);
            control::reload(config)
        }
        Err(error) => refuse(&error),
    }
}

fn hash_password() -> ExitCode {
    let password = match password::read() {
        Ok(password) => password,
        Err(error) => return refuse(&error),
    };
    match crate::auth::hash_password(&password) {
        Ok(hash) => {
            print_line(hash.reveal());
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    report(format_args!("flowgate: {error}"));
    ExitCode::FAILURE
}

/// The name of the configuration.
fn name(config: &Config) -> String {
    config.file.as_ref().map_or_else(
        || "built-in gateway.toml".to_owned(),
        |file| file.display().to_string(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_config_option_may_precede_or_follow_the_command() {
        for line in [
            ["flowgate", "--config", "a.toml", "check"],
            ["flowgate", "check", "--config", "a.toml"],
        ] {
            let arguments = Arguments::try_parse_from(line).unwrap();
            assert_eq!(arguments.config.as_deref(), Some(Path::new("a.toml")));
            assert!(matches!(arguments.command, Some(Command::Check)));
        }
    }

    #[test]
    fn an_unknown_command_is_a_usage_error() {
        let error = Arguments::try_parse_from(["flowgate", "fly"])
            .err()
            .unwrap();
        assert_eq!(error.exit_code(), 2);
    }
}
