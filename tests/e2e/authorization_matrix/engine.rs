//! The authorization matrix with the engine: which callers are allowed, and what a flow receives.

use super::ROUTES;
use super::rows::{BASIC, Below, Caller, FILE, File, Mode, QUERY, Row};
use super::walk::{Walk, with_headers};
use crate::client::Answer;
use crate::confused_deputy::users;
use crate::harness::{Gateway, flow_set, script};
use std::collections::BTreeSet;

#[tokio::test]
async fn with_the_engine() {
    let gateway = Gateway::with(&(ROUTES.to_owned() + &users(&[("all", "[\"*\"]")])));
    let File { table, unlisted } = serde_json::from_str(FILE).unwrap();
    let mut walk = Walk::start(&gateway, Mode::default(), &table).await;
    for row in &unlisted {
        let taken = ["nothing", "anyone"].contains(&row.needs.as_str());
        walk.names.extend((!taken).then(|| row.needs.clone()));
    }
    // What the table lists reaches no flow: only who may is to be seen.
    for row in &table {
        for (caller, http2) in walk.callers(row).await {
            walk.seen(row, &caller, http2).await;
        }
    }
    deploy_echoes(&gateway, &walk.all, &unlisted).await;
    for row in unlisted.iter().filter(|row| row.below == Below::Runtime) {
        for (caller, http2) in walk.callers(row).await {
            let Some((answer, wanted)) = walk.seen(row, &caller, http2).await else {
                continue;
            };
            let status = match row.method.as_str() {
                "HEAD" => 200,
                // Answered for the flow.
                "OPTIONS" => 204,
                method if ECHOED.contains(&method) => 200,
                // No http-in node has others.
                _ => 405,
            };
            assert_eq!(answer.status, status, "{} {}", row.method, row.send);
            if !ECHOED.contains(&row.method.as_str()) {
                continue;
            }
            let seen = answer.json();
            let target = format!("{}{QUERY}", row.send);
            assert_eq!(seen["line"], format!("{} {target}", row.method));
            let body = row.body.as_deref().unwrap_or("{}");
            assert_eq!(seen["body"].to_string(), body);
            let fields = seen["headers"].as_object().unwrap().iter();
            let mut lines: BTreeSet<String> = fields
                .map(|(name, value)| format!("{name}: {}", value.as_str().unwrap()))
                .collect();
            lines.retain(|line| !line.starts_with("content-length: "));
            lines.insert(format!("{} {target} HTTP/1.1", row.method));
            assert_eq!(lines, wanted, "{} {}", row.method, row.send);
        }
    }
    assert!(walk.steps > 600, "only {} requests", walk.steps);
}

/// Methods whose flows say what they see; `HEAD` has no body to say it in.
const ECHOED: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// A flow for each of the rows' endpoints that says what it sees.
async fn deploy_echoes(gateway: &Gateway, token: &str, rows: &[Row]) {
    let code = "msg.payload = { line: msg.req.method + ' ' + msg.req.url, headers: msg.req.headers, \
                body: msg.req.body || {} }; return msg";
    let endpoints = rows
        .iter()
        .filter(|row| row.below == Below::Runtime && ECHOED.contains(&row.method.as_str()));
    let flows: Vec<_> = endpoints
        .enumerate()
        .map(|(n, row)| {
            // A colon begins a parameter.
            let path = row.send.replace(':', "\\:");
            let method = row.method.to_ascii_lowercase();
            script(&format!("t{n}"), &method, &path, code)
        })
        .collect();
    gateway.deploy(token, &flow_set(&flows)).await;
}

impl Walk<'_> {
    /// One request to our own engine; what came back and what a flow must have seen, if the caller
    /// may.
    async fn seen(
        &mut self,
        row: &Row,
        caller: &Caller,
        http2: bool,
    ) -> Option<(Answer, BTreeSet<String>)> {
        let token = match caller {
            Caller::Stranger => None,
            Caller::All => Some(self.all.clone()),
            Caller::Near => Some(self.token(&row.needs, true).await),
            Caller::Exact => Some(self.token(&row.needs, false).await),
        };
        let path = format!("{}{QUERY}", row.send);
        let request = self.gateway.request(&row.method, &path);
        let request = with_headers(request, row, token.as_deref(), http2);
        let answer = self.send(request, http2).await;
        self.steps += 1;
        let may = self.may(row, caller);
        let what = format!(
            "{} {path} needs {}, {}",
            row.method,
            row.needs,
            caller.name()
        );
        assert_eq!(answer.status == 401, !may, "{what}: {}", answer.status);
        let id = answer.header("x-request-id").to_owned();
        let mut wanted = self.wanted(row, None, token.is_some(), &id);
        // A public endpoint of ours gets what an upstream's gets with pass_authorization.
        if row.needs == "nothing" && token.is_none() {
            wanted.insert(format!("authorization: {BASIC}"));
        }
        may.then_some((answer, wanted))
    }
}
