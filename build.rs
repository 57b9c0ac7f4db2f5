//! The build script: the files of the console, and what `flowgate --version` says.

#[path = "src/cli/build.rs"]
mod cli;
#[path = "src/console/build.rs"]
mod console;

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    cli::name_version();
    if let Err(error) = console::compress() {
        eprintln!("the files of the console: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
