//! `flowgate import`: a gateway.toml that stands in front of an existing Node-RED, made of its
//! settings.js.
//!
//! [`evaluate`] runs the file without anything of this machine, [`marked`] resolves what depends on
//! it, and [`settings`] makes the gateway.toml. What is not carried over is reported, a line each.

#[cfg(feature = "engine")]
mod evaluate;
#[cfg(feature = "engine")]
mod marked;
#[cfg(feature = "engine")]
mod settings;

use crate::config::Config;
use crate::stdio::{print, report};
use clap::Args;
use std::fmt::Display;
#[cfg(feature = "engine")]
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a file, at most. Our choice: the settings.js that Node-RED comes with has some 20 KiB.
const MAX_SOURCE: u64 = 1 << 20;

#[derive(Args)]
pub(super) struct Import {
    /// The settings.js of the Node-RED
    file: PathBuf,
    /// Write to this file, which must not be there, instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Let settings.js read the variables of this environment; otherwise gateway.toml names them as
    /// ${NAME}
    #[arg(long)]
    environment: bool,
}

/// The text of a gateway.toml, and a sentence for each setting that needs the operator.
#[derive(Debug, Default)]
struct Imported {
    toml: String,
    notices: Vec<String>,
}

#[cfg(feature = "engine")]
impl Imported {
    fn notice(&mut self, sentence: String) {
        if !self.notices.contains(&sentence) {
            self.notices.push(sentence);
        }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.toml, "{line}");
    }
}

pub(super) fn run(arguments: &Import) -> ExitCode {
    match import(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(format_args!(
                "flowgate: {}: {error}",
                arguments.file.display()
            ));
            ExitCode::FAILURE
        }
    }
}

fn import(arguments: &Import) -> Result<(), String> {
    let source = read(&arguments.file).map_err(|error| error.to_string())?;
    let file = std::path::absolute(&arguments.file).map_err(|error| error.to_string())?;
    let directory = file.parent().unwrap_or(&file);
    let imported = script(&source, directory, arguments.environment)?;
    let text = format!(
        "# Made by `flowgate import` of {:?}.\n\n{}",
        arguments.file.to_string_lossy(),
        imported.toml.trim_end()
    ) + "\n";
    // With variables it is only known where they are set.
    if !text.contains("${")
        && let Err(error) = Config::parse(&text, "the gateway.toml that was made", &PathBuf::new())
    {
        return Err(error.to_string());
    }
    write(arguments.output.as_deref(), &text)?;
    for notice in imported.notices {
        report(format_args!(
            "flowgate: import: {}",
            super::table::printable(&notice)
        ));
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<String> {
    let mut source = String::new();
    let mut limited = File::open(file)?.take(MAX_SOURCE + 1);
    limited.read_to_string(&mut source)?;
    if source.len() as u64 > MAX_SOURCE {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(source)
}

/// Without the engine there is nothing that evaluates JavaScript.
#[cfg(not(feature = "engine"))]
fn script(_: &str, _: &Path, _: bool) -> Result<Imported, String> {
    Err("it is JavaScript, and this flowgate was built without its engine; import with a build that has the feature `engine`".to_owned())
}

#[cfg(feature = "engine")]
fn script(source: &str, directory: &Path, environment: bool) -> Result<Imported, String> {
    use serde_json::Value as Json;

    let (without, with) = evaluated(source, directory, environment)?;
    let (without, marked) = (Json::Object(without.settings), Json::Object(with.settings));
    let merged = marked::merged(Some(&without), Some(&marked)).unwrap_or_default();
    let Json::Object(settings) = &merged else {
        return Err("it exports no settings".to_owned());
    };
    let mut imported = settings::import(settings);
    for name in marked::variables(&marked) {
        let sentence = if imported.toml.contains(&format!("${{{name}}}")) {
            format!("the environment variable {name} must be set for flowgate too")
        } else {
            format!("the environment variable {name} was not read: --environment reads it")
        };
        imported.notice(sentence);
    }
    for module in with.required {
        imported.notice(format!(
            "require({module:?}) was not evaluated: settings that it makes are not carried over"
        ));
    }
    Ok(imported)
}

/// The settings without variables of the environment, and with marks for them; or both with their
/// values.
#[cfg(feature = "engine")]
fn evaluated(
    source: &str,
    directory: &Path,
    environment: bool,
) -> Result<(evaluate::Evaluated, evaluate::Evaluated), String> {
    use evaluate::{Environment, evaluate};

    let run = |environment| {
        let evaluated = evaluate(source, directory, &environment);
        evaluated.map_err(|error: String| super::table::printable(&error))
    };
    if environment {
        return Ok((run(Environment::Own)?, run(Environment::Own)?));
    }
    Ok((run(Environment::None)?, run(Environment::Marks)?))
}

/// Writes the result, never over a file.
fn write(output: Option<&Path>, text: &str) -> Result<(), String> {
    let Some(output) = output else {
        print(text);
        return Ok(());
    };
    let named = |error: &dyn Display| format!("{}: {error}", output.display());
    // It has hashes of passwords.
    let mut options = OpenOptions::new();
    let opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| named(&error))
}
