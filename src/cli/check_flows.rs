//! `flowgate check-flows`: compares a file of flows with the policy and looks for mistakes, without a running gateway.

use crate::auth::Permissions;
use crate::config::{Config, Policy};
use crate::policy::{self, Deployment, Violation, Who};
use clap::{Args, ValueEnum};
use flows::{Finding, FlowSet, Lint, Submission, lint};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct CheckFlows {
    /// The flows: an array as in flows.json, or an object with `flows`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The flows that they would replace; rules look at what differs. Otherwise all of it is new
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// The upstream whose policy counts, by its name; otherwise `[policy]`
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// The permissions of the user who would deploy; may be given several times. Otherwise all
    #[arg(long = "permission", value_name = "PERMISSION")]
    permissions: Vec<SmolStr>,
    /// The output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// End with 1 for findings too
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON object, as of POST /gateway/check
    Json,
    /// SARIF 2.1.0, which code hosts show beside the file
    Sarif,
}

/// What is wrong with a file.
struct Report {
    violations: Vec<Violation>,
    findings: Vec<Finding>,
}

pub(super) fn run(config: &Config, arguments: &CheckFlows) -> ExitCode {
    match check(config, arguments) {
        Ok((text, report)) => {
            let shown = match arguments.format {
                Format::Text => report.text(),
                Format::Json => format!("{:#}\n", report.json()),
                Format::Sarif => format!("{:#}\n", report.sarif(&arguments.file, &text)),
            };
            let is_fine =
                report.violations.is_empty() && (!arguments.strict || report.findings.is_empty());
            // The reader of a pipe may have closed it: no panic.
            match io::stdout().write_all(shown.as_bytes()) {
                Ok(()) if is_fine => ExitCode::SUCCESS,
                Ok(()) | Err(_) => ExitCode::FAILURE,
            }
        }
        Err(message) => {
            eprintln!("flowgate: {message}");
            ExitCode::FAILURE
        }
    }
}

fn check(config: &Config, arguments: &CheckFlows) -> Result<(String, Report), String> {
    let policy = policy_of(config, arguments.upstream.as_deref())?;
    let (text, submission) = read(&arguments.file)?;
    let base = match &arguments.base {
        Some(file) => read(file)?.1.flows,
        None => FlowSet::default(),
    };
    let permissions = match arguments.permissions.as_slice() {
        [] => Permissions::all(),
        names => Permissions::of(names.into()),
    };
    let who = Who {
        user: "",
        permissions: &permissions,
    };
    // Only the engine's types are known here.
    let is_engine = arguments.upstream.is_none() && config.upstreams.is_empty();
    let types = TYPES.filter(|_| is_engine);
    let asked = Deployment {
        before: &base,
        after: &submission.flows,
        sent: &submission.credential_ids(),
        types,
    };
    let report = Report {
        violations: policy::verdict(policy, who, &asked).0,
        findings: lint(
            &submission.flows,
            types.map(|types| types as &dyn Fn(&str) -> bool),
        ),
    };
    Ok((text, report))
}

/// The types of the engine's nodes; a gateway without the engine knows none.
#[cfg(feature = "engine")]
const TYPES: Option<&policy::Types> = Some(&engine::nodes::knows);
#[cfg(not(feature = "engine"))]
const TYPES: Option<&policy::Types> = None;

fn policy_of<'c>(config: &'c Config, upstream: Option<&str>) -> Result<&'c Policy, String> {
    let Some(name) = upstream else {
        return Ok(&config.policy);
    };
    let mut mounts = config.upstreams.iter().map(|upstream| &upstream.mount);
    let mount = mounts.find(|mount| mount.name == name);
    mount
        .map(|mount| &mount.policy)
        .ok_or_else(|| format!("the configuration has no upstream named {name}"))
}

fn read(file: &Path) -> Result<(String, Submission), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let none = FlowSet::default();
    let submission = if text.trim_start().starts_with('[') {
        Submission::v1(&none, text.as_bytes())
    } else {
        Submission::v2(&none, text.as_bytes())
    };
    let submission = submission.map_err(|error| wrong(&error))?;
    Ok((text, submission))
}

impl Report {
    fn text(&self) -> String {
        let mut shown = String::new();
        for violation in &self.violations {
            let (rule, message) = (violation.rule.name(), &violation.message);
            let _ = writeln!(shown, "refused: {message} [{rule}]");
        }
        for finding in &self.findings {
            let (rule, message) = (finding.lint.name(), &finding.message);
            let _ = writeln!(shown, "warning: {message} [{rule}]");
        }
        let (violations, findings) = (self.violations.len(), self.findings.len());
        shown + &format!("{violations} violations of the policy, {findings} findings\n")
    }

    fn json(&self) -> Json {
        let shown = |rule: &str, nodes: &[SmolStr], message: &str| json!({ "rule": rule, "nodes": nodes, "message": message });
        let violations = self.violations.iter();
        let violations = violations.map(|v| shown(v.rule.name(), &v.nodes, &v.message));
        let findings = self.findings.iter();
        let findings = findings.map(|f| shown(f.lint.name(), &f.nodes, &f.message));
        json!({
            "allowed": self.violations.is_empty(),
            "violations": violations.collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }

    /// SARIF 2.1.0 (OASIS): the violations are errors, the findings warnings, each at the line of its first element.
    fn sarif(&self, file: &Path, text: &str) -> Json {
        let result = |level: &str, rule: &str, nodes: &[SmolStr], message: &str| {
            let line = nodes.first().map_or(1, |id| line_of(text, id));
            let place = json!({
                "physicalLocation": {
                    "artifactLocation": { "uri": file.to_string_lossy() },
                    "region": { "startLine": line },
                },
                "logicalLocations": nodes.iter().map(|id| json!({ "name": id })).collect::<Vec<_>>(),
            });
            json!({
                "ruleId": rule, "level": level, "message": { "text": message }, "locations": [place],
            })
        };
        let violations = self.violations.iter();
        let violations = violations.map(|v| result("error", v.rule.name(), &v.nodes, &v.message));
        let findings = self.findings.iter();
        let findings = findings.map(|f| result("warning", f.lint.name(), &f.nodes, &f.message));
        let rules = Lint::ALL.iter().map(
            |lint| json!({ "id": lint.name(), "shortDescription": { "text": lint.description() } }),
        );
        let driver = json!({
            "name": "flowgate", "version": env!("CARGO_PKG_VERSION"), "rules": rules.collect::<Vec<_>>(),
        });
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": driver },
                "results": violations.chain(findings).collect::<Vec<_>>(),
            }],
        })
    }
}

/// The line, from 1, at which the element with this id has it; 1 if the id is spelled in another way there.
fn line_of(text: &str, id: &str) -> usize {
    let quoted = Json::from(id).to_string();
    let is_key = |at: &usize| {
        let before = text.get(..*at).unwrap_or_default().trim_end();
        let before = before.strip_suffix(':').map(str::trim_end);
        before.is_some_and(|before| before.ends_with("\"id\""))
    };
    let mut places = text.match_indices(&quoted).map(|(at, _)| at);
    let at = places.find(is_key).unwrap_or(0);
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}
