//! Text that never prints, and comparison that takes the same time for every input.
//!
//! Knows nothing of what the secret is for.

use std::fmt;
use zeroize::Zeroizing;

/// A password, token or key in memory: wiped when dropped, never shown by `Debug`.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes ownership of the text, so that it is wiped with this value.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself. Every call is a place where the secret may leak; keep them few.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Returns whether two byte strings are equal, in a time that depends on their lengths only.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// The SHA-256 of some bytes (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

/// The SHA-512 of some bytes (FIPS 180-4).
pub fn sha512(bytes: &[u8]) -> [u8; 64] {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, bytes);
    let mut out = [0; 64];
    out.copy_from_slice(digest.as_ref());
    out
}

/// HMAC-SHA-1 (RFC 2104), which the codes of authenticator apps are made of (RFC 4226 §5); for
/// nothing else.
pub fn hmac_sha1(key: &[u8], message: &[u8]) -> [u8; 20] {
    use aws_lc_rs::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    let tag = hmac::sign(&key, message);
    let mut out = [0; 20];
    out.copy_from_slice(tag.as_ref());
    out
}

/// HMAC-SHA-256 (RFC 2104, FIPS 180-4).
pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    use aws_lc_rs::hmac;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let mut out = [0; 32];
    out.copy_from_slice(tag.as_ref());
    out
}

/// Bytes as lower-case hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| {
            [
                DIGITS[usize::from(b >> 4)] as char,
                DIGITS[usize::from(b & 15)] as char,
            ]
        })
        .collect()
}

/// The bytes that a hexadecimal text of `N` bytes stands for, in either case.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
    }
    Some(bytes)
}

/// The value of a hexadecimal digit, in either case.
pub fn hex_digit(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// `N` bytes from the system's random number generator.
///
/// # Panics
/// If the system has no random numbers: nothing secure can be done then.
pub fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    assert!(
        aws_lc_rs::rand::fill(&mut out).is_ok(),
        "the system gives no random numbers"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2".into());
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn hex_is_lower_case_and_padded() {
        assert_eq!(hex(&[0, 0x0f, 0xa0]), "000fa0");
    }

    #[test]
    fn hex_is_read_in_either_case_and_of_one_length_only() {
        assert_eq!(unhex("000fA0"), Some([0, 0x0f, 0xa0]));
        for text in [
            "", "000f", "000fa", "000fa00", "000fa000", "+00fa0", "000fg0",
        ] {
            assert_eq!(unhex::<3>(text), None, "{text}");
        }
    }

    #[test]
    fn hmac_sha256_matches_rfc_4231_test_case_2() {
        assert_eq!(
            hex(&hmac_sha256(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn sha256_of_abc_matches_fips_180_4() {
        assert_eq!(
            hex(&sha256(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
