//! `location` and `proxy_pass` of nginx: the runtimes behind the gateway, their paths and time-outs.

use super::server::{file, timeout};
use super::syntax::Directive;
use super::values::quoted;
use super::{Imported, Scope, report};
use std::path::Path;

/// Where a path leads.
struct Upstream {
    hosts: Vec<String>,
    /// Empty: the root.
    path: String,
    strip: bool,
    url: String,
    lines: Vec<String>,
}

impl Upstream {
    /// Whether requests for the other one come to this one as well, in the same way.
    fn covers(&self, other: &Self) -> bool {
        let below = other.path.strip_prefix(&self.path);
        let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_plain = !self.strip && !other.strip;
        is_below && is_plain && self.url == other.url && self.hosts == other.hosts
    }

    /// Writes its table; `number`: its place among several.
    fn write(&self, number: Option<usize>, made: &mut Imported) {
        match number {
            Some(number) => {
                made.line("\n[[upstream]]");
                made.line(&format!("name = {}", quoted(&name(self, number))));
            }
            None => made.line("\n[upstream]"),
        }
        if !self.hosts.is_empty() {
            made.line(&format!("host = {}", super::values::list(&self.hosts)));
        }
        if !self.path.is_empty() {
            made.line(&format!("path = {}", quoted(&self.path)));
            made.line(&format!("strip = {}", self.strip));
        }
        made.line(&format!("url = {}", quoted(&self.url)));
        for line in &self.lines {
            made.line(line);
        }
    }
}

/// What a server is read with.
struct Reader<'f> {
    http: &'f [Directive],
    server: &'f Directive,
    directory: &'f Path,
    hosts: Vec<String>,
}

/// Writes the upstreams of all servers.
pub(super) fn write(
    servers: &[&Directive],
    http: &[Directive],
    directory: &Path,
    made: &mut Imported,
) {
    let mut upstreams: Vec<Upstream> = Vec::new();
    for server in servers {
        let names = server
            .inside()
            .iter()
            .filter(|found| found.name == "server_name");
        let names = names.flat_map(|found| &found.words);
        let plain = |name: &&String| {
            !name.is_empty() && !name.contains(['*', '~', '_']) && !name.starts_with('.')
        };
        let hosts = names.filter(plain).cloned().collect();
        let reader = Reader {
            http,
            server,
            directory,
            hosts: if servers.len() > 1 { hosts } else { Vec::new() },
        };
        for location in server
            .inside()
            .iter()
            .filter(|found| found.name == "location")
        {
            reader.location(location, &mut upstreams, made);
        }
    }
    if upstreams.is_empty() {
        made.notice(
            "no location with a proxy_pass could be carried over: write [upstream] by hand"
                .to_owned(),
        );
    }
    let is_only = upstreams.len() == 1;
    for (number, upstream) in upstreams.iter().enumerate() {
        upstream.write((!is_only).then_some(number), made);
    }
    made.notice("endpoints of flows need the permission http.read or http.write in flowgate: name the open ones in [[route]] with public = true".to_owned());
}

fn name(upstream: &Upstream, number: usize) -> String {
    let path = upstream.path.trim_matches('/').replace('/', "-");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if path.is_empty() || !path.chars().all(plain) {
        format!("upstream-{}", number + 1)
    } else {
        format!("{path}-{}", number + 1)
    }
}

