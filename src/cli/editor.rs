//! `flowgate editor install`: the stock editor's files from a registry of npm, without npm.

use crate::config::Config;
use crate::editor::{PACKAGES, PinnedPackage, install};
use crate::stdio::{print_line, report};
use crate::upstream::download;
use clap::{Args, Subcommand};
use hyper::Uri;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;

/// The registry without `--registry` and `npm_config_registry`: npm's own.
const REGISTRY: &str = "https://registry.npmjs.org";
/// Where the editor goes without `[editor] modules`: beside the configuration.
const MODULES: &str = "editor/node_modules";
/// Bytes of an archive. Our choice: the editor's has 9 MiB.
const MAX_ARCHIVE: usize = 64 << 20;
/// The time for one archive. Our choice: the largest at 200 KB/s.
const TIMEOUT: Duration = Duration::from_mins(5);

/// What to do with the editor's files.
#[derive(Subcommand)]
pub(super) enum EditorCommand {
    /// Get the files of Node-RED's editor from a registry of npm
    ///
    /// Needs no npm, and runs nothing of it. The version and the SHA-512 of each archive are part
    /// of this program; another archive is refused. The folder is replaced as a whole, or stays as
    /// it was. Restart the gateway afterwards.
    #[command(
        after_help = "Examples:\n  flowgate editor install\n  flowgate editor install --registry https://npm.example.org --ca-file company-ca.pem"
    )]
    Install(Install),
}

/// Where from, and where to.
#[derive(Args)]
pub(super) struct Install {
    /// The registry; otherwise the environment variable `npm_config_registry`, or npm's own
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// A PEM file of the authorities that sign the registry's certificate; otherwise those of the
    /// system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The folder; otherwise the one that `[editor] modules` names, or `editor/node_modules` beside
    /// the configuration
    #[arg(value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

pub(super) fn run(config: &Config, command: &EditorCommand) -> ExitCode {
    let EditorCommand::Install(install) = command;
    match installed(config, install) {
        Ok(report) => {
            print_line(report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(format_args!("flowgate: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn installed(config: &Config, options: &Install) -> Result<String, String> {
    let configured = config.editor.modules.as_deref();
    let modules = match (&options.directory, configured) {
        (Some(directory), _) => directory.clone(),
        (None, Some(modules)) => modules.to_owned(),
        (None, None) => beside(config).join(MODULES),
    };
    let registry = registry(options.registry.as_deref())?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut packages = Vec::new();
    for package in PACKAGES {
        let read = archive(&registry, options.ca_file.as_deref(), &package);
        packages.push((package, runtime.block_on(read)?));
    }
    install(&packages, &modules).map_err(|error| error.to_string())?;
    let names = PACKAGES.map(|package| format!("{} {}", package.name, package.version));
    let mut report = format!("installed {} in {}", names.join(" and "), modules.display());
    if configured != Some(&modules) {
        let path = modules.strip_prefix(beside(config)).unwrap_or(&modules);
        report += "\nadd this to the configuration, and restart flowgate:\n[editor]\nmodules = ";
        report += &toml::Value::from(path.to_string_lossy().into_owned()).to_string();
    }
    Ok(report)
}

/// The directory of the configuration; empty: the working directory.
fn beside(config: &Config) -> &Path {
    let file = config.file.as_deref();
    file.and_then(Path::parent).unwrap_or(Path::new(""))
}

async fn archive(
    registry: &str,
    ca_file: Option<&Path>,
    package: &PinnedPackage,
) -> Result<Vec<u8>, String> {
    let url = format!("{registry}{}", package.path());
    let url: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let bytes = download(&url, ca_file, MAX_ARCHIVE, TIMEOUT).await?;
    Ok(bytes.into())
}

/// Without TLS too: the archive is verified, wherever it comes from.
fn registry(option: Option<&str>) -> Result<String, String> {
    let variable = || {
        let names = ["npm_config_registry", "NPM_CONFIG_REGISTRY"];
        names.into_iter().find_map(|name| std::env::var(name).ok())
    };
    let url = option.map(str::to_owned).or_else(variable);
    let url = url.filter(|url| !url.is_empty());
    let url = url.unwrap_or_else(|| REGISTRY.to_owned());
    let parsed: Option<Uri> = url.parse().ok();
    let is_url = parsed.is_some_and(|uri| {
        let has_scheme = matches!(uri.scheme_str(), Some("https" | "http"));
        let has_account = uri
            .authority()
            .is_some_and(|all| all.as_str().contains('@'));
        has_scheme && !has_account && uri.query().is_none()
    });
    if !is_url {
        return Err(
            "the registry: expected a URL such as https://npm.example.org, without account and query"
                .to_owned(),
        );
    }
    Ok(url.trim_end_matches('/').to_owned())
}
