//! The settings of a Node-RED that a gateway in front of it takes over, as the text of a
//! gateway.toml; and what it does not.

use super::Imported;
use super::marked::{file, maker, toml_text};
use crate::config::is_permission;
use serde_json::{Map, Value as Json};

/// Settings of which each changes who may do what, and that flowgate has no equal of.
const UNKNOWN: [(&str, &str); 7] = [
    (
        "httpAdminMiddleware",
        "requests pass flowgate first; Node-RED goes on calling it",
    ),
    (
        "httpNodeMiddleware",
        "requests pass flowgate first; Node-RED goes on calling it",
    ),
    (
        "httpAdminCors",
        "set [headers] cors_origins if pages of other sites use the admin API",
    ),
    (
        "webSocketNodeVerifyClient",
        "Node-RED goes on calling it; flowgate asks for the permission http.read before",
    ),
    (
        "requireHttps",
        "flowgate has TLS on each listener; remove it, because flowgate speaks plain HTTP to Node-RED unless https is set",
    ),
    ("disableEditor", "it stays disabled in Node-RED"),
    (
        "httpStaticAuth",
        "Node-RED goes on asking for it: make the static paths a [[route]] with public = true and pass_authorization = true",
    ),
];

/// Seconds of a session in Node-RED by default, and as many in flowgate.
const WEEK: u64 = 604_800;
const YEAR: u64 = 365 * 24 * 3600;

/// Makes the gateway.toml.
pub(super) fn import(settings: &Map<String, Json>) -> Imported {
    let mut made = Imported::default();
    made.auth(settings.get("adminAuth"));
    let (admin, node) = roots(settings, &mut made);
    made.upstream(settings, &admin);
    made.endpoints(settings, &admin, &node);
    for (name, advice) in UNKNOWN {
        if settings
            .get(name)
            .is_some_and(|value| *value != Json::Bool(false))
        {
            made.notice(format!("{name} is not carried over: {advice}"));
        }
    }
    made
}

/// The paths of the admin API and of endpoints; empty: the root.
fn roots(settings: &Map<String, Json>, made: &mut Imported) -> (String, String) {
    let mut root = |name: &str| {
        let value = settings.get(name).or_else(|| settings.get("httpRoot"));
        match value {
            None | Some(Json::Null) => String::new(),
            Some(Json::String(text)) if toml_text(text).is_some() => {
                let path = text.trim_matches('/');
                if path.is_empty() {
                    String::new()
                } else {
                    format!("/{path}")
                }
            }
            Some(Json::Bool(false)) => {
                made.notice(format!("{name} is false: Node-RED does not serve these paths, whatever flowgate lets through"));
                String::new()
            }
            Some(_) => {
                made.notice(format!("{name} is no text: write [upstream] admin_root or the paths of [[route]] by hand"));
                String::new()
            }
        }
    };
    (root("httpAdminRoot"), root("httpNodeRoot"))
}

/// How Node-RED is reached.
enum Transport {
    Plain,
    /// Over TLS, with a certificate that the file does not name.
    Tls,
    /// Over TLS, with the certificate in this file.
    TlsBy(String),
}

impl Imported {
    /// A setting with a text. `None`: the text cannot stand in gateway.toml, which is a notice.
    fn text(&mut self, of: &str, key: &str, text: &str) -> Option<()> {
        let Some(value) = toml_text(text) else {
            let by = maker(text).unwrap_or("the content of a file");
            self.notice(format!(
                "{of} is not carried over: it is made by {by}; write {key} by hand"
            ));
            return None;
        };
        self.line(&format!("{key} = {value}"));
        Some(())
    }

