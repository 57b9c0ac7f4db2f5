//! `flowgate engine-process`: the engine that a gateway has started in a process of its own
//! (`[engine] isolation`).

use super::{OWN_PROGRAM, log, refuse};
use crate::server::{self, Handed};
use crate::stdio::report;
use std::process::ExitCode;

/// Runs until the gateway ends it.
pub(super) fn run() -> ExitCode {
    let handed = match Handed::take() {
        Ok(handed) => handed,
        Err(error) => {
            report(format_args!(
                "flowgate: this command is for a gateway, which starts it: {error}"
            ));
            return ExitCode::FAILURE;
        }
    };
    let mut config = match handed.config() {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    if let Some(host) = &mut config.engine.node_host {
        host.launcher = Some(OWN_PROGRAM.into());
    }
    log::start(&config.log);
    server::run_handed(config, handed)
}
