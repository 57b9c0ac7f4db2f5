//! The cookies of one http request node's message: what it sends, and what servers set while it is
//! redirected (RFC 6265).
//!
//! Ours, as the crate `cookie_store` sends cookies in no order (§5.4 sorts them by path) and reads
//! the clock itself.

use super::client_headers::Headers;
use super::cookie;
use chrono::DateTime;
use url::Url;
use value::{Failure, Value, coerce};

/// Cookies, oldest first.
#[derive(Default, Clone)]
pub(super) struct Jar {
    cookies: Vec<Cookie>,
    /// Milliseconds since 1970: cookies that expire before it are removed.
    now: f64,
}

#[derive(Clone)]
struct Cookie {
    name: String,
    value: String,
    /// The host that set it, or the domain that it named.
    domain: String,
    /// True if hosts below the domain get it too.
    below: bool,
    path: String,
    secure: bool,
}

impl Jar {
    /// An empty jar.
    pub(super) fn at(now: f64) -> Self {
        Self {
            cookies: Vec::new(),
            now,
        }
    }

    /// Takes the cookies of a message: those of the header `Cookie`, which it replaces, and those
    /// of `msg.cookies`.
    pub(super) fn fill(
        &mut self,
        url: &Url,
        headers: &mut Headers,
        cookies: &Value,
    ) -> Result<(), Failure> {
        let header = headers.text("cookie").unwrap_or_default();
        headers.remove("cookie");
        for pair in header.split(';') {
            if let Some((name, value)) = pair.split_once('=') {
                self.set(url, &pair_of(name.trim(), value.trim())?);
            }
        }
        for (name, cookie) in cookies.as_object().into_iter().flatten() {
            let part = |key: &str| cookie.as_object().and_then(|o| o.get(key)).cloned();
            let value = match cookie {
                Value::Null => continue,
                Value::Object(_) => part("value").unwrap_or_default(),
                plain => plain.clone(),
            };
            if matches!(value, Value::Null) {
                continue;
            }
            let text = coerce::to_text(&value);
            let raw = matches!(part("encode"), Some(Value::Bool(false)));
            let text = if raw {
                text.to_string()
            } else {
                cookie::encode(&text)
            };
            self.set(url, &pair_of(name, &text)?);
        }
        Ok(())
    }

    /// Takes a `Set-Cookie` field of a server's answer (RFC 6265 §5.3).
    pub(super) fn set(&mut self, url: &Url, field: &str) {
        let mut parts = field.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let host = url.host_str().unwrap_or_default();
        let mut cookie = Cookie {
            name: name.trim().into(),
            value: value.trim().into(),
            domain: host.into(),
            below: false,
            path: directory(url.path()).into(),
            secure: false,
        };
        let mut over = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" if !value.is_empty() => {
                    cookie.domain = value.trim_start_matches('.').to_lowercase();
                    cookie.below = true;
                }
                "path" if value.starts_with('/') => cookie.path = value.into(),
                "secure" => cookie.secure = true,
                "max-age" => over |= value.parse().is_ok_and(|age: i64| age <= 0),
                "expires" => over |= is_past(value, self.now),
                _ => {}
            }
        }
        let foreign = cookie.below && !is_within(host, &cookie.domain);
        if cookie.name.is_empty() || foreign {
            return;
        }
        let same = self.cookies.iter().position(|kept| {
            kept.name == cookie.name && kept.domain == cookie.domain && kept.path == cookie.path
        });
        match same {
            Some(at) if over => drop(self.cookies.remove(at)),
            // It keeps its place (RFC 6265 §5.3, step 11.3).
            Some(at) => self.cookies[at] = cookie,
            None if over => {}
            None => self.cookies.push(cookie),
        }
    }

    /// The field `Cookie` for a URL; the longest path first (RFC 6265 §5.4).
    pub(super) fn field(&self, url: &Url) -> Option<String> {
        let host = url.host_str().unwrap_or_default();
        let mut sent: Vec<&Cookie> = self
            .cookies
            .iter()
            .filter(|c| host == c.domain || (c.below && is_within(host, &c.domain)))
            .filter(|c| path_matches(url.path(), &c.path))
            .filter(|c| !c.secure || url.scheme() == "https")
            .collect();
        sent.sort_by_key(|c| std::cmp::Reverse(c.path.len()));
        let pairs: Vec<String> = sent
            .iter()
            .map(|c| format!("{}={}", c.name, c.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// A cookie as it is sent, if its name and value can be (RFC 6265 §4.1.1).
fn pair_of(name: &str, value: &str) -> Result<String, Failure> {
    let wrong = |what: &str| Failure {
        name: "TypeError".into(),
        ..Failure::error(format!("argument {what} is invalid"))
    };
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(wrong("name"));
    }
    let bare = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    let octet = |b: u8| b.is_ascii_graphic() && !b"\",;\\".contains(&b);
    if !bare.unwrap_or(value).bytes().all(octet) {
        return Err(wrong("val"));
    }
    Ok(format!("{name}={value}"))
}

/// The default path of a cookie (RFC 6265 §5.1.4).
fn directory(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(at) => &path[..at],
    }
}

fn is_within(host: &str, domain: &str) -> bool {
    host == domain
        || host
            .strip_suffix(domain)
            .is_some_and(|rest| rest.ends_with('.'))
}

fn path_matches(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

fn is_past(date: &str, now: f64) -> bool {
    let parsed = DateTime::parse_from_rfc2822(&date.replace('-', " "));
    parsed.is_ok_and(|date| (date.timestamp_millis() as f64) < now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_sent_to_matching_domains_paths_and_schemes() {
        let mut jar = Jar::at(1.8e12);
        let url = Url::parse("http://a.example.org/x/y").unwrap();
        for field in [
            "here=1",
            "root=2; Path=/",
            "wide=3; Domain=example.org; Path=/",
            "foreign=4; Domain=other.org",
            "secret=5; Secure; Path=/",
            "old=6; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
            "gone=7; Path=/",
            "gone=; Path=/; Max-Age=0",
        ] {
            jar.set(&url, field);
        }
        let field = |url: &str| jar.field(&Url::parse(url).unwrap());
        assert_eq!(
            field("http://a.example.org/x/z").unwrap(),
            "here=1; root=2; wide=3"
        );
        assert_eq!(field("http://b.example.org/").unwrap(), "wide=3");
        assert_eq!(
            field("https://a.example.org/").unwrap(),
            "root=2; wide=3; secret=5"
        );
        assert_eq!(field("http://example.com/"), None);
    }
}