    fn auth(&mut self, auth: Option<&Json>) {
        self.line("[auth]");
        let auth = match auth {
            None | Some(Json::Null) => {
                self.notice("there is no adminAuth, every client could deploy: flowgate makes a user admin at its first start, and shows the password once".to_owned());
                return self.line("");
            }
            Some(auth) => auth,
        };
        if let Some(by) = auth.as_str().and_then(maker) {
            self.notice(format!("adminAuth is not carried over: it is made by {by}; name the users in [[auth.user]] or a provider in [[auth.oidc]]"));
            return self.line("");
        }
        self.lifetime(&auth["sessionExpiryTime"]);
        if auth["type"] != "credentials" {
            self.notice("adminAuth has a strategy of passport, which is not carried over: name the provider in [[auth.oidc]]".to_owned());
        }
        if auth.get("tokens").is_some() {
            self.notice("adminAuth.tokens is not carried over: make tokens with `flowgate token create`, or accept JWTs with [[auth.jwt]]".to_owned());
        }
        if let Some(default) = auth.get("default") {
            self.anonymous(default);
        }
        self.line("");
        match &auth["users"] {
            Json::Array(users) => users.iter().for_each(|user| self.user(user)),
            Json::Null => {}
            _ => self.notice("adminAuth.users is a function, which is not carried over: name the users in [[auth.user]]".to_owned()),
        }
        self.notice("adminAuth asks for a sign-in in Node-RED too: remove it there once only flowgate reaches Node-RED, or give flowgate a user with permissions \"*\" ([upstream] user and password_file)".to_owned());
    }

    fn lifetime(&mut self, seconds: &Json) {
        match seconds.as_u64() {
            Some(seconds @ 1..=YEAR) => self.line(&format!("lifetime = \"{seconds}s\"")),
            None if seconds.is_null() => self.line(&format!("lifetime = \"{WEEK}s\"")),
            _ => self.notice(format!("adminAuth.sessionExpiryTime is not carried over: [auth] lifetime is 1 to {YEAR} seconds")),
        }
    }

    fn anonymous(&mut self, default: &Json) {
        match permissions(&default["permissions"]) {
            Some(list) => {
                self.line(&format!("anonymous = {list}"));
                self.notice(format!("adminAuth.default: clients that have not signed in have the permissions {list}; remove [auth] anonymous if they need none"));
            }
            None => self.notice(
                "adminAuth.default is not carried over: write [auth] anonymous by hand".to_owned(),
            ),
        }
    }

    fn user(&mut self, user: &Json) {
        let name = user["username"].as_str().unwrap_or_default();
        let hash = user["password"].as_str().unwrap_or_default();
        let shown = toml_text(name).unwrap_or_else(|| "of a computed name".to_owned());
        let is_hash = ["$2a$", "$2b$", "$2y$", "\u{e000}"]
            .iter()
            .any(|begin| hash.starts_with(begin));
        let Some(permissions) = permissions(&user["permissions"]) else {
            return self.notice(format!("the user {shown} is not carried over: the permissions are neither a text nor a list; add an [[auth.user]]"));
        };
        if name.is_empty() || toml_text(name).is_none() || !is_hash || toml_text(hash).is_none() {
            let by = maker(hash).map_or_else(String::new, |by| format!(", it is made by {by}"));
            return self.notice(format!("the user {shown} is not carried over: the password is no bcrypt hash{by}; add an [[auth.user]] with `flowgate hash-password`"));
        }
        self.line("[[auth.user]]");
        let of = format!("the user {shown}");
        let _ = self.text(&of, "name", name);
        let _ = self.text(&of, "password_hash", hash);
        self.line(&format!("permissions = {permissions}"));
        self.line("");
    }

    /// Where Node-RED listens, with its certificate for flowgate's own clients.
    fn upstream(&mut self, settings: &Map<String, Json>, admin: &str) {
        let transport = self.certificate(settings.get("https"));
        self.line("[upstream]");
        let scheme = match transport {
            Transport::Plain => "http",
            Transport::Tls | Transport::TlsBy(_) => "https",
        };
        let (host, port) = (
            self.host(settings.get("uiHost")),
            self.port(settings.get("uiPort")),
        );
        let _ = self.text("uiHost", "url", &format!("{scheme}://{host}:{port}"));
        if let Transport::TlsBy(authority) = transport {
            let _ = self.text("https.cert", "ca_file", &authority);
            self.notice("Node-RED has TLS itself: flowgate verifies its certificate by ca_file; set [upstream] server_name to a name in it, or remove https from Node-RED, which needs none on this machine".to_owned());
        }
        if !admin.is_empty() {
            let _ = self.text("httpAdminRoot", "admin_root", admin);
        }
        self.line("");
    }

