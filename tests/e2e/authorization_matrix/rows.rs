//! The rows of `tests/data/authorization-matrix.json`, the callers who try them, and the modes in
//! which they are tried.

use serde::Deserialize;

pub const FILE: &str = include_str!("../../data/authorization-matrix.json");
pub const BASIC: &str = "Basic dTpw";
/// With a duration that no profile can have: a profile would take its time.
pub const QUERY: &str = "?q=%41&r=b%20c&seconds=0";

#[derive(Deserialize)]
pub struct File {
    pub table: Vec<Row>,
    pub unlisted: Vec<Row>,
}

/// One method of one path.
#[derive(Deserialize)]
pub struct Row {
    pub method: String,
    /// A permission, `nothing` or `anyone`.
    pub needs: String,
    /// The same in front of an upstream, if it is another one there.
    pub upstream_needs: Option<String>,
    /// The path: from the admin root, or, with `below: runtime`, from the path that leads to the
    /// runtime.
    pub send: String,
    pub body: Option<String>,
    pub leaves: Leaves,
    #[serde(default)]
    pub below: Below,
    #[serde(default)]
    pub root: Root,
}

impl Row {
    /// The row as it is in front of an upstream.
    pub fn upstream(self) -> Self {
        Self {
            needs: self.upstream_needs.clone().unwrap_or(self.needs),
            ..self
        }
    }
}

/// What goes to an upstream when the caller may.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// Nothing: the gateway answers itself.
    Nothing,
    /// The request, without `Authorization`.
    Bare,
    /// The request with the gateway's account.
    Account,
    /// The request with the client's own `Authorization`, unless that is a token of the gateway's.
    Client,
    /// A request of the gateway's own: `GET /settings`.
    Settings,
    /// A request of the gateway's own: `POST /flows`.
    Deployment,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Below {
    #[default]
    Admin,
    Runtime,
}

/// At which admin roots the row is true.
#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    #[default]
    Any,
    Own,
}

/// A caller: what its token may do. All are tokens of one user who may do everything.
pub enum Caller {
    /// Without a token.
    Stranger,
    /// With all permissions of the file but the needed one.
    Near,
    /// With the needed one only.
    Exact,
    /// With `*`.
    All,
}

/// A gateway in front of one runtime, and where that is.
#[derive(Default)]
pub struct Mode {
    /// The lines of its `[[upstream]]`.
    pub lines: &'static str,
    /// The path that leads to it, as clients and as the upstream spell it.
    pub site: (&'static str, &'static str),
    pub root: &'static str,
    pub host: Option<&'static str>,
    /// True if the gateway has an account there.
    pub account: bool,
    /// True if the upstream learns who calls.
    pub identity_headers: bool,
    pub service: bool,
    pub access: Access,
}

/// Who may come without a token.
#[derive(Default, PartialEq)]
pub enum Access {
    /// No caller.
    #[default]
    Closed,
    /// Callers who only read: `anonymous = ["read"]`.
    Anonymous,
    /// Any client: `auth = "off"`.
    Open,
}

impl Caller {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stranger => "a stranger",
            Self::Near => "a caller with all other permissions",
            Self::Exact => "a caller with that permission",
            Self::All => "a caller with all",
        }
    }
}
