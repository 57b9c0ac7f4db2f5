//! A `server` of nginx: listeners, names, certificates, limits and time-outs.

use super::syntax::Directive;
use super::values::{self, list, quoted};
use super::{Imported, Scope, report};
use std::path::Path;

/// The largest body that flowgate takes.
const MAX_BODY: u64 = 1 << 30;
/// The longest time-out of a phase, in milliseconds.
const MAX_TIMEOUT: u64 = 3_600_000;

/// What stands in gateway.toml for the servers.
#[derive(Default)]
pub(super) struct Server {
    listen: Vec<String>,
    proxy_protocol: bool,
    trusted: Vec<String>,
    /// `None`: every name.
    hosts: Option<Vec<String>>,
    certificate: Option<(String, String)>,
    /// Lines of `[tls]`, `[limits]`, `[timeouts]`, `[headers]`.
    tls: Vec<String>,
    body: Option<u64>,
    timeouts: Vec<String>,
    hsts: Option<String>,
    /// Networks from which clients may connect.
    networks: Vec<String>,
}

impl Server {
    pub(super) fn read(
        server: &Directive,
        http: &[Directive],
        directory: &Path,
        made: &mut Imported,
    ) -> Self {
        report(server.inside(), made);
        let blocks = [server.inside(), http];
        let scope = Scope { blocks: &blocks };
        let mut read = Self::default();
        read.listen(server, made);
        read.hosts = hosts(scope, made);
        read.tls(scope, directory, made);
        read.limits(server, scope, made);
        read.access(server, scope, made);
        read
    }

    fn listen(&mut self, server: &Directive, made: &mut Imported) {
        let listens = server
            .inside()
            .iter()
            .filter(|found| found.name == "listen");
        let always = server
            .inside()
            .iter()
            .any(|found| found.name == "ssl" && found.word() == "on");
        let mut plain = Vec::new();
        for listen in listens {
            let line = listen.line;
            let has = |word: &str| listen.words.iter().any(|found| found == word);
            let Some(address) = values::address(listen.word()) else {
                made.notice(format!("line {line}: listen {} is not carried over: [server] listen has addresses with a port", listen.word()));
                continue;
            };
            self.proxy_protocol |= has("proxy_protocol");
            if has("ssl") || always {
                self.listen.push(address);
            } else {
                plain.push((line, address));
            }
        }
        let has_tls = !self.listen.is_empty();
        for (line, address) in plain {
            if has_tls {
                made.notice(format!(
                    "line {line}: listen {address} is not carried over: it has no TLS"
                ));
            } else {
                made.notice(format!("line {line}: {address} had no TLS, and flowgate speaks TLS on it: choose another port, such as 443, and tell clients to use https"));
                self.listen.push(address);
            }
        }
        if self.listen.is_empty() {
            made.notice(format!(
                "line {}: no listener could be carried over: 0.0.0.0:443 stands in [server] listen",
                server.line
            ));
            self.listen.push("0.0.0.0:443".to_owned());
        }
    }

    fn tls(&mut self, scope: Scope<'_>, directory: &Path, made: &mut Imported) {
        let path = |name: &str| Some(file(scope.word(name)?, directory));
        match (path("ssl_certificate"), path("ssl_certificate_key")) {
            (Some(cert), Some(key)) => self.certificate = Some((cert, key)),
            _ => made.notice("there is no ssl_certificate: flowgate makes a self-signed certificate until [[tls.certificate]] names another".to_owned()),
        }
        let versions = scope.all("ssl_protocols").next();
        if let Some(versions) = versions {
            if !versions.words.iter().any(|version| version == "TLSv1.2") {
                self.tls.push("tls12 = false".to_owned());
            }
            if versions
                .words
                .iter()
                .any(|version| matches!(&**version, "TLSv1" | "TLSv1.1" | "SSLv3"))
            {
                made.notice(format!(
                    "line {}: versions before TLS 1.2 are not offered",
                    versions.line
                ));
            }
        }
        let asked = scope.word("ssl_verify_client").unwrap_or("off");
        if let (Some(ca), "on" | "optional") = (path("ssl_client_certificate"), asked) {
            self.tls.push(format!("client_ca = {}", quoted(&ca)));
            if let Some(crl) = path("ssl_crl") {
                self.tls.push(format!("client_crl = {}", quoted(&crl)));
            }
            let kind = if asked == "on" {
                "required"
            } else {
                "optional"
            };
            self.tls.push(format!("client_certificates = \"{kind}\""));
            made.notice(
                "client certificates: name the user of each in [[auth.user]] certificates"
                    .to_owned(),
            );
        } else if asked != "off" {
            made.notice(format!(
                "ssl_verify_client {asked} is not carried over: see [tls] client_ca"
            ));
        }
    }

