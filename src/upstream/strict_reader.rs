//! A strict reader of HTTP/1.1 requests, the judge of what is written to an upstream: it accepts
//! one spelling of each request and refuses everything that any server might read differently.
//!
//! For tests and fuzzing only; `tests/e2e` includes this file by its path, so it uses nothing of
//! the crate.

use std::str;

/// A complete request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target in origin form.
    pub target: String,
    /// The header fields in order; names in lower case.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The framing of the body.
    pub framing: Framing,
    /// The content.
    pub body: Vec<u8>,
}

/// The framing of a body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Neither field: no body.
    Absent,
    /// `Content-Length`.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// Reads the first request; `None`: it is not complete yet. With it, the number of its bytes.
///
/// # Errors
///
/// The bytes are not the beginning of a well-formed request.
pub fn read(bytes: &[u8]) -> Result<Option<(Request, usize)>, String> {
    let Some((line, mut at)) = line(bytes, 0)? else {
        return Ok(None);
    };
    let (method, target) = request_line(line)?;
    let mut fields = Vec::new();
    loop {
        let Some((line, next)) = self::line(bytes, at)? else {
            return Ok(None);
        };
        at = next;
        if line.is_empty() {
            break;
        }
        fields.push(field(line)?);
    }
    let framing = framing(&fields)?;
    let body = match framing {
        Framing::Absent => Some((Vec::new(), at)),
        Framing::Length(length) => {
            let end = at.checked_add(length).ok_or("a length beyond all bounds")?;
            bytes.get(at..end).map(|body| (body.to_vec(), end))
        }
        Framing::Chunked => chunks(bytes, at)?,
    };
    Ok(body.map(|(body, end)| {
        let request = Request {
            method,
            target,
            fields,
            framing,
            body,
        };
        (request, end)
    }))
}

/// The line that begins at `at`, without its CRLF, and where the next one begins.
fn line(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, String> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let line = rest.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").ok_or("a line that ends in LF")?;
    if line.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
        return Err(format!("a control character in {line:?}"));
    }
    Ok(Some((line, at + end + 1)))
}

fn request_line(line: &[u8]) -> Result<(String, String), String> {
    let line = str::from_utf8(line).map_err(|_| "a request line that is not UTF-8")?;
    let wrong = || format!("the request line {line:?}");
    let parts: Vec<&str> = line.split(' ').collect();
    let &[method, target, "HTTP/1.1"] = parts.as_slice() else {
        return Err(wrong());
    };
    let upper = |b: u8| b.is_ascii_uppercase() || b == b'-';
    if method.is_empty() || !method.bytes().all(upper) {
        return Err(wrong());
    }
    if !target.starts_with('/') || target.contains('#') {
        return Err(wrong());
    }
    Ok((method.to_owned(), target.to_owned()))
}

fn field(line: &[u8]) -> Result<(String, Vec<u8>), String> {
    let wrong = || format!("the field {:?}", String::from_utf8_lossy(line));
    let colon = line.iter().position(|b| *b == b':').ok_or_else(wrong)?;
    let (name, value) = line.split_at(colon);
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty() || !name.iter().all(token) {
        return Err(wrong());
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    Ok((name, value.to_vec()))
}

fn framing(fields: &[(String, Vec<u8>)]) -> Result<Framing, String> {
    let all = |wanted: &str| -> Vec<&[u8]> {
        // Servers that read `_` as `-` must not see another framing.
        let named = fields
            .iter()
            .filter(|(name, _)| name.replace('_', "-") == wanted);
        named.map(|(_, value)| value.as_slice()).collect()
    };
    if all("host").len() != 1 {
        return Err("not exactly one Host".to_owned());
    }
    match (
        all("content-length").as_slice(),
        all("transfer-encoding").as_slice(),
    ) {
        ([], []) => Ok(Framing::Absent),
        ([length], []) => {
            let text = str::from_utf8(length).unwrap_or_default();
            let plain = text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse().ok().filter(|_| plain);
            number
                .map(Framing::Length)
                .ok_or(format!("the length {text:?}"))
        }
        ([], [b"chunked"]) => Ok(Framing::Chunked),
        (lengths, encodings) => Err(format!("the framing {lengths:?} and {encodings:?}")),
    }
}

/// The content of a chunked body without extensions and without trailers, and where it ends.
fn chunks(bytes: &[u8], mut at: usize) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut body = Vec::new();
    loop {
        let Some((size, next)) = line(bytes, at)? else {
            return Ok(None);
        };
        let text = str::from_utf8(size).unwrap_or_default();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let size = usize::from_str_radix(text, 16).ok().filter(|_| digits);
        let size = size.ok_or_else(|| format!("the chunk size {text:?}"))?;
        let end = next.checked_add(size).ok_or("a chunk beyond all bounds")?;
        let Some(chunk) = bytes.get(next..end) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        match bytes.get(end..end + 2) {
            Some(b"\r\n") => at = end + 2,
            Some(other) => return Err(format!("{other:?} after a chunk or as a trailer")),
            None => return Ok(None),
        }
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}
