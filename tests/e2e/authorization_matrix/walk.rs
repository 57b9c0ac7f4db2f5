//! Requests of every caller for every row, and what an upstream must receive of each.

use super::rows::{Access, BASIC, Below, Caller, Leaves, Mode, QUERY, Row};
use crate::client::{Answer, Connection, PASSWORD, Request};
use crate::confused_deputy::ACCOUNT;
use crate::harness::Gateway;
use crate::mock_upstream::MockUpstream;
use std::collections::{BTreeSet, HashMap};

/// A gateway on its way through the table.
pub struct Walk<'g> {
    pub gateway: &'g Gateway,
    pub mode: Mode,
    /// HTTP/1.1 and HTTP/2.
    pub connections: [Option<Connection>; 2],
    /// Every permission of the file.
    pub names: BTreeSet<String>,
    pub all: String,
    /// The tokens for single permissions, and for all others.
    pub tokens: HashMap<String, String>,
    pub steps: usize,
}

/// Where other applications ask who a caller is.
const VERIFY: &str = "/gateway/verify";

impl<'g> Walk<'g> {
    pub async fn start(gateway: &'g Gateway, mode: Mode, rows: &[Row]) -> Self {
        let open = ["nothing", "anyone"];
        let names = rows.iter().map(|row| row.needs.clone());
        let mut walk = Self {
            gateway,
            mode,
            connections: [None, None],
            names: names
                .filter(|name| !open.contains(&name.as_str()))
                .collect(),
            all: String::new(),
            tokens: HashMap::new(),
            steps: 0,
        };
        if walk.mode.access != Access::Open {
            walk.all = walk.sign_in("").await;
        }
        walk
    }

    pub async fn sign_in(&mut self, scope: &str) -> String {
        let form = [
            ("client_id", "node-red-admin"),
            ("grant_type", "password"),
            ("scope", scope),
            ("username", "all"),
            ("password", PASSWORD),
        ];
        let path = format!("{}{}/auth/token", self.mode.site.0, self.mode.root);
        let request = self.addressed(self.gateway.post(&path)).form(&form);
        let answer = self.send(request, false).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["access_token"].as_str().unwrap().to_owned()
    }

    pub fn addressed(&self, request: Request) -> Request {
        match self.mode.host {
            Some(host) => request.host(host),
            None => request,
        }
    }

    /// Who tries a row, and in which version of HTTP.
    pub async fn callers(&mut self, row: &Row) -> Vec<(Caller, bool)> {
        if self.mode.access == Access::Open {
            return vec![(Caller::Stranger, false), (Caller::Stranger, true)];
        }
        let mut callers = vec![(Caller::Stranger, false), (Caller::All, false)];
        if self.names.contains(&row.needs) {
            for near in [false, true] {
                self.token(&row.needs, near).await;
            }
            callers.extend([(Caller::Near, false), (Caller::Exact, false)]);
            callers.push((Caller::Exact, true));
        }
        callers
    }

    /// A token for this permission, or for all but this one.
    pub async fn token(&mut self, needs: &str, near: bool) -> String {
        let mut names: Vec<&str> = vec![needs];
        if near {
            names = self
                .names
                .iter()
                .map(String::as_str)
                .filter(|name| *name != needs)
                .collect();
        }
        let scope = names.join(" ");
        if let Some(token) = self.tokens.get(&scope) {
            return token.clone();
        }
        let token = self.sign_in(&scope).await;
        self.tokens.insert(scope, token.clone());
        token
    }

    /// What the file and the mode say.
    pub fn may(&self, row: &Row, caller: &Caller) -> bool {
        let anonymous = matches!(caller, Caller::Stranger);
        match (row.needs.as_str(), &self.mode.access) {
            // It tells another application who a caller is.
            (_, access) if row.send == VERIFY => !anonymous && *access != Access::Open,
            ("nothing", _) | (_, Access::Open) => true,
            ("anyone", access) => !anonymous || *access == Access::Anonymous,
            (needs, Access::Anonymous) if anonymous => needs.split('.').next_back() == Some("read"),
            _ => matches!(caller, Caller::All | Caller::Exact),
        }
    }

    /// Sends over a connection that is kept; the gateway closes one whose body it refused to read.
    pub async fn send(&mut self, request: Request, http2: bool) -> Answer {
        for _ in 0..2 {
            let slot = &mut self.connections[usize::from(http2)];
            if slot.is_none() {
                *slot = Some(self.gateway.connect(http2).await.unwrap());
            }
            match slot.as_mut().unwrap().send(request.clone()).await {
                Ok(answer) => return answer,
                Err(_) => *slot = None,
            }
        }
        panic!("the gateway does not answer");
    }