    fn limits(&mut self, server: &Directive, scope: Scope<'_>, made: &mut Imported) {
        let locations = server
            .inside()
            .iter()
            .filter(|found| found.name == "location");
        let inside = locations
            .flat_map(Directive::inside)
            .filter(|found| found.name == "client_max_body_size");
        for found in scope.all("client_max_body_size").chain(inside) {
            let size = values::size(found.word());
            let wanted = size.map(|size| {
                if size == 0 {
                    MAX_BODY
                } else {
                    size.clamp(1 << 10, MAX_BODY)
                }
            });
            if wanted != size {
                made.notice(format!(
                    "line {}: client_max_body_size {}: flowgate takes bodies from 1 KiB to 1 GiB",
                    found.line,
                    found.word()
                ));
            }
            self.body = self.body.max(wanted);
        }
        for (name, key) in [
            ("client_header_timeout", "header"),
            ("client_body_timeout", "body_idle"),
            ("keepalive_timeout", "keep_alive"),
        ] {
            if let Some(value) = timeout(scope.all(name).next(), made) {
                self.timeouts.push(format!("{key} = {value}"));
            }
        }
        for header in scope.all("add_header") {
            let age = header.words.get(1).and_then(|value| max_age(value));
            match age.filter(|_| header.word().eq_ignore_ascii_case("strict-transport-security")) {
                Some(0) => self.hsts = Some("off".to_owned()),
                Some(age) => self.hsts = Some(format!("{age}s")),
                None => made.notice(format!("line {}: add_header {} is not carried over: see [headers], responses of Node-RED keep their own", header.line, header.word())),
            }
        }
    }

    /// Who may connect, and from where.
    fn access(&mut self, server: &Directive, scope: Scope<'_>, made: &mut Imported) {
        self.trusted = scope
            .all("set_real_ip_from")
            .map(|found| found.word().to_owned())
            .collect();
        if let Some(field) = scope.word("real_ip_header")
            && !matches!(
                &*field.to_ascii_lowercase(),
                "x-forwarded-for" | "proxy_protocol"
            )
        {
            made.notice(format!("real_ip_header {field} is not carried over: flowgate takes X-Forwarded-For of trusted proxies, or the PROXY protocol"));
        }
        if self.proxy_protocol && self.trusted.is_empty() {
            made.notice("proxy_protocol: name the proxies in [server] trusted_proxies and set proxy_protocol = true".to_owned());
            self.proxy_protocol = false;
        }
        let inner = server
            .inside()
            .iter()
            .filter(|found| found.name == "location");
        let blocks = inner.map(Directive::inside).chain([server.inside()]);
        for block in blocks {
            let rules = block
                .iter()
                .filter(|found| matches!(&*found.name, "allow" | "deny"));
            self.networks(&rules.collect::<Vec<_>>(), made);
            let asks = block
                .iter()
                .find(|found| found.name == "auth_basic" && found.word() != "off");
            if let Some(asks) = asks {
                made.notice(format!("line {}: auth_basic is not carried over: users sign in to flowgate. Make an [[auth.user]] for each, with a password of `flowgate hash-password`; flowgate makes a user admin at its first start, and shows the password once", asks.line));
            }
        }
    }

    /// Allowed networks and `deny all`, in this order: the usual form.
    fn networks(&mut self, rules: &[&Directive], made: &mut Imported) {
        let Some((last, allowed)) = rules.split_last() else {
            return;
        };
        let is_usual = last.name == "deny"
            && last.word() == "all"
            && allowed
                .iter()
                .all(|rule| rule.name == "allow" && crate::config::is_network(rule.word()));
        let line = last.line;
        if !is_usual || allowed.is_empty() {
            return made.notice(format!("line {line}: allow and deny are not carried over: see [auth] permission_networks and the networks of an [[auth.user]]"));
        }
        let networks = allowed.iter().map(|rule| rule.word().to_owned());
        let new: Vec<_> = networks
            .filter(|network| !self.networks.contains(network))
            .collect();
        self.networks.extend(new);
        made.notice(format!("line {line}: allow and deny: all permissions may be used from these networks only ([auth] permission_networks); a [[route]] with public = true is open to all"));
    }
}

/// The names of a server; `None`: every name.
fn hosts(scope: Scope<'_>, made: &mut Imported) -> Option<Vec<String>> {
    let mut hosts = Vec::new();
    for found in scope.all("server_name") {
        for name in &found.words {
            match name.as_str() {
                "" | "_" => return None,
                name if name.starts_with('.') => {
                    hosts.extend([name[1..].to_owned(), format!("*{name}")]);
                }
                name if name.starts_with('~') || name.trim_start_matches("*.").contains('*') => {
                    made.notice(format!("line {}: server_name {name} is not carried over: [server] hosts has names and \"*.\" before a name", found.line));
                }
                name => hosts.push(name.to_owned()),
            }
        }
    }
    (!hosts.is_empty()).then_some(hosts)
}

