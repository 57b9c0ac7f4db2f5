//! `[[audit.sink]]`: where audit records are sent beside the file.

use super::Certificate;
use super::error::SpannedError;
use super::provider_url::is_loopback;
use super::setting::{Source, flag};
use super::{raw, upstream};
use crypto::Secret;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

const TYPE: &str = "\"syslog\", \"webhook\" or \"otlp\"";
/// The schemes of HTTP, each with its usual port.
const HTTP: [(&str, u16); 2] = [("https://", 443), ("http://", 80)];

const NAME: &str = "a name of 1 to 32 lower-case letters, digits and hyphens";
const SYSLOG_URL: &str = "a URL such as \"tls://logs.example.org:6514\" or \"tcp://127.0.0.1:601\"";
const HTTP_URL: &str = "a URL such as \"https://logs.example.org/audit\"";

/// One `[[audit.sink]]`.
#[derive(Debug, Clone)]
pub struct AuditSink {
    /// Its name, different from all others.
    pub name: String,
    /// Its protocol.
    pub kind: SinkKind,
    /// True if the connection has TLS.
    pub secure: bool,
    /// The name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of an HTTP request, with its query.
    pub path: String,
    /// The authorities that sign its certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that the gateway shows there.
    pub certificate: Option<Certificate>,
    /// The oldest record that may wait for a sink that takes none.
    pub max_lag: Duration,
    /// The time for sending a batch, with its response.
    pub timeout: Duration,
}

/// The protocol of a sink.
#[derive(Debug, Clone)]
pub enum SinkKind {
    /// RFC 5424 over TLS or TCP.
    Syslog,
    /// JSON over HTTP.
    Webhook {
        /// Signs the requests.
        secret: Secret,
    },
    /// OTLP/HTTP logs.
    Otlp {
        /// The bearer token.
        token: Option<Secret>,
    },
}

/// All of them; each has a name of its own.
pub(super) fn sinks(
    tables: Vec<Spanned<raw::AuditSink>>,
    source: &Source<'_>,
) -> Result<Vec<AuditSink>, SpannedError> {
    let mut sinks: Vec<AuditSink> = Vec::new();
    for table in tables {
        let span = table.span();
        let sink = sink(table, source)?;
        if sinks.iter().any(|other| other.name == sink.name) {
            let sentence = format!("another sink has the name {}: give each a name", sink.name);
            return Err(SpannedError::rule(span, sentence));
        }
        sinks.push(sink);
    }
    Ok(sinks)
}

fn sink(table: Spanned<raw::AuditSink>, source: &Source<'_>) -> Result<AuditSink, SpannedError> {
    let span = table.span();
    let mut raw = table.into_inner();
    let (Some(kind), Some(url)) = (&raw.kind, &raw.url) else {
        let sentence = format!("a sink needs a type, {TYPE}, and a url");
        return Err(SpannedError::rule(span, sentence));
    };
    let word = source.text(kind, TYPE)?;
    let kind_span = kind.span();
    let (schemes, expected) = match word.as_str() {
        "syslog" => ([("tls://", 6514), ("tcp://", 601)], SYSLOG_URL),
        "webhook" | "otlp" => (HTTP, HTTP_URL),
        _ => return Err(SpannedError::value(kind_span, TYPE)),
    };
    let url = source.parsed(url, expected, |text| address(text, schemes))?;
    if word == "syslog" && url.path != "/" {
        return Err(SpannedError::value(span, SYSLOG_URL));
    }
    let plain = flag(raw.plain.take(), false)?;
    if !url.is_private() && !plain {
        let sentence = "this sink is another machine, and its url has no TLS: records would pass readable; use TLS, or set plain = true";
        return Err(SpannedError::rule(span, sentence));
    }
    let name = match &raw.name {
        Some(entry) => source.parsed(entry, NAME, name)?,
        None => word.clone(),
    };
    Ok(AuditSink {
        name,
        ca_file: raw
            .ca_file
            .as_ref()
            .map(|entry| source.path(entry))
            .transpose()?,
        certificate: upstream::certificate(&raw.cert, &raw.key, source)?,
        max_lag: source.duration(raw.max_lag.take(), DAY, SECOND..=365 * DAY)?,
        timeout: source.duration(raw.timeout.take(), 10 * SECOND, SECOND..=10 * MINUTE)?,
        kind: kind_of(&word, raw, source, span)?,
        secure: url.secure,
        host: url.host,
        port: url.port,
        path: url.path,
    })
}

