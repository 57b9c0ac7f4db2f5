//! The position of a request in a trace, as the header fields `traceparent` and `tracestate` have
//! it (W3C Trace Context).

use crate::upstream::{TRACEPARENT, TRACESTATE};
use hyper::HeaderMap;
use hyper::header::HeaderValue;

/// Members of a `tracestate` (W3C Trace Context §3.3.1.1).
const MAX_MEMBERS: usize = 32;
/// Characters of a `tracestate` that is passed on. W3C Trace Context §3.3.1.5 asks for 512; no more
/// are, our choice.
const MAX_STATE: usize = 512;

/// The flag of a trace that is recorded (§3.2.2.5).
const SAMPLED: u8 = 1;

/// A span of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace, never zero.
    pub trace: [u8; 16],
    /// The span, never zero.
    pub span: [u8; 8],
    /// True if its sender records it.
    pub sampled: bool,
}

impl SpanContext {
    /// Reads the `traceparent` of a request; `None`: there is none, or it is malformed, and the
    /// trace begins here.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get_all(TRACEPARENT).iter();
        match (fields.next(), fields.next()) {
            (Some(only), None) => Self::parse(only.as_bytes()),
            _ => None,
        }
    }

    /// §3.2: `00-TRACE-PARENT-FLAGS`, all of them lower-case hexadecimal; a later version may have
    /// more after another hyphen.
    fn parse(text: &[u8]) -> Option<Self> {
        let (fields, rest) = text.split_at_checked(55)?;
        let [version] = hex(&fields[..2])?;
        let is_whole = match version {
            0 => rest.is_empty(),
            255 => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let hyphens = [2, 35, 52].iter().all(|at| fields[*at] == b'-');
        let [flags] = hex(&fields[53..])?;
        let parsed = Self {
            trace: hex(&fields[3..35])?,
            span: hex(&fields[36..52])?,
            sampled: flags & SAMPLED != 0,
        };
        let is_named = parsed.trace != [0; 16] && parsed.span != [0; 8];
        (is_whole && hyphens && is_named).then_some(parsed)
    }

    /// The `traceparent` of a request that this span makes.
    pub fn header(&self) -> Option<HeaderValue> {
        let (trace, span) = (crypto::hex(&self.trace), crypto::hex(&self.span));
        let flags = u8::from(self.sampled);
        HeaderValue::try_from(format!("00-{trace}-{span}-{flags:02x}")).ok()
    }
}

/// The `tracestate` of a request, its fields joined; `None`: there is none, or it is malformed or
/// too long (§3.3.1).
pub(super) fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut members = Vec::new();
    for field in headers.get_all(TRACESTATE) {
        let listed = field.to_str().ok()?.split(',');
        members.extend(listed.map(|member| member.trim_matches([' ', '\t'])));
    }
    members.retain(|member| !member.is_empty());
    let mut keys = Vec::new();
    for member in &members {
        let (key, value) = member.split_once('=')?;
        if !is_key(key) || !is_value(value) || keys.contains(&key) {
            return None;
        }
        keys.push(key);
    }
    let joined = members.join(",");
    let fits = (1..=MAX_MEMBERS).contains(&members.len()) && joined.len() <= MAX_STATE;
    fits.then(|| HeaderValue::try_from(joined).ok())?
}

/// §3.3.1.3.1: at most 256 lower-case letters, digits and some signs, the first a letter or a
/// digit; or a tenant of at most 241 and a system of at most 14 of these.
fn is_key(key: &str) -> bool {
    let plain = |part: &str, most: usize| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b);
        let first = part.bytes().next();
        first.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && part.len() <= most
            && part.bytes().all(fits)
    };
    match key.split_once('@') {
        None => plain(key, 256),
        Some((tenant, system)) => plain(tenant, 241) && plain(system, 14),
    }
}

/// §3.3.1.3.2: at most 256 printable characters, of which the last is no space.
fn is_value(value: &str) -> bool {
    let fits = |b: u8| (0x20..=0x7e).contains(&b) && b != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(fits) && !value.ends_with(' ')
}

/// Lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parsed(text: &str) -> Option<SpanContext> {
        SpanContext::parse(text.as_bytes())
    }

    fn states(fields: &[&str]) -> Option<String> {
        let fields = fields.iter();
        let headers: HeaderMap = fields
            .map(|text| (TRACESTATE, HeaderValue::from_str(text).unwrap()))
            .collect();
        state(&headers).map(|state| state.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_traceparent_comes_back_as_it_was() {
        for flags in ["00", "01"] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            let context = parsed(&text).unwrap();
            assert_eq!(context.sampled, flags == "01");
            assert_eq!(context.header().unwrap(), text);
        }
        assert!(parsed(&format!("00-{TRACE}-{SPAN}-03")).unwrap().sampled);
        assert!(!parsed(&format!("00-{TRACE}-{SPAN}-02")).unwrap().sampled);
        assert!(parsed(&format!("01-{TRACE}-{SPAN}-01-more")).is_some());
    }

    #[test]
    fn a_malformed_traceparent_is_none() {
        let zero = "0".repeat(32);
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{zero}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-0x"),
        ] {
            assert_eq!(parsed(&text), None, "{text}");
        }
        let twice = HeaderValue::try_from(format!("00-{TRACE}-{SPAN}-01")).unwrap();
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, twice.clone());
        assert!(SpanContext::read(&headers).is_some());
        headers.append(TRACEPARENT, twice);
        assert_eq!(SpanContext::read(&headers), None);
    }

    #[test]
    fn a_tracestate_is_passed_on_whole_or_not_at_all() {
        assert_eq!(states(&[]), None);
        assert_eq!(
            states(&["a=1, b@c=x y", "", "d=2,"]).unwrap(),
            "a=1,b@c=x y,d=2"
        );
        for wrong in [
            "a", "a=", "A=1", "a=1,a=2", "a=b=c", "a=\u{e9}", "@a=1", "a@=1",
        ] {
            assert_eq!(states(&[wrong]), None, "{wrong}");
        }
        let members = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("k{n}=1")).collect();
            members.join(",")
        };
        assert!(states(&[&members(32)]).is_some());
        assert_eq!(states(&[&members(33)]), None);
        let long = format!("a={0},b={0},c=x", "x".repeat(253));
        assert_eq!(long.len(), 515);
        assert_eq!(states(&[&long]), None);
        assert!(states(&[&long[..511]]).is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_fail(text: Vec<u8>, flags: u8) {
            let _ = SpanContext::parse(&text);
            let text = format!("{flags:02x}-{TRACE}-{SPAN}-{flags:02x}");
            prop_assert_eq!(SpanContext::parse(text.as_bytes()).is_some(), flags != 255);
        }
    }
}