/// A time-out as a value of gateway.toml.
pub(super) fn timeout(found: Option<&Directive>, made: &mut Imported) -> Option<String> {
    let found = found?;
    let (line, name) = (found.line, &found.name);
    let Some(milliseconds) = values::milliseconds(found.word()).filter(|time| *time > 0) else {
        made.notice(format!(
            "line {line}: {name} {} is not carried over",
            found.word()
        ));
        return None;
    };
    if milliseconds > MAX_TIMEOUT {
        made.notice(format!("line {line}: {name} {} is longer than flowgate waits: 1h stands in its place. WebSockets have no such limit", found.word()));
    }
    Some(quoted(&values::duration(milliseconds.min(MAX_TIMEOUT))))
}

/// A file; relative ones are below the directory of the configuration.
pub(super) fn file(name: &str, directory: &Path) -> String {
    directory.join(name).to_string_lossy().into_owned()
}

fn max_age(value: &str) -> Option<u64> {
    let mut parts = value.split(';').map(str::trim);
    let age = parts.find_map(|part| part.strip_prefix("max-age="))?;
    age.parse().ok()
}

/// Writes the tables of all servers, which share one gateway.
pub(super) fn write(servers: &[Server], made: &mut Imported) {
    let mut listen: Vec<String> = Vec::new();
    for address in servers.iter().flat_map(|server| &server.listen) {
        if !listen.contains(address) {
            listen.push(address.clone());
        }
    }
    // A listener on [::] has the clients of IPv4 too.
    let both = listen.clone();
    listen.retain(|address| {
        !address
            .strip_prefix("0.0.0.0:")
            .is_some_and(|port| both.contains(&format!("[::]:{port}")))
    });
    made.line("[server]");
    made.line(&format!("listen = {}", list(&listen)));
    let hosts: Option<Vec<&Vec<String>>> =
        servers.iter().map(|server| server.hosts.as_ref()).collect();
    if let Some(hosts) = hosts {
        let hosts: Vec<String> = hosts.into_iter().flatten().cloned().collect();
        made.line(&format!("hosts = {}", list(&hosts)));
    }
    let trusted = merged(servers, |server| &server.trusted);
    if !trusted.is_empty() {
        made.line(&format!("trusted_proxies = {}", list(&trusted)));
    }
    if servers.iter().any(|server| server.proxy_protocol) {
        made.line("proxy_protocol = true");
    }
    write_settings(servers, made);
}

/// Certificates, time-outs, limits and the networks of users.
fn write_settings(servers: &[Server], made: &mut Imported) {
    let first = |lines: fn(&Server) -> &Vec<String>| {
        servers.iter().map(lines).find(|lines| !lines.is_empty())
    };
    for (table, lines) in [
        ("[tls]", first(|server| &server.tls)),
        ("[timeouts]", first(|server| &server.timeouts)),
    ] {
        if let Some(lines) = lines {
            made.line(&format!("\n{table}"));
            for line in lines {
                made.line(line);
            }
        }
    }
    let mut certificates: Vec<_> = servers
        .iter()
        .filter_map(|server| server.certificate.as_ref())
        .collect();
    certificates.dedup();
    for (cert, key) in certificates {
        made.line(&format!(
            "\n[[tls.certificate]]\ncert = {}\nkey = {}",
            quoted(cert),
            quoted(key)
        ));
    }
    if let Some(body) = servers.iter().filter_map(|server| server.body).max() {
        made.line(&format!(
            "\n[limits]\nbody = {}",
            quoted(&values::bytes(body))
        ));
    }
    if let Some(hsts) = servers.iter().find_map(|server| server.hsts.as_ref()) {
        made.line(&format!("\n[headers]\nhsts = {}", quoted(hsts)));
    }
    made.line("\n[auth]");
    let networks = merged(servers, |server| &server.networks);
    if !networks.is_empty() {
        made.line(&format!(
            "permission_networks = {{ \"*\" = {} }}",
            list(&networks)
        ));
    }
}

fn merged(servers: &[Server], texts: fn(&Server) -> &Vec<String>) -> Vec<String> {
    let mut merged: Vec<String> = Vec::new();
    for text in servers.iter().flat_map(texts) {
        if !merged.contains(text) {
            merged.push(text.clone());
        }
    }
    merged
}