    /// One request: what comes back, and what has left.
    pub async fn step(&mut self, row: &Row, caller: &Caller, http2: bool, behind: &MockUpstream) {
        let token = match caller {
            Caller::Stranger => None,
            Caller::All => Some(self.all.clone()),
            Caller::Near => Some(self.token(&row.needs, true).await),
            Caller::Exact => Some(self.token(&row.needs, false).await),
        };
        let (site, root) = (self.mode.site.0, self.mode.root);
        let root = if row.below == Below::Admin { root } else { "" };
        let path = format!("{site}{root}{}{QUERY}", row.send);
        let request = self.addressed(self.gateway.request(&row.method, &path));
        let request = with_headers(request, row, token.as_deref(), http2);
        let answer = self.send(request, http2).await;
        self.steps += 1;
        let what = format!(
            "{} {path} needs {}, {caller}",
            row.method,
            row.needs,
            caller = caller.name()
        );
        let may = self.may(row, caller);
        assert_eq!(answer.status == 401, !may, "{what}: {}", answer.status);
        let mut left = behind.take();
        if may && row.method != "GET" {
            left.retain(|left| !is_own_read(&left.bytes));
        }
        if !may || row.leaves == Leaves::Nothing {
            assert!(left.is_empty(), "{what}: {left:?}");
            return;
        }
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        let [left] = &left[..] else {
            panic!("{what}: {left:?}")
        };
        let scope = match caller {
            Caller::Exact => &row.needs,
            _ => "*",
        };
        let known = (token.is_some() && row.needs != "nothing").then_some(scope);
        let wanted = self.wanted(row, known, token.is_some(), answer.header("x-request-id"));
        let body = row.body.as_deref().unwrap_or_default();
        assert_eq!(split(&left.bytes), (wanted, body.to_owned()), "{what}");
    }

    /// The lines of the head that the upstream must get, sorted, without the length. `known`: the
    /// scope of a caller who was identified; `shown`: whether there was a token of ours.
    pub fn wanted(
        &self,
        row: &Row,
        known: Option<&str>,
        shown: bool,
        id: &str,
    ) -> BTreeSet<String> {
        let mode = &self.mode;
        let root = if row.below == Below::Admin {
            mode.root
        } else {
            ""
        };
        let method = match row.leaves {
            Leaves::Settings => "GET",
            _ => row.method.as_str(),
        };
        let host = match mode.host {
            Some(host) => host.to_owned(),
            None => self.gateway.address.to_string(),
        };
        let mut lines = BTreeSet::from([
            format!("{method} {}{root}{}{QUERY} HTTP/1.1", mode.site.1, row.send),
            format!("host: {host}"),
            format!("x-forwarded-host: {host}"),
            "x-forwarded-proto: https".to_owned(),
            "x-forwarded-for: 127.0.0.1".to_owned(),
            format!("x-request-id: {id}"),
        ]);
        if mode.site.1.is_empty() && !mode.site.0.is_empty() {
            lines.insert(format!("x-forwarded-prefix: {}", mode.site.0));
        }
        let dialect = if mode.service { "service" } else { "node-red" };
        match row.leaves {
            Leaves::Settings => drop(lines.insert("accept: application/json".to_owned())),
            Leaves::Deployment => {
                lines.insert(format!("{dialect}-api-version: v1"));
                lines.insert(format!("{dialect}-deployment-type: full"));
                lines.insert("content-type: application/json".to_owned());
            }
            _ => {
                lines.insert(format!("{dialect}-api-version: v1"));
                lines.extend(["cookie: a=1; b=2", "x-custom: kept"].map(str::to_owned));
                if row.body.is_some() {
                    lines.insert("content-type: application/json".to_owned());
                }
            }
        }
        match row.leaves {
            Leaves::Account | Leaves::Settings | Leaves::Deployment if mode.account => {
                lines.insert(format!("authorization: Bearer {ACCOUNT}"));
            }
            Leaves::Client if !shown => drop(lines.insert(format!("authorization: {BASIC}"))),
            _ => {}
        }
        if let Some(scope) = known.filter(|_| mode.identity_headers) {
            lines.insert("x-flowgate-user: all".to_owned());
            lines.insert(format!("x-flowgate-permissions: {scope}"));
        }
        lines
    }
}

/// The request with what a client may add, and with what it lies. HTTP/2 speaks the other dialect.
pub fn with_headers(request: Request, row: &Row, token: Option<&str>, http2: bool) -> Request {
    let version = if http2 {
        "Node-RED-API-Version"
    } else {
        "Service-API-Version"
    };
    let mut request = request
        .header(version, "v1")
        .header("Cookie", "a=1; b=2")
        .header("X-Custom", "kept")
        .header("X-User", "root")
        .header("X-Flowgate-User", "root")
        .header("X_Flowgate_Permissions", "*")
        .header("X-Forwarded-For", "203.0.113.9")
        .header("X-HTTP-Method-Override", "DELETE")
        .header("Remote-Groups", "root");
    request = match token {
        Some(token) => request.token(token),
        None if row.needs == "nothing" => request.header("Authorization", BASIC),
        None => request,
    };
    match &row.body {
        Some(body) => request
            .header("Content-Type", "application/json")
            .body(body.clone()),
        None => request,
    }
}

/// Returns whether the gateway asks for what it compares a change with: no client's request is
/// without its id.
fn is_own_read(request: &str) -> bool {
    let target = request.split([' ', '?']).nth(1).unwrap_or_default();
    request.starts_with("GET ")
        && ["/flows", "/nodes"]
            .iter()
            .any(|path| target.ends_with(path))
        && !request.contains("x-request-id:")
}

/// Head lines without that of the length, which must be the body's, and the body.
pub fn split(request: &str) -> (BTreeSet<String>, String) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = BTreeSet::new();
    for line in head.lines() {
        match line.strip_prefix("content-length: ") {
            Some(length) => assert_eq!(length, body.len().to_string(), "{request}"),
            None => assert!(lines.insert(line.to_owned()), "{line} stands twice"),
        }
    }
    (lines, body.to_owned())
}
