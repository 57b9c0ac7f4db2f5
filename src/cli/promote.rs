//! `flowgate promote`: deploys a flow set of one gateway's history to another gateway.

use super::NEEDS_APPROVAL;
use super::table::printable;
use crate::stdio::{print_line, report};
use crate::upstream::GatewayClient;
use clap::Args;
use crypto::Secret;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Promote {
    /// The gateway that has the flow set: `https://HOST[:PORT][/PATH]`, where PATH leads to an
    /// upstream's admin API
    #[arg(long, value_name = "URL")]
    from: String,
    /// The gateway to deploy it to
    #[arg(long, value_name = "URL")]
    to: String,
    /// The revision or tag in the history of the first one
    #[arg(long)]
    rev: String,
    /// Only say what the policy of the second one refuses, and what it would stop and start
    #[arg(long)]
    check: bool,
    /// What to say about it in the history of the second one
    #[arg(long)]
    message: Option<String>,
    /// The file of the token for the first one, with flows.read; otherwise the variable
    /// `FLOWGATE_FROM_TOKEN`
    #[arg(long, value_name = "FILE")]
    from_token_file: Option<PathBuf>,
    /// The file of the token for the second one, with flows.read and flows.write; otherwise
    /// `FLOWGATE_TO_TOKEN`
    #[arg(long, value_name = "FILE")]
    to_token_file: Option<PathBuf>,
    /// The certification authorities of the first one, PEM; otherwise those of the system
    #[arg(long, value_name = "FILE")]
    from_ca: Option<PathBuf>,
    /// The certification authorities of the second one
    #[arg(long, value_name = "FILE")]
    to_ca: Option<PathBuf>,
}

pub(super) fn run(arguments: &Promote) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(promote(arguments)));
    match done {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Refused) => ExitCode::FAILURE,
        Ok(Outcome::NeedsApproval) => ExitCode::from(NEEDS_APPROVAL),
        Err(reason) => {
            report(format_args!("flowgate: {}", printable(&reason)));
            ExitCode::FAILURE
        }
    }
}

/// What becomes of a flow set at the second gateway.
enum Outcome {
    /// It is deployed, or can be.
    Fine,
    /// A rule refuses it.
    Refused,
    /// It waits for the approval of another user, or would.
    NeedsApproval,
}

/// Reads there, checks or deploys here.
async fn promote(arguments: &Promote) -> Result<Outcome, String> {
    let Promote { from, to, rev, .. } = arguments;
    let token = token(arguments.from_token_file.as_deref(), "FLOWGATE_FROM_TOKEN")?;
    let from = GatewayClient::open(from, arguments.from_ca.as_deref(), token)?;
    let token = self::token(arguments.to_token_file.as_deref(), "FLOWGATE_TO_TOKEN")?;
    let to = GatewayClient::open(to, arguments.to_ca.as_deref(), token)?;
    let file = from
        .get(&format!("/gateway/export/{}", encoded(rev)))
        .await?;
    let active = to.get("/flows").await?;
    let active = active["rev"]
        .as_str()
        .ok_or("the second gateway names no active revision")?;
    if arguments.check {
        let submission = json!({ "flows": file["flows"], "rev": active });
        let checked = to.post("/gateway/check", None, &submission).await?;
        return Ok(shown(&checked));
    }
    let path = format!("/gateway/import?rev={}", encoded(active));
    let message = arguments.message.as_deref();
    let done = to.post(&path, message, &file).await?;
    if done["rev"].is_null() {
        // 202: a proposal.
        print_line(text(&done["message"]));
        return Ok(Outcome::NeedsApproval);
    }
    print_line(format_args!(
        "deployed {} as {}",
        text(&file["rev"]),
        text(&done["rev"])
    ));
    match done["without_credentials"].as_array() {
        Some(nodes) if nodes.is_empty() => {}
        Some(nodes) => {
            let nodes: Vec<String> = nodes.iter().map(text).collect();
            print_line(format_args!("without credentials: {}", nodes.join(" ")));
        }
        None => print_line(format_args!(
            "the first gateway does not know which nodes have credentials"
        )),
    }
    Ok(Outcome::Fine)
}

/// Prints the result of a dry run.
fn shown(checked: &Json) -> Outcome {
    let list = |name: &str| checked[name].as_array().cloned().unwrap_or_default();
    for (name, word) in [("violations", "refused"), ("findings", "warning")] {
        for found in list(name) {
            print_line(format_args!(
                "{word}: {} [{}]",
                text(&found["message"]),
                text(&found["rule"])
            ));
        }
    }
    let approval = &checked["approval"]["message"];
    if !approval.is_null() {
        print_line(format_args!("would wait as a proposal: {}", text(approval)));
    }
    let [stop, start, rewire] = ["stop", "start", "rewire"].map(|name| list(name).len());
    print_line(format_args!(
        "{stop} nodes stop, {start} start, {rewire} are rewired"
    ));
    match (checked["allowed"] == true, approval.is_null()) {
        (false, _) => Outcome::Refused,
        (true, false) => Outcome::NeedsApproval,
        (true, true) => Outcome::Fine,
    }
}

/// A text of the other gateway's, as a terminal may get it.
fn text(value: &Json) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// Never from the command line, which other users of the machine can read.
fn token(file: Option<&Path>, variable: &str) -> Result<Secret, String> {
    let token = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            text.map_err(|error| format!("{}: {error}", file.display()))?
        }
        None => std::env::var(variable)
            .map_err(|_| format!("there is no token: name its file, or set {variable}"))?,
    };
    Ok(Secret::new(token.trim().to_owned()))
}

/// A value as a part of a path or a query.
fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}
