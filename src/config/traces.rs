//! `[traces]`: the collector of OpenTelemetry that traces are sent to, and how many there are.

use super::error::SpannedError;
use super::setting::{Source, flag, number};
use super::{Certificate, audit_sink, is_token, raw, upstream};
use crypto::Secret;
use std::path::PathBuf;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

const URL: &str = "a URL such as \"https://collector.example.org:4318/v1/traces\"";
const RATIO: &str = "a number from 0 to 1";

/// `[traces]`, with a url.
#[derive(Debug, Clone)]
pub struct Traces {
    /// True if the connection has TLS.
    pub secure: bool,
    /// The name or address of the collector.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The path of the requests, with its query.
    pub path: String,
    /// The bearer token.
    pub token: Option<Secret>,
    /// The authorities that sign its certificate; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that the gateway shows there.
    pub certificate: Option<Certificate>,
    /// The part of the requests that is recorded.
    pub ratio: Ratio,
    /// The most requests recorded in a second.
    pub max_per_second: u32,
    /// True if the names of users are recorded.
    pub users: bool,
    /// How long spans are gathered for a batch.
    pub interval: Duration,
    /// The time for sending a batch, with its response.
    pub timeout: Duration,
}

/// A part of one.
#[derive(Debug, Clone, Copy)]
pub struct Ratio(f64);

impl Ratio {
    /// Returns whether an evenly distributed random number is within this part of all numbers.
    pub fn hits(self, random: u64) -> bool {
        // All 53 bits of a float: below one.
        let random = (random >> 11) as f64 / (1_u64 << 53) as f64;
        random < self.0
    }
}

/// `None`: there is no url, and nothing is traced.
pub(super) fn traces(
    raw: raw::Traces,
    source: &Source<'_>,
) -> Result<Option<Box<Traces>>, SpannedError> {
    let ratio = ratio(raw.ratio)?;
    let max_per_second = number(raw.max_per_second, 100, 1..=100_000)?;
    let users = flag(raw.users, false)?;
    let plain = flag(raw.plain, false)?;
    let interval = source.duration(raw.interval, 5 * SECOND, SECOND / 100..=MINUTE)?;
    let timeout = source.duration(raw.timeout, 10 * SECOND, SECOND..=MINUTE)?;
    let certificate = upstream::certificate(&raw.cert, &raw.key, source)?;
    let ca_file = raw.ca_file.as_ref();
    let ca_file = ca_file.map(|entry| source.path(entry)).transpose()?;
    let token = source.secret(None, raw.token_file)?;
    if let Some((token, span)) = &token
        && !is_token(token.reveal())
    {
        return Err(SpannedError::rule(span.clone(), upstream::NO_TOKEN));
    }
    let Some(url) = &raw.url else {
        return Ok(None);
    };
    let address = source.parsed(url, URL, audit_sink::http_address)?;
    if !address.is_private() && !plain {
        let sentence = "this collector is another machine, and its url has no TLS: spans and the token would pass readable; use TLS, or set plain = true";
        return Err(SpannedError::rule(url.span(), sentence));
    }
    Ok(Some(Box::new(Traces {
        secure: address.secure,
        host: address.host,
        port: address.port,
        path: address.path,
        token: token.map(|(token, _)| token),
        ca_file,
        certificate,
        ratio,
        max_per_second,
        users,
        interval,
        timeout,
    })))
}

fn ratio(entry: raw::Entry) -> Result<Ratio, SpannedError> {
    let Some(entry) = entry else {
        return Ok(Ratio(0.01));
    };
    let value = entry.get_ref();
    let whole = value.as_integer().map(|whole| whole as f64);
    let value = value.as_float().or(whole);
    let value = value.filter(|value| (0.0..=1.0).contains(value));
    value
        .map(Ratio)
        .ok_or_else(|| SpannedError::value(entry.span(), RATIO))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::config::{Config, Traces};
    use std::path::Path;

    fn parse(lines: &str) -> Result<Option<Box<Traces>>, String> {
        let text = format!("[traces]\n{lines}\n");
        let config = Config::parse(&text, "gateway.toml", Path::new(""));
        config
            .map(|config| config.traces)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_url_nothing_is_traced() {
        assert!(parse("").unwrap().is_none());
    }

    #[test]
    fn a_collector_on_another_machine_needs_tls_unless_it_is_asked_for() {
        assert!(parse("url = \"https://c.example.org:4318/v1/traces\"").is_ok());
        assert!(parse("url = \"http://127.0.0.1:4318/v1/traces\"").is_ok());
        let open = parse("url = \"http://192.0.2.7:4318/v1/traces\"").unwrap_err();
        assert!(open.contains("no TLS"), "{open}");
        assert!(parse("url = \"http://192.0.2.7:4318\"\nplain = true").is_ok());
        for url in ["", "c.example.org", "grpc://c.example.org", "https://a@b/"] {
            assert!(parse(&format!("url = \"{url}\"")).is_err(), "{url}");
        }
    }

    #[test]
    fn a_ratio_is_a_part_of_one() {
        for fits in ["0", "0.0", "0.5", "1", "1.0"] {
            assert!(parse(&format!("ratio = {fits}")).is_ok(), "{fits}");
        }
        for wrong in ["-0.1", "1.1", "2", "nan", "inf", "\"1\"", "true"] {
            assert!(parse(&format!("ratio = {wrong}")).is_err(), "{wrong}");
        }
    }
}