/// The kind with the secret that it needs.
fn kind_of(
    word: &str,
    raw: raw::AuditSink,
    source: &Source<'_>,
    span: std::ops::Range<usize>,
) -> Result<SinkKind, SpannedError> {
    let secret = source.secret(raw.secret, raw.secret_file)?;
    let token = source.secret(None, raw.token_file)?;
    match (word, secret, token) {
        ("syslog", None, None) => Ok(SinkKind::Syslog),
        ("syslog", Some((_, span)), _) | ("syslog", None, Some((_, span))) => {
            let sentence = "a syslog server is shown neither a secret nor a token; cert and key are the gateway's certificate there";
            Err(SpannedError::rule(span, sentence))
        }
        ("webhook", Some((secret, _)), None) if secret.reveal().len() >= 16 => {
            Ok(SinkKind::Webhook { secret })
        }
        ("webhook", _, None) => {
            let sentence = "a webhook needs a secret or a secret_file, of at least 16 characters, that its requests are signed with";
            Err(SpannedError::rule(span, sentence))
        }
        ("otlp", None, token) => match token {
            Some((token, span)) if !super::is_token(token.reveal()) => {
                Err(SpannedError::rule(span, upstream::NO_TOKEN))
            }
            token => Ok(SinkKind::Otlp {
                token: token.map(|(token, _)| token),
            }),
        },
        (_, _, Some((_, span))) => {
            let sentence = "token_file is for an otlp sink; the requests of a webhook are signed with its secret";
            Err(SpannedError::rule(span, sentence))
        }
        (_, Some((_, span)), _) => {
            let sentence = "secret is for a webhook; an otlp sink is shown the token in token_file";
            Err(SpannedError::rule(span, sentence))
        }
        (_, None, None) => Err(SpannedError::value(span, TYPE)),
    }
}

fn name(text: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = (1..=32).contains(&text.len()) && text.bytes().all(plain);
    fits.then(|| text.to_owned())
}

/// The parts of a URL.
pub(super) struct Address {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) path: String,
}

impl Address {
    /// Returns whether others cannot read what is sent there: it has TLS, or is on this machine.
    pub(super) fn is_private(&self) -> bool {
        self.secure || is_loopback(&self.host)
    }
}

/// Reads the URL of a server of HTTP.
pub(super) fn http_address(text: &str) -> Option<Address> {
    address(text, HTTP)
}

/// Reads a URL of the first scheme, which has TLS, or of the second, each with its usual port.
fn address(text: &str, schemes: [(&str, u16); 2]) -> Option<Address> {
    let (at, rest, usual) = schemes
        .iter()
        .enumerate()
        .find_map(|(at, (scheme, port))| Some((at, text.strip_prefix(scheme)?, *port)))?;
    let split = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(split);
    let authority: hyper::http::uri::Authority = authority.parse().ok()?;
    let path = if path.is_empty() { "/" } else { path };
    let printable = |b: u8| b.is_ascii_graphic() && b != b'#';
    if authority.as_str().contains('@') || !path.starts_with('/') || !path.bytes().all(printable) {
        return None;
    }
    let host = authority
        .host()
        .trim_matches(['[', ']'])
        .to_ascii_lowercase();
    Some(Address {
        secure: at == 0,
        port: authority.port_u16().unwrap_or(usual),
        host: Some(host).filter(|host| !host.is_empty())?,
        path: path.to_owned(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::config::{Config, DEFAULT};
    use std::path::Path;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = DEFAULT.replace(
            "\n[audit]\n",
            &format!("\n[[audit.sink]]\n{lines}\n[audit]\n"),
        );
        Config::parse(&text, "gateway.toml", Path::new("")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sink_on_another_machine_needs_tls_unless_it_is_asked_for() {
        let syslog = |lines: &str| parse(&format!("type = \"syslog\"\n{lines}"));
        assert!(syslog("url = \"tls://logs.example.org\"").is_ok());
        assert!(syslog("url = \"tcp://127.0.0.1:514\"").is_ok());
        assert!(syslog("url = \"tcp://[::1]:514\"").is_ok());
        let open = syslog("url = \"tcp://192.0.2.7:514\"").unwrap_err();
        assert!(open.contains("no TLS"), "{open}");
        assert!(syslog("url = \"tcp://192.0.2.7:514\"\nplain = true").is_ok());
        for url in [
            "udp://127.0.0.1",
            "tls://",
            "tls://a@b",
            "tls://a/path",
            "logs.example.org",
        ] {
            assert!(syslog(&format!("url = \"{url}\"")).is_err(), "{url}");
        }
        let config = syslog("url = \"tls://Logs.example.org\"").unwrap();
        let sink = &config.audit.sinks[0];
        assert_eq!(
            (sink.name.as_str(), sink.host.as_str(), sink.port),
            ("syslog", "logs.example.org", 6514)
        );
    }

    #[test]
    fn each_type_has_its_own_secret() {
        let with = |kind: &str, lines: &str| {
            parse(&format!(
                "type = \"{kind}\"\nurl = \"https://a.example.org/x?y=1\"\n{lines}"
            ))
        };
        let secret = "secret = \"0123456789abcdef\"";
        assert!(with("webhook", secret).is_ok());
        assert!(with("webhook", "").is_err());
        assert!(with("webhook", "secret = \"short\"").is_err());
        assert!(with("otlp", "").is_ok());
        assert!(with("otlp", secret).is_err());
        assert!(with("kafka", "").is_err());
        assert_eq!(with("otlp", "").unwrap().audit.sinks[0].path, "/x?y=1");
    }
}
