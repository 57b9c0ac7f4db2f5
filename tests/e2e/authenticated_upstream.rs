//! [`AuthenticatedUpstream`]: a runtime behind the gateway that requires a sign-in, as Node-RED
//! with adminAuth does, and can be made to lose its sessions.

use crate::mock_upstream::{Action, MockUpstream, ok, status};
use serde_json::json;
use std::sync::{Arc, Mutex};

const FORM: &str =
    "client_id=node-red-admin&grant_type=password&scope=*&username=flowgate&password=pass+%26+word";

/// How Node-RED says that a permission is missing.
pub const FORBIDDEN: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

/// A runtime with adminAuth, as Node-RED answers (docs/reference/node-red-admin-api.md §1.2, §1.5).
#[derive(Clone, Default)]
pub struct AuthenticatedUpstream(Arc<Mutex<State>>);

#[derive(Default)]
pub struct State {
    /// The tokens that are good.
    pub good: Vec<String>,
    pub handed_out: usize,
    /// The response to sign-ins, if not a token.
    pub refusal: Option<String>,
    /// Of new tokens, seconds.
    pub life: Option<u64>,
    /// True if new tokens are invalid.
    pub useless: bool,
    pub refused: usize,
    /// True if requests without a valid token may read.
    pub anonymous: bool,
}

impl AuthenticatedUpstream {
    pub async fn start(&self) -> MockUpstream {
        let here = self.clone();
        MockUpstream::start(move |request| here.answer(request)).await
    }

    pub fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    /// Ends its sessions.
    pub fn forget(&self) {
        self.change(|state| state.good.clear());
    }

    pub fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }

    pub fn answer(&self, request: &str) -> Action {
        let mut state = self.0.lock().unwrap();
        if request.starts_with("POST /auth/token ") {
            // Slowly, so that others come meanwhile.
            return Action::Delay(50, state.hand_out(request));
        }
        if request.starts_with("GET /strict ") {
            return Action::Respond(refusal("Bearer realm=\"theirs\""));
        }
        if request.starts_with("GET /auth/login ") || request.contains(" /open") {
            return Action::Respond(ok("application/json", "{}"));
        }
        let token = field(request, "authorization: Bearer ");
        if !token.is_some_and(|token| state.good.iter().any(|good| good == token)) {
            if state.anonymous {
                return Action::Respond(if request.starts_with("GET ") {
                    let user = r#"{"user":{"anonymous":true,"permissions":"read"}}"#;
                    ok("application/json", user)
                } else {
                    FORBIDDEN.to_owned()
                });
            }
            state.refused += 1;
            return Action::Respond(refusal("Bearer realm=\"Users\", error=\"invalid_token\""));
        }
        Action::Respond(
            if request.contains(" /forbidden") || request.contains("x-forbidden") {
                FORBIDDEN.to_owned()
            } else if request.starts_with("POST /flows ") {
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
            } else {
                ok("application/json", "{\"rev\":\"1\",\"flows\":[]}")
            },
        )
    }
}

impl State {
    fn hand_out(&mut self, request: &str) -> String {
        assert!(request.ends_with(FORM), "{request}");
        if let Some(refusal) = &self.refusal {
            return refusal.clone();
        }
        self.handed_out += 1;
        let token = format!("theirs+{}/==", self.handed_out);
        let life = self.life.unwrap_or(604_800);
        let body = json!({ "access_token": token, "expires_in": life, "token_type": "Bearer" });
        if !self.useless {
            self.good.push(token);
        }
        ok("application/json", &body.to_string())
    }
}

pub fn refusal(challenge: &str) -> String {
    let page = status("401 Unauthorized", "text/plain", "Unauthorized");
    page.replacen("\r\n", &format!("\r\nWWW-Authenticate: {challenge}\r\n"), 1)
}

/// What stands in a line behind these words.
pub fn field<'r>(request: &'r str, words: &str) -> Option<&'r str> {
    request.lines().find_map(|line| line.strip_prefix(words))
}
