//! `flowgate store`: moves the state between the file in the data directory and PostgreSQL, and
//! lets gateways with another secret use it.

use crate::config::Config;
use crate::stdio::{print_line, report};
use crate::store::{self, MigrateTo};
use clap::{Args, Subcommand, ValueEnum};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum StoreCommand {
    /// Copy the state from a file of SQLite into PostgreSQL, or back
    ///
    /// Copies sessions, service tokens, the memory of the throttle, passkeys, proposals, tags and
    /// the history of upstreams. The file is `flowgate.db` in `[storage] directory`, the other
    /// database that of `[storage] url`. All is copied, or nothing; what is copied to must be
    /// empty, and what is copied from stays as it is. No gateway may run on either meanwhile.
    #[command(
        after_help = "Examples:\n  flowgate store migrate --from sqlite --to postgres\n  flowgate store migrate --from postgres --to sqlite"
    )]
    Migrate(Migrate),
    /// Let gateways with the present secret use the database in `[storage] url`
    ///
    /// For a `[storage] credential_secret` that is lost. What was encrypted with it cannot be
    /// decrypted any more: the flows start without credentials, proposals cannot be approved, users
    /// of providers sign in again. The encrypted credentials of the flows are kept in the database.
    /// No gateway may run meanwhile. Give all of them the new secret afterwards.
    #[command(after_help = "Example:\n  flowgate store new-secret")]
    NewSecret,
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
    match command {
        StoreCommand::Migrate(migrate) => copy(config, migrate),
        StoreCommand::NewSecret => ended(
            store::accept_new_secret(&config.storage)
                .map(|()| "gateways with this secret can use the database from now on".to_owned()),
        ),
    }
}

fn copy(config: &Config, Migrate { from, to }: &Migrate) -> ExitCode {
    if from == to {
        report(format_args!("flowgate: --from and --to are the same"));
        return ExitCode::FAILURE;
    }
    let to = match to {
        Kind::Sqlite => MigrateTo::Sqlite,
        Kind::Postgres => MigrateTo::Postgres,
    };
    ended(store::migrate(&config.storage, to).map(|rows| format!("{rows} rows copied")))
}

fn ended(done: Result<String, store::Error>) -> ExitCode {
    match done {
        Ok(done) => {
            print_line(done);
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(format_args!("flowgate: {error}"));
            ExitCode::FAILURE
        }
    }
}
