//! Digest authentication of http request nodes (RFC 2617 with the algorithms of RFC 7616, as
//! Node-RED does it).
//!
//! Ours, as the crate `digest_auth` has another SHA-512-256 than Node-RED, misreads challenges with
//! non-ASCII characters, and needs old versions of `rand`, `md-5` and `sha2` beside ours.

use aws_lc_rs::digest;
use md5::{Digest, Md5};
use std::fmt::Write;
use value::Failure;

/// The user and password, sent when the server requests them.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// The `Authorization` for a challenge.
pub(super) fn answer(
    credentials: &Credentials,
    method: &str,
    path: &str,
    challenge: &str,
) -> Result<String, Failure> {
    let nonce: [u8; 16] = crypto::random();
    let request = RequestLine { method, path };
    respond(credentials, request, challenge, &hex(&nonce))
}

/// The parts of a request that the response covers.
#[derive(Clone, Copy)]
struct RequestLine<'a> {
    method: &'a str,
    path: &'a str,
}

fn respond(
    Credentials { user, password }: &Credentials,
    RequestLine { method, path }: RequestLine<'_>,
    challenge: &str,
    client_nonce: &str,
) -> Result<String, Failure> {
    let field = |name: &str| parameter(challenge, name).unwrap_or_default();
    let (realm, nonce, algorithm) = (field("realm"), field("nonce"), field("algorithm"));
    if nonce.is_empty() {
        return Err(Failure::text("Invalid digest challenge: missing nonce"));
    }
    if realm.is_empty() {
        return Err(Failure::text("Invalid digest challenge: missing realm"));
    }
    let auth = field("qop").split(',').any(|word| word.trim() == "auth");
    let session = algorithm.to_ascii_lowercase().ends_with("-sess");
    let hash = |text: &str| hashed(&algorithm, text);
    let mut a1 = hash(&format!("{user}:{realm}:{password}"));
    if session {
        a1 = hash(&format!("{a1}:{nonce}:{client_nonce}"));
    }
    let a2 = hash(&format!("{method}:{path}"));
    let response = if auth {
        hash(&format!("{a1}:{nonce}:00000001:{client_nonce}:auth:{a2}"))
    } else {
        hash(&format!("{a1}:{nonce}:{a2}"))
    };
    let mut out =
        format!("Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{path}\"");
    if auth {
        out.push_str(", qop=auth");
    }
    let _ = write!(out, ", response=\"{response}\"");
    if auth {
        let _ = write!(out, ", nc=00000001, cnonce=\"{client_nonce}\"");
    }
    if !algorithm.is_empty() {
        let _ = write!(out, ", algorithm={algorithm}");
    }
    let opaque = field("opaque");
    if !opaque.is_empty() {
        let _ = write!(out, ", opaque=\"{opaque}\"");
    }
    Ok(out)
}

/// A parameter of a challenge, quoted or not.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some(at) = rest.find('=') {
        let key = rest[..at].rsplit([' ', ',', '\t']).next().unwrap_or("");
        let after = &rest[at + 1..];
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = next;
    }
    None
}

fn hashed(algorithm: &str, text: &str) -> String {
    let lower = algorithm.to_ascii_lowercase();
    match lower.trim_end_matches("-sess") {
        "sha-256" => hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref()),
        // As Node-RED has it: SHA-512 cut to 256 bits, which is not the SHA-512/256 of RFC 7616.
        "sha-512-256" => hex(&digest::digest(&digest::SHA512, text.as_bytes()).as_ref()[..32]),
        _ => hex(&Md5::digest(text.as_bytes())),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const RFC_REQUEST: RequestLine<'_> = RequestLine {
        method: "GET",
        path: "/dir/index.html",
    };

    #[test]
    fn the_md5_example_of_rfc_2617() {
        // RFC 2617 §3.5
        let challenge = "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
                         nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
        let credentials = Credentials {
            user: "Mufasa".into(),
            password: "Circle Of Life".into(),
        };
        let answer = respond(&credentials, RFC_REQUEST, challenge, "0a4f113b");
        assert!(
            answer
                .unwrap()
                .contains("response=\"6629fae49393a05397450978507c4ef1\"")
        );
    }

    #[test]
    fn the_sha_256_example_of_rfc_7616() {
        // RFC 7616 §3.9.1, SHA-256
        let challenge = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
                         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\"";
        let credentials = Credentials {
            user: "Mufasa".into(),
            password: "Circle of Life".into(),
        };
        let nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = respond(&credentials, RFC_REQUEST, challenge, nonce);
        let expected = "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
        assert!(answer.unwrap().contains(expected));
    }

    #[test]
    fn a_challenge_without_a_nonce_is_refused() {
        let credentials = Credentials {
            user: "u".into(),
            password: "p".into(),
        };
        assert!(answer(&credentials, "GET", "/", "Digest realm=\"r\"").is_err());
    }
}
