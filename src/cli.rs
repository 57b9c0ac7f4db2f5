//! The command line: run, check, hash-password.
//!
//! Parses the arguments, runs the command, gives the exit code; what the commands do is in other rooms.

mod log;
mod password;

use crate::config::Config;
use crate::server;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Exit codes:
  0  fine
  1  a problem with the configuration or the machine, which you can mend; the message says how
  2  wrong usage: an unknown command or option
  130, 143  a second SIGINT or SIGTERM ended it before everything was finished

Examples:
  flowgate                                   start with ./gateway.toml, or the built-in defaults
  flowgate --config /etc/flowgate.toml run   start with another file
  flowgate run --safe                        load the flows without starting them
  flowgate --config new.toml check           see whether a file is right before using it
  flowgate hash-password                     make a password_hash for [[auth.user]]";

/// A hardened gateway in front of a flow runtime, and a flow runtime of its own.
///
/// Without a command it runs. The first start makes a self-signed certificate and a user `admin`, whose password is
/// shown once, and listens on <https://127.0.0.1:8443>.
#[derive(Parser)]
#[command(name = "flowgate", version, after_help = AFTER_HELP)]
struct Arguments {
    /// The configuration; otherwise gateway.toml in the working directory, or the built-in defaults
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Clone, Copy)]
enum Command {
    /// Start the gateway (the default)
    ///
    /// Stays in the foreground and logs to standard error. SIGTERM or SIGINT: finish what is under way, take nothing
    /// new; a second one ends at once. SIGHUP, or a change of their files: read users, routes and certificates again.
    #[command(
        after_help = "Examples:\n  flowgate --config /etc/flowgate.toml run\n  flowgate run --safe"
    )]
    Run {
        /// Load the flows and do not start them: the next deployment does, or POST /flows/state
        #[arg(long)]
        safe: bool,
    },
    /// Say whether the configuration is right
    ///
    /// Prints `gateway.toml: ok`, or the first mistake with file, line and what is allowed there. Starts nothing.
    #[command(
        after_help = "Example:\n  flowgate --config new.toml check && systemctl reload flowgate"
    )]
    Check,
    /// Tell the running gateway to read its configuration again
    ///
    /// Checks the file first, and says where a mistake is. Then it sends SIGHUP to the process that uses the
    /// `[storage] directory`: users, routes and certificates are read again, no connection is dropped.
    #[command(after_help = "Example:\n  flowgate --config /etc/flowgate.toml reload")]
    Reload,
    /// Turn a password into a hash for `password_hash` in [[auth.user]]
    ///
    /// Asks twice, without showing what is typed, when standard input is a terminal; reads one line from it otherwise.
    /// Prints the argon2id hash and nothing else.
    #[command(
        after_help = "Examples:\n  flowgate hash-password\n  flowgate hash-password < password.txt > secrets/admin.hash"
    )]
    HashPassword,
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let config = arguments.config.as_deref();
    match arguments.command.unwrap_or(Command::Run { safe: false }) {
        Command::Run { safe } => run(config, safe),
        Command::Check => check(config),
        Command::Reload => reload(config),
        Command::HashPassword => hash_password(),
    }
}

fn run(file: Option<&Path>, safe: bool) -> ExitCode {
    let mut config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    config.engine.safe = safe;
    log::start(&config.log);
    tracing::info!(
        config = name(&config),
        version = env!("CARGO_PKG_VERSION"),
        "starting"
    );
    if let Some(warning) = config.open_warning() {
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
    if let Some(warning) = config.open_warning() {
        eprintln!("warning: {warning}");
    }
    println!("{}: ok", name(&config));
    ExitCode::SUCCESS
}

fn reload(file: Option<&Path>) -> ExitCode {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    if let Err(error) = server::check(&config) {
        return refuse(&error);
    }
    if let Some(process) = server::reload(&config) {
        println!(
            "process {process} reads {} again; its log says how it went",
            name(&config)
        );
        return ExitCode::SUCCESS;
    }
    let directory = config.storage.directory.display();
    eprintln!(
        "flowgate: no running gateway uses {directory} ([storage] directory), or it is another user's"
    );
    ExitCode::FAILURE
}

fn hash_password() -> ExitCode {
    match password::read() {
        Ok(password) => {
            println!("{}", crate::auth::hash_password(&password).reveal());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flowgate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("flowgate: {error}");
    ExitCode::FAILURE
}

/// Which configuration this is.
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
    fn the_config_may_stand_before_and_after_the_command() {
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
    fn an_unknown_command_is_wrong_usage() {
        let error = Arguments::try_parse_from(["flowgate", "fly"])
            .err()
            .unwrap();
        assert_eq!(error.exit_code(), 2);
    }
}
