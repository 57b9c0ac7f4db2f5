//! Values of nginx as values of gateway.toml.

use std::net::Ipv6Addr;

/// A size such as `10m`, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(unit)
}

/// A time such as `60`, `1m 30s` or `500ms`, in milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = number(&rest[..end])?;
        rest = &rest[end..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        sum = sum.checked_add(value.checked_mul(unit)?)?;
        rest = rest[end..].trim_start();
    }
    Some(sum)
}

fn number(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all)
}

/// A duration of gateway.toml.
pub(super) fn duration(milliseconds: u64) -> String {
    if milliseconds.is_multiple_of(1000) {
        format!("{}s", milliseconds / 1000)
    } else {
        format!("{milliseconds}ms")
    }
}

/// A size of gateway.toml.
pub(super) fn bytes(size: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if size > 0 && size.is_multiple_of(unit) {
            return format!("{}{name}", size / unit);
        }
    }
    format!("{size}B")
}

/// The address of a `listen`; `None`: it is a socket or a name.
pub(super) fn address(text: &str) -> Option<String> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!("0.0.0.0:{port}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, port.parse::<u16>().ok()?),
        _ => (text, 80),
    };
    let host = match host {
        "*" => "0.0.0.0".to_owned(),
        "localhost" => "127.0.0.1".to_owned(),
        host => host.to_owned(),
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let known = match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<std::net::Ipv4Addr>().is_ok(),
    };
    known.then(|| format!("{host}:{port}"))
}

/// A text as a value of gateway.toml.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.replace("${", "$${")).to_string()
}

/// Texts as a list of gateway.toml.
pub(super) fn list(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_nginxs_units() {
        for (text, found) in [
            ("10m", 10 << 20),
            ("1G", 1 << 30),
            ("8k", 8 << 10),
            ("0", 0),
        ] {
            assert_eq!(size(text), Some(found), "{text}");
        }
        for text in ["", "m", "1x", "-1", "99999999999g"] {
            assert_eq!(size(text), None, "{text}");
        }
        for (text, found) in [
            ("60", 60_000),
            ("1m 30s", 90_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
        ] {
            assert_eq!(milliseconds(text), Some(found), "{text}");
        }
        for text in ["", "s", "1q", "1.5s"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
        assert_eq!(
            (duration(90_000), duration(1500)),
            ("90s".to_owned(), "1500ms".to_owned())
        );
        assert_eq!(
            (bytes(10 << 20), bytes(1000)),
            ("10MiB".to_owned(), "1000B".to_owned())
        );
    }

    #[test]
    fn addresses_have_a_port() {
        for (text, found) in [
            ("443", "0.0.0.0:443"),
            ("*:8443", "0.0.0.0:8443"),
            ("[::]:443", "[::]:443"),
            ("10.0.0.1", "10.0.0.1:80"),
            ("[::1]", "[::1]:80"),
            ("localhost:1", "127.0.0.1:1"),
        ] {
            assert_eq!(address(text).as_deref(), Some(found), "{text}");
        }
        for text in ["unix:/run/x.sock", "example.org:443", "[x]:1", "1.2.3.4:x"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
