//! `POST /gateway/check`: the dry run of `POST /flows`, with the same body and headers.

use super::dialect;
use super::error::Error;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::deployment::Checked;
use crate::policy::WRITE;
use flows::{DeploymentType, Finding, Stop};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;

pub(super) async fn check(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let version = dialect::version(&ctx.head.headers)?;
    let kind = dialect::deployment_type(&ctx.head.headers)?;
    if kind == DeploymentType::Reload {
        let sentence = "a reload has no submission to check: the type must be full, nodes or flows";
        return Err(Error::Body(sentence.to_owned()));
    }
    let body = ctx.read_json().await?;
    let backend = Arc::clone(ctx.backend);
    let (mut watch, now) = (ctx.detached_watch(), ctx.now);
    let turn = ctx.turn().await?;
    let task = async move {
        let _turn = turn;
        let deployments = &backend.deployments;
        let submission = version.submission(&deployments.known(), &body)?;
        deployments.dry_run(submission, kind, &mut watch, now).await
    };
    let checked = ctx.work(task).await??;
    let caller = ctx.caller.as_ref();
    let may = caller.is_some_and(|caller| caller.permissions.cover_some(WRITE));
    Ok(response::json(
        StatusCode::OK,
        json(&checked, may).to_string(),
    ))
}

fn json(checked: &Checked, may: bool) -> Json {
    let mut violations = Vec::new();
    if !may {
        let message = format!("deploying needs the permission {WRITE}");
        violations.push(violation("permission", StatusCode::UNAUTHORIZED, &message));
    }
    if checked.stale {
        let message = format!(
            "the flows have changed since: the active revision is {}",
            checked.rev
        );
        violations.push(violation("rev", StatusCode::CONFLICT, &message));
    }
    let judgement = &checked.judgement;
    violations.extend(judgement.verdict.0.iter().map(|found| {
        let status = response::policy_status(found.rule);
        let mut shown = violation(found.rule.name(), status, &found.message);
        shown["nodes"] = json!(found.nodes);
        shown
    }));
    let finding = |found: &Finding| json!({ "rule": found.lint.name(), "nodes": found.nodes, "message": found.message });
    let stop = |stop: &Stop| stop.id.clone();
    json!({
        "allowed": violations.is_empty(),
        "rev": checked.rev,
        "violations": violations,
        "approval": judgement.approval.as_ref().map(|found| json!({ "nodes": found.nodes, "message": found.message })),
        "findings": judgement.findings.iter().map(finding).collect::<Vec<_>>(),
        "stop": checked.plan.stop.iter().map(stop).collect::<Vec<_>>(),
        "start": checked.plan.start,
        "rewire": checked.plan.rewire,
    })
}

fn violation(rule: &str, status: StatusCode, message: &str) -> Json {
    json!({ "rule": rule, "status": status.as_u16(), "nodes": [], "message": message })
}