impl Reader<'_> {
    fn location(&self, location: &Directive, upstreams: &mut Vec<Upstream>, made: &mut Imported) {
        report(location.inside(), made);
        let named = |name: &str| {
            let mut inside = location.inside().iter();
            inside.find(|found| found.name == name)
        };
        if let Some(inner) = named("location") {
            let line = inner.line;
            made.notice(format!(
                "line {line}: a location in a location is not carried over"
            ));
        }
        let words = location.words.join(" ");
        let mut refuse = |line: usize, what: &str, why: &str| {
            made.notice(format!("line {line}: {what} is not carried over: {why}"));
        };
        let what = format!("location {words}");
        let Some(pass) = named("proxy_pass") else {
            return refuse(location.line, &what, "it has no proxy_pass");
        };
        let Some(path) = path(location) else {
            let why = "an [[upstream]] has a path and all below it";
            return refuse(location.line, &what, why);
        };
        let what = format!("proxy_pass {}", pass.word());
        let Some((url, rest)) = self.url(pass) else {
            return refuse(pass.line, &what, "write [upstream] url by hand");
        };
        let Some(strip) = is_stripped(&path, rest.as_deref()) else {
            let why = "flowgate removes the path of an [[upstream]] with strip, and puts none in its place";
            return refuse(pass.line, &what, why);
        };
        let mut upstream = Upstream {
            hosts: self.hosts.clone(),
            path,
            strip,
            url,
            lines: Vec::new(),
        };
        // Such as those of /comms and /red beside /, for WebSockets and files.
        if upstreams.iter().any(|other| other.covers(&upstream)) {
            return;
        }
        upstreams.retain(|other| !upstream.covers(other));
        let blocks = [location.inside(), self.server.inside(), self.http];
        upstream.lines = self.lines(Scope { blocks: &blocks }, &upstream.url, made);
        self.report_group(pass, made);
        upstreams.push(upstream);
    }

    /// The URL of a `proxy_pass` without its path, and its path.
    fn url(&self, pass: &Directive) -> Option<(String, Option<String>)> {
        let url = pass.word();
        let (scheme, rest) = url.split_once("://")?;
        if url.contains('$') || !matches!(scheme, "http" | "https") {
            return None;
        }
        if let Some(socket) = rest.strip_prefix("unix:") {
            let (socket, path) = match socket.split_once(':') {
                Some((socket, path)) => (socket, Some(path.to_owned())),
                None => (socket, None),
            };
            return Some((format!("unix:{socket}"), path));
        }
        let (host, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let servers = self.group(host);
        let first = servers.first().map(|server| server.word().to_owned());
        let host = first.unwrap_or_else(|| host.to_owned());
        if let Some(socket) = host.strip_prefix("unix:") {
            return Some((format!("unix:{socket}"), path));
        }
        Some((format!("{scheme}://{host}"), path))
    }

    /// The servers of the `upstream` of this name.
    fn group(&self, name: &str) -> Vec<&Directive> {
        let mut groups = self.http.iter().filter(|found| found.name == "upstream");
        let group = groups.find(|found| found.word() == name);
        let servers = group.into_iter().flat_map(Directive::inside);
        servers.filter(|found| found.name == "server").collect()
    }

    /// Reports that a `proxy_pass` has several servers.
    fn report_group(&self, pass: &Directive, made: &mut Imported) {
        let (_, rest) = pass.word().split_once("://").unwrap_or_default();
        let name = rest.split('/').next().unwrap_or_default();
        if self.group(name).len() > 1 {
            made.notice(format!("line {}: upstream {name} has several servers: flowgate uses the first, because only one runtime has the flows", pass.line));
        }
    }

    fn lines(&self, scope: Scope<'_>, url: &str, made: &mut Imported) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(time) = timeout(scope.all("proxy_connect_timeout").next(), made) {
            lines.push(format!("connect = {time}"));
        }
        if let Some(time) = timeout(scope.all("proxy_read_timeout").next(), made) {
            lines.push(format!("first_byte = {time}\nidle = {time}"));
        }
        if !url.starts_with("https://") {
            return lines;
        }
        for (name, key) in [
            ("proxy_ssl_trusted_certificate", "ca_file"),
            ("proxy_ssl_certificate", "cert"),
            ("proxy_ssl_certificate_key", "key"),
        ] {
            if let Some(word) = scope.word(name) {
                lines.push(format!("{key} = {}", quoted(&file(word, self.directory))));
            }
        }
        if let Some(word) = scope
            .word("proxy_ssl_name")
            .filter(|word| !word.contains('$'))
        {
            lines.push(format!("server_name = {}", quoted(word)));
        }
        if scope.word("proxy_ssl_verify") != Some("on") {
            made.notice("proxy_ssl_verify is off: flowgate verifies the certificate of the upstream; name its authority in ca_file".to_owned());
        }
        lines
    }
}

/// Whether the path of a location is removed, as the path of its `proxy_pass` says; `None`: another takes its place.
fn is_stripped(path: &str, rest: Option<&str>) -> Option<bool> {
    match rest {
        None => Some(false),
        Some(rest) if rest.trim_end_matches('/') == path => Some(false),
        Some("/") => Some(true),
        Some(_) => None,
    }
}

/// The path of a location and all below it; `None`: it is another kind. Empty: the root.
fn path(location: &Directive) -> Option<String> {
    let path = match &*location.words {
        [path] | [_, path] if location.words.len() == 1 || location.word() == "^~" => path,
        _ => return None,
    };
    let path = path.trim_end_matches('/');
    (path.is_empty() || (path.starts_with('/') && !path.contains(['~', '$'])))
        .then(|| path.to_owned())
}