    fn host(&mut self, host: Option<&Json>) -> String {
        let host = host.and_then(Json::as_str).unwrap_or_default();
        let is_local = matches!(host, "127.0.0.1" | "::1" | "localhost");
        if !is_local {
            self.notice("Node-RED listens on other addresses than 127.0.0.1, so clients can bypass flowgate: set uiHost: \"127.0.0.1\" in settings.js".to_owned());
        }
        match host {
            "" | "0.0.0.0" | "::" => "127.0.0.1".to_owned(),
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        }
    }

    fn port(&mut self, port: Option<&Json>) -> String {
        match port {
            Some(Json::Number(port)) => port.to_string(),
            Some(Json::String(port)) if toml_text(port).is_some() => port.clone(),
            None | Some(Json::Null) => "1880".to_owned(),
            Some(_) => {
                self.notice("uiPort is not carried over: 1880 stands in [upstream] url".to_owned());
                "1880".to_owned()
            }
        }
    }

    /// The certificate for clients. Answers how Node-RED is reached.
    fn certificate(&mut self, https: Option<&Json>) -> Transport {
        let Some(https) = https.filter(|https| !matches!(https, Json::Null | Json::Bool(false)))
        else {
            return Transport::Plain;
        };
        let path = |name: &str| https[name].as_str().and_then(file).map(str::to_owned);
        let (Some(cert), Some(key)) = (path("cert"), path("key")) else {
            self.notice("https is not carried over: it names no files; name them in [[tls.certificate]], and flowgate makes a self-signed certificate until then".to_owned());
            return Transport::Tls;
        };
        self.line("[[tls.certificate]]");
        let _ = self.text("https.cert", "cert", &cert);
        let _ = self.text("https.key", "key", &key);
        self.line("");
        Transport::TlsBy(cert)
    }

    /// Endpoints of flows: those behind httpNodeAuth stay so, and others need a sign-in.
    fn endpoints(&mut self, settings: &Map<String, Json>, admin: &str, node: &str) {
        let protected = settings.get("httpNodeAuth").filter(|auth| !auth.is_null());
        if protected.is_none() {
            return self.notice("endpoints of flows are open in Node-RED, and need the permission http.read or http.write in flowgate: name the open ones in [[route]] with public = true".to_owned());
        }
        if node.is_empty() || node == admin {
            return self.notice("httpNodeAuth: Node-RED goes on asking for it; name the paths of the endpoints in [[route]] with public = true and pass_authorization = true, so that it gets user and password".to_owned());
        }
        self.line("# Node-RED asks for httpNodeAuth itself.");
        self.line("[[route]]");
        let _ = self.text("httpNodeRoot", "path", node);
        for line in [
            "prefix = true",
            "public = true",
            "pass_authorization = true",
            "",
        ] {
            self.line(line);
        }
        self.notice(format!("httpNodeAuth: flowgate passes requests below {node} on with their user and password, and Node-RED goes on asking for them"));
    }
}

/// Permissions of Node-RED, which has the same names, as a list of gateway.toml.
fn permissions(value: &Json) -> Option<String> {
    let names: Vec<&str> = match value {
        // As Node-RED: without permissions a user has none.
        Json::Null => Vec::new(),
        Json::String(name) => name.split(',').map(str::trim).collect(),
        Json::Array(names) => names.iter().map(Json::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    let quoted = |name: &&str| is_permission(name).then(|| toml_text(name)).flatten();
    let names: Option<Vec<String>> = names.iter().map(quoted).collect();
    Some(format!("[{}]", names?.join(", ")))
}
