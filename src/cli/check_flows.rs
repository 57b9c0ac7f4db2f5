//! `flowgate check-flows`: compares a file of flows with the policy and looks for mistakes, without
//! a running gateway.

use super::NEEDS_APPROVAL;
use crate::auth::Permissions;
use crate::config::{Config, Mount};
use crate::deployment::{Judgement, judge_file};
#[cfg(feature = "engine")]
use crate::editor::package_types;
use crate::policy::{self, Violation, WRITE, Who};
use crate::stdio::{print, report};
use clap::{Args, ValueEnum};
use flows::{FlowSet, Lint, Submission};
use serde_json::{Value as Json, json};
use smol_str::SmolStr;
use std::fmt::Write as _;
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
    /// The user of the configuration who would deploy
    #[arg(long, value_name = "NAME", conflicts_with = "permissions")]
    user: Option<String>,
    /// The permissions of the user who would deploy; may be given several times. Without --user and
    /// this: all
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

/// The rule of a user who may change no flow, as of POST /gateway/check.
const PERMISSION: &str = "permission";

/// What the policy says about a file, and what is suspicious in it.
struct Report {
    judgement: Judgement,
    /// True if the user may change flows at all.
    may_deploy: bool,
}

pub(super) fn run(config: &Config, arguments: &CheckFlows) -> ExitCode {
    match check(config, arguments) {
        Ok((text, report)) => {
            let shown = match arguments.format {
                Format::Text => report.text(),
                Format::Json => format!("{:#}\n", report.json()),
                Format::Sarif => format!("{:#}\n", report.sarif(&arguments.file, &text)),
            };
            print(shown);
            report.exit_code(arguments.strict)
        }
        Err(message) => {
            report(format_args!("flowgate: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn check(config: &Config, arguments: &CheckFlows) -> Result<(String, Report), String> {
    let mount = mount_of(config, arguments.upstream.as_deref())?;
    let (text, submission) = read(&arguments.file)?;
    let base = match &arguments.base {
        Some(file) => read(file)?.1.flows,
        None => FlowSet::default(),
    };
    let permissions = match (&arguments.user, arguments.permissions.as_slice()) {
        (Some(user), _) => permissions_of(config, mount, user)?,
        (None, []) => Permissions::all(),
        (None, names) => Permissions::of(names.into()),
    };
    let who = Who {
        // Without --user it is some user, not an anonymous caller.
        user: arguments.user.as_deref().unwrap_or("user"),
        permissions: &permissions,
    };
    // Only the types of the engine and of its packages are known here.
    let has_engine = config.upstreams.is_empty() || config.engine.process.is_some();
    let is_engine = arguments.upstream.is_none() && has_engine;
    let policy = mount.map_or(&config.policy, |mount| &mount.policy);
    let types = types(config).filter(|_| is_engine);
    let judged = judge_file(policy, who, base, submission, types.as_deref());
    let report = Report {
        judgement: judged.map_err(|error| error.to_string())?,
        may_deploy: permissions.cover_some(WRITE),
    };
    Ok((text, report))
}

/// The types of the engine's nodes, and those in the files of the packages of its node host; a
/// gateway without the engine knows none.
#[cfg(feature = "engine")]
#[allow(clippy::unnecessary_wraps, reason = "without the engine it knows none")]
fn types(config: &Config) -> Option<Box<policy::Types>> {
    let host = config.engine.node_host.as_ref();
    let of_packages = host.map(|host| package_types(&host.directory));
    let of_packages = of_packages.unwrap_or_default();
    Some(Box::new(move |kind| {
        engine::nodes::knows(kind) || of_packages.contains(kind)
    }))
}
#[cfg(not(feature = "engine"))]
fn types(_: &Config) -> Option<Box<policy::Types>> {
    None
}

/// The upstream of this name; `None`: the engine.
fn mount_of<'c>(config: &'c Config, upstream: Option<&str>) -> Result<Option<&'c Mount>, String> {
    let Some(name) = upstream else {
        return Ok(None);
    };
    let mut mounts = config.upstreams.iter().map(|upstream| &upstream.mount);
    let mount = mounts.find(|mount| mount.name == name);
    let missing = || format!("the configuration has no upstream named {name}");
    mount.ok_or_else(missing).map(Some)
}

/// The permissions that a user has there.
fn permissions_of(
    config: &Config,
    mount: Option<&Mount>,
    name: &str,
) -> Result<Permissions, String> {
    let mut users = config.auth.iter().flat_map(|auth| &auth.users);
    let user = users.find(|user| user.name == name).ok_or_else(|| {
        format!(
            "the configuration has no user named {name}; of a service token, name the permissions"
        )
    })?;
    let mut at_mount = mount.iter().flat_map(|mount| &mount.permissions);
    let here = at_mount.find(|(user, _)| user == name);
    let list = here.map_or(&user.permissions, |(_, list)| list);
    Ok(Permissions::of(list.iter().map(SmolStr::new).collect()))
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

/// A line of the report: a violation, a change that needs approval, or a finding.
struct Shown<'a> {
    rule: &'a str,
    nodes: &'a [SmolStr],
    message: String,
}

impl Report {
    fn exit_code(&self, strict: bool) -> ExitCode {
        if !self.refusals().is_empty() || (strict && !self.judgement.findings.is_empty()) {
            ExitCode::FAILURE
        } else if self.judgement.approval.is_some() {
            ExitCode::from(NEEDS_APPROVAL)
        } else {
            ExitCode::SUCCESS
        }
    }

    fn refusals(&self) -> Vec<Shown<'_>> {
        let lacking = (!self.may_deploy).then(|| Shown {
            rule: PERMISSION,
            nodes: &[],
            message: format!("deploying needs the permission {WRITE}"),
        });
        let violations = self.judgement.verdict.0.iter().map(Shown::of);
        lacking.into_iter().chain(violations).collect()
    }

    fn approval(&self) -> Option<Shown<'_>> {
        self.judgement.approval.as_ref().map(Shown::of)
    }

    fn findings(&self) -> impl Iterator<Item = Shown<'_>> {
        self.judgement.findings.iter().map(|finding| Shown {
            rule: finding.lint.name(),
            nodes: &finding.nodes,
            message: finding.message.clone(),
        })
    }

    fn text(&self) -> String {
        let mut shown = String::new();
        let mut line = |verb: &str, Shown { rule, message, .. }: &Shown<'_>| {
            let _ = writeln!(shown, "{verb}: {message} [{rule}]");
        };
        let refusals = self.refusals();
        for refusal in &refusals {
            line("refused", refusal);
        }
        if let Some(approval) = self.approval() {
            line("would wait as a proposal", &approval);
        }
        for finding in self.findings() {
            line("warning", &finding);
        }
        let findings = self.judgement.findings.len();
        shown
            + &format!(
                "{} violations of the policy, {findings} findings\n",
                refusals.len()
            )
    }

    fn json(&self) -> Json {
        let refusals = self.refusals();
        let approval = self.approval();
        json!({
            "allowed": refusals.is_empty(),
            "violations": refusals.iter().map(Shown::json).collect::<Vec<_>>(),
            "approval": approval.map(|Shown { nodes, message, .. }| json!({ "nodes": nodes, "message": message })),
            "findings": self.findings().map(|finding| finding.json()).collect::<Vec<_>>(),
        })
    }

    /// SARIF 2.1.0 (OASIS): violations are errors, findings warnings, changes that need approval
    /// notes, each at the line of its first element.
    fn sarif(&self, file: &Path, text: &str) -> Json {
        let result = |level: &str,
                      Shown {
                          rule,
                          nodes,
                          message,
                      }: &Shown<'_>| {
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
        let refusals = self.refusals();
        let refusals = refusals.iter().map(|found| result("error", found));
        let approval = self.approval();
        let approval = approval.iter().map(|found| result("note", found));
        let findings = self.findings().map(|found| result("warning", &found));
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
                "results": refusals.chain(approval).chain(findings).collect::<Vec<_>>(),
            }],
        })
    }
}

impl<'a> Shown<'a> {
    fn of(violation: &'a Violation) -> Self {
        Self {
            rule: violation.rule.name(),
            nodes: &violation.nodes,
            message: violation.message.clone(),
        }
    }

    fn json(&self) -> Json {
        json!({ "rule": self.rule, "nodes": self.nodes, "message": self.message })
    }
}

/// The line, from 1, at which the element with this id has it; 1 if the id is spelled in another
/// way there.
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
