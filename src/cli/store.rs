//! `flowgate store migrate`: moves the state between the file in the data directory and PostgreSQL.

use crate::config::Config;
use crate::store::{self, MigrateTo};
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum StoreCommand {
    /// Copy the state from a file of SQLite into PostgreSQL, or back
    ///
    /// Copies sessions, service tokens, the memory of the throttle, passkeys, proposals, tags and the history of upstreams. The file is
    /// `flowgate.db` in `[storage] directory`, the other database that of `[storage] url`. All is copied, or nothing; what
    /// is copied to must be empty, and what is copied from stays as it is. No gateway may run on either meanwhile.
    #[command(
        after_help = "Examples:\n  flowgate store migrate --from sqlite --to postgres\n  flowgate store migrate --from postgres --to sqlite"
    )]
    Migrate(Migrate),
}

#[derive(Args)]
pub(super) struct Migrate {
    /// The database that has the state
    #[arg(long)]
    from: Kind,
    /// The database that it is copied to
    #[arg(long)]
    to: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Sqlite,
    Postgres,
}

/// Carries it out.
pub(super) fn run(config: &Config, command: &StoreCommand) -> ExitCode {
    let StoreCommand::Migrate(Migrate { from, to }) = command;
    if from == to {
        eprintln!("flowgate: --from and --to are the same");
        return ExitCode::FAILURE;
    }
    let to = match to {
        Kind::Sqlite => MigrateTo::Sqlite,
        Kind::Postgres => MigrateTo::Postgres,
    };
    match store::migrate(&config.storage, to) {
        Ok(rows) => {
            println!("{rows} rows copied");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flowgate: {error}");
            ExitCode::FAILURE
        }
    }
}
