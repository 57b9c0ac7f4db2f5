//! `flowgate import`: a gateway.toml that stands in front of an existing Node-RED, made of its settings.js.
//!
//! [`evaluate`] runs the file without anything of this machine, [`marked`] resolves what depends on it, [`settings`] makes
//! the gateway.toml. What is not carried over is reported, a line each.

#[cfg(feature = "engine")]
mod evaluate;
#[cfg(feature = "engine")]
mod marked;
#[cfg(feature = "engine")]
mod settings;

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Import {
    /// The settings.js of the Node-RED
    file: PathBuf,
    /// Write to this file, which must not be there, instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Let settings.js read the variables of this environment; otherwise gateway.toml names them as ${NAME}
    #[arg(long)]
    environment: bool,
}

/// Without the engine there is nothing that evaluates JavaScript.
#[cfg(not(feature = "engine"))]
pub(super) fn run(arguments: &Import) -> ExitCode {
    eprintln!(
        "flowgate: {} cannot be read: it is JavaScript, and this flowgate was built without its engine; import with a build that has the feature `engine`",
        arguments.file.display()
    );
    ExitCode::FAILURE
}

#[cfg(feature = "engine")]
pub(super) fn run(arguments: &Import) -> ExitCode {
    match import(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowgate: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "engine")]
fn import(arguments: &Import) -> Result<(), String> {
    use crate::config::Config;
    use serde_json::Value as Json;

    let file = &arguments.file;
    let (without, with) = read(file, arguments.environment)?;
    let (without, marked) = (Json::Object(without.settings), Json::Object(with.settings));
    let merged = marked::merged(Some(&without), Some(&marked)).unwrap_or_default();
    let Json::Object(settings) = &merged else {
        return Err(format!("{}: it exports no settings", file.display()));
    };
    let imported = settings::import(settings);
    let text = format!(
        "# Made by `flowgate import` of {:?}.\n\n{}",
        file.to_string_lossy(),
        imported.toml.trim_end()
    ) + "\n";
    // With variables it is only known where they are set.
    if !text.contains("${")
        && let Err(error) = Config::parse(&text, "the gateway.toml that was made", &PathBuf::new())
    {
        return Err(error.to_string());
    }
    write(arguments.output.as_deref(), &text)?;
    let named = marked::variables(&marked).into_iter().map(|name| {
        if text.contains(&format!("${{{name}}}")) {
            format!("the environment variable {name} must be set for flowgate too")
        } else {
            format!("the environment variable {name} was not read: --environment reads it")
        }
    });
    let made = with.required.into_iter().map(|module| {
        format!(
            "require({module:?}) was not evaluated: settings that it makes are not carried over"
        )
    });
    for notice in imported.notices.into_iter().chain(named).chain(made) {
        eprintln!("flowgate: import: {}", super::table::printable(&notice));
    }
    Ok(())
}

/// The settings without variables of the environment, and with marks for them; or both with their values.
#[cfg(feature = "engine")]
fn read(
    file: &std::path::Path,
    environment: bool,
) -> Result<(evaluate::Evaluated, evaluate::Evaluated), String> {
    use evaluate::{Environment, MAX_SOURCE, evaluate};
    use std::io::Read as _;

    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = std::fs::File::open(file).map_err(|error| named(&error))?;
    let mut source = String::new();
    let mut limited = opened.take(MAX_SOURCE + 1);
    limited
        .read_to_string(&mut source)
        .map_err(|error| named(&error))?;
    if source.len() as u64 > MAX_SOURCE {
        return Err(named(&"it is larger than 1 MiB, which no settings.js is"));
    }
    let path = std::path::absolute(file).map_err(|error| named(&error))?;
    let directory = path.parent().unwrap_or(&path);
    let run = |environment| {
        let evaluated = evaluate(&source, directory, &environment);
        evaluated.map_err(|error| named(&super::table::printable(&error)))
    };
    if environment {
        return Ok((run(Environment::Own)?, run(Environment::Own)?));
    }
    Ok((run(Environment::None)?, run(Environment::Marks)?))
}

/// Writes the result, never over a file.
#[cfg(feature = "engine")]
fn write(output: Option<&std::path::Path>, text: &str) -> Result<(), String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let Some(output) = output else {
        let written = std::io::stdout().write_all(text.as_bytes());
        return written.map_err(|error| error.to_string());
    };
    // It has hashes of passwords.
    let mut options = std::fs::OpenOptions::new();
    let opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}", output.display()))
}
