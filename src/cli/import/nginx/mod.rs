//! The configuration of an nginx in front of a Node-RED: the gateway.toml that stands in its place.
//!
//! [`syntax`] reads it, [`server`] and [`upstream`] carry over what they know, [`known`] has what needs nothing and what needs the
//! operator, [`values`] converts sizes, times and addresses.

mod known;
mod server;
mod syntax;
mod upstream;
mod values;

use super::Imported;
use std::path::Path;
use syntax::Directive;

/// Directives in force at one place: those of the innermost block first.
#[derive(Clone, Copy)]
struct Scope<'f> {
    blocks: &'f [&'f [Directive]],
}

impl<'f> Scope<'f> {
    /// The directives of a name in the innermost block that has any, as nginx inherits them.
    fn all(&self, name: &str) -> impl Iterator<Item = &'f Directive> + use<'f> {
        let has = |block: &&&[Directive]| block.iter().any(|found| found.name == name);
        let block = self.blocks.iter().find(has).copied().unwrap_or_default();
        let name = name.to_owned();
        block.iter().filter(move |found| found.name == name)
    }

    /// The first word of a directive.
    fn word(&self, name: &str) -> Option<&'f str> {
        self.all(name).next().map(Directive::word)
    }
}

/// Makes the gateway.toml. `directory`: the one of the file, which relative names of files are below. An error names the line.
pub(super) fn import(text: &str, directory: &Path) -> Result<Imported, String> {
    let file =
        syntax::parse(text).map_err(|error| format!("line {}: {}", error.line, error.reason))?;
    let http = file.iter().find(|found| found.name == "http");
    // A file of sites-available is a part of the block `http`.
    let top: &[Directive] = http.map_or(&file, Directive::inside);
    let mut made = Imported::default();
    if http.is_some() {
        report(&file, &mut made);
    }
    report(top, &mut made);
    let servers = top.iter().filter(|found| found.name == "server");
    let (proxies, others): (Vec<_>, Vec<_>) = servers.partition(|server| is_proxy(server));
    if proxies.is_empty() {
        return Err("no server in it has a proxy_pass: it is no gateway of a Node-RED".to_owned());
    }
    for server in others {
        let redirects = server.inside().iter().any(|found| found.name == "return");
        let line = server.line;
        made.notice(if redirects {
            format!("line {line}: a server that redirects is not carried over: flowgate speaks TLS on its listeners only; leave nginx this port, or close it")
        } else {
            format!("line {line}: a server without proxy_pass is not carried over: flowgate serves no files")
        });
    }
    let places: Vec<_> = proxies
        .iter()
        .map(|server| server::Server::read(server, top, directory, &mut made))
        .collect();
    server::write(&places, &mut made);
    upstream::write(&proxies, top, directory, &mut made);
    Ok(made)
}

fn is_proxy(server: &Directive) -> bool {
    server
        .inside()
        .iter()
        .any(|found| found.name == "proxy_pass" || (found.name == "location" && is_proxy(found)))
}

/// Reports the directives of a block that are not carried over.
fn report(block: &[Directive], made: &mut Imported) {
    for found in block {
        let (name, line) = (found.name.as_str(), found.line);
        let forwarded = name == "proxy_set_header"
            && known::FORWARDED.contains(&&*found.word().to_ascii_lowercase());
        let is_off = name == "auth_basic" && found.word() == "off";
        if name == "include" && !found.word().ends_with("mime.types") {
            made.notice(format!("line {line}: include {} is not followed: import that file too, or write what is in it here", found.word()));
        } else if !(forwarded
            || is_off
            || known::READ.contains(&name)
            || known::NEEDLESS.contains(&name))
        {
            let word = if name == "proxy_set_header" {
                found.word()
            } else {
                ""
            };
            let shown = format!("{name} {word}");
            made.notice(format!(
                "line {line}: {} is not carried over: {}",
                shown.trim_end(),
                known::advice(name)
            ));
        }
    }
}
