//! The second factor of a user: codes of an authenticator app (TOTP, RFC 6238), and recovery codes
//! for when it is lost.
//!
//! Each code counts once. Checks codes; which have been used is kept by the store.

use crate::config::Totp;
use crypto::{constant_time_eq, hmac_sha1, random, sha256};
use data_encoding::{BASE32_NOPAD, DecodeError};

/// The time that a code is shown for, seconds (RFC 6238 §5.2).
const STEP: u64 = 30;
/// Steps before and after the present one whose codes count, for clocks that differ (RFC 6238 §5.2
/// recommends one).
const SKEW: u64 = 1;
/// Digits of a code: what authenticator apps show.
const DIGITS: usize = 6;
/// Characters of a recovery code: four groups of four with hyphens, 80 random bits.
const RECOVERY: usize = 19;
/// Recovery codes of a user. Our choice: enough for years, and few enough to be written down.
const RECOVERY_CODES: usize = 8;
/// Bytes of a new secret: as long as the hash (RFC 4226 §4).
const SECRET: usize = 20;
/// The characters of recovery codes, 5 bits each: none looks like another.
const READABLE: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Names a code for the store: the step that it belongs to, or the hash of a recovery code.
pub(super) type CodeKey = Vec<u8>;

/// The password and the code after it, as clients that know no second factor send them in one
/// field. `None`: there is no code at the end.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let at_end = |length: usize| {
        text.len()
            .checked_sub(length)
            .and_then(|at| text.split_at_checked(at))
    };
    let recovery = at_end(RECOVERY).filter(|(_, code)| is_recovery(code));
    let digits = || {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        at_end(DIGITS).filter(|(_, code)| code.bytes().all(is_digit))
    };
    recovery.or_else(digits)
}

/// The key of a code that is right at this time, in seconds since 1970; `None`: it is wrong.
pub(super) fn check(totp: &Totp, code: &str, now: u64) -> Option<CodeKey> {
    if is_recovery(code) {
        let hash = sha256(code.as_bytes());
        let known = totp
            .recovery_codes
            .iter()
            .any(|known| constant_time_eq(known, &hash));
        return known.then(|| hash.to_vec());
    }
    let secret = secret_bytes(totp.secret.reveal()).ok()?;
    let present = now / STEP;
    let mut steps = present.saturating_sub(SKEW)..=present + SKEW;
    let is_right = |step: &u64| {
        let expected = format!("{:0DIGITS$}", truncated(&secret, *step) % 1_000_000);
        constant_time_eq(expected.as_bytes(), code.as_bytes())
    };
    steps.find(is_right).map(|step| step.to_be_bytes().to_vec())
}

/// The number that a code is made of (RFC 4226 §5.3).
fn truncated(secret: &[u8], step: u64) -> u32 {
    let tag = hmac_sha1(secret, &step.to_be_bytes());
    let offset = usize::from(tag[19] & 15);
    let four = tag.get(offset..).and_then(|rest| rest.first_chunk());
    four.map_or(0, |four| u32::from_be_bytes(*four) & 0x7fff_ffff)
}

fn is_recovery(code: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at % 5 {
        4 => byte == b'-',
        _ => READABLE.contains(&byte),
    };
    code.len() == RECOVERY && code.bytes().enumerate().all(fits)
}

/// The bytes of a secret in base32 (RFC 4648 §6), as apps show it: letter case and spaces do not
/// matter.
fn secret_bytes(text: &str) -> Result<Vec<u8>, DecodeError> {
    let plain: String = text.chars().filter(|c| *c != ' ' && *c != '=').collect();
    BASE32_NOPAD.decode(plain.to_ascii_uppercase().as_bytes())
}

/// What an operator gives a user, and what stands in the config.
#[derive(Debug)]
pub struct NewTotp {
    /// For the app, in base32.
    pub secret: String,
    /// For the user, to be written down.
    pub recovery_codes: Vec<String>,
    /// Their SHA-256 in hexadecimal, for the config.
    pub recovery_hashes: Vec<String>,
}

/// A new second factor.
pub fn new_totp() -> NewTotp {
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| recovery_code()).collect();
    NewTotp {
        secret: BASE32_NOPAD.encode(&random::<SECRET>()),
        recovery_hashes: codes
            .iter()
            .map(|code| crypto::hex(&sha256(code.as_bytes())))
            .collect(),
        recovery_codes: codes,
    }
}

fn recovery_code() -> String {
    let groups = random::<16>();
    let groups = groups.chunks(4).map(|group| {
        let letters = group
            .iter()
            .map(|byte| char::from(READABLE[usize::from(byte % 32)]));
        letters.collect::<String>()
    });
    groups.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crypto::Secret;

    /// The secret of RFC 6238, Appendix B.
    const RFC_SECRET: &[u8] = b"12345678901234567890";

    fn totp(recovery: &[&str]) -> Totp {
        Totp {
            secret: Secret::new(BASE32_NOPAD.encode(RFC_SECRET)),
            recovery_codes: recovery
                .iter()
                .map(|code| sha256(code.as_bytes()))
                .collect(),
        }
    }

    #[test]
    fn codes_are_those_of_rfc_6238_appendix_b() {
        for (time, code) in [
            (59, 94_287_082),
            (1_111_111_109, 7_081_804),
            (1_111_111_111, 14_050_471),
            (1_234_567_890, 89_005_924),
            (2_000_000_000, 69_279_037),
            (20_000_000_000, 65_353_130),
        ] {
            assert_eq!(
                truncated(RFC_SECRET, time / STEP) % 100_000_000,
                code,
                "{time}"
            );
        }
    }

    #[test]
    fn a_code_counts_one_step_before_and_after_and_no_longer() {
        let totp = totp(&[]);
        // Of the step that begins at 30.
        let counts = |now| check(&totp, "287082", now);
        assert!(counts(59).is_some());
        assert_eq!(counts(0), counts(59), "it is one code");
        assert_eq!(counts(89), counts(59));
        assert!(counts(90).is_none());
        for wrong in ["287083", "", "28708", "2870820", " 287082", "+87082"] {
            assert_eq!(check(&totp, wrong, 59), None, "{wrong}");
        }
    }

    #[test]
    fn the_code_is_split_from_the_end_of_the_password() {
        let recovery = "abcd-efgh-jkmn-2345";
        for (text, split_at) in [
            ("secret123456", Some(("secret", "123456"))),
            ("123456", Some(("", "123456"))),
            ("\u{e4}123456", Some(("\u{e4}", "123456"))),
            ("secret12345", None),
            ("12345\u{e4}", None),
            ("", None),
        ] {
            assert_eq!(split(text), split_at, "{text}");
        }
        let text = format!("pw{recovery}");
        assert_eq!(split(&text), Some(("pw", recovery)));
    }

    #[test]
    fn new_secrets_and_recovery_codes_are_accepted_and_no_others() {
        let made = new_totp();
        assert_eq!(secret_bytes(&made.secret).unwrap().len(), SECRET);
        let codes: Vec<&str> = made.recovery_codes.iter().map(String::as_str).collect();
        let totp = totp(&codes);
        assert!(codes.iter().all(|code| check(&totp, code, 0).is_some()));
        assert_eq!(check(&totp, "aaaa-aaaa-aaaa-aaaa", 0), None);
        assert_ne!(made.secret, new_totp().secret);
    }
}
