//! The name of one accepted deployment's flow set.

use crate::secret;

/// The revision of a flow set's JSON: SHA-256 (FIPS 180-4) over nonce and JSON, as 64 hexadecimal digits.
///
/// With a nonce that is never used twice, every deployment gets a name of its own, an identical one too (design §5),
/// so that a client cannot mistake A → B → A for "nothing happened".
pub fn revision(json: &[u8], nonce: &[u8]) -> String {
    // The digests keep the two apart: no pair of nonce and JSON runs into another pair.
    let digests = [secret::sha256(nonce), secret::sha256(json)].concat();
    secret::hex(&secret::sha256(&digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_flows_get_another_name_with_every_nonce() {
        assert_eq!(revision(b"[]", b"1").len(), 64);
        assert_eq!(revision(b"[]", b"1"), revision(b"[]", b"1"));
        assert_ne!(revision(b"[]", b"1"), revision(b"[]", b"2"));
        assert_ne!(revision(b"[]", b"1"), revision(b"[1]", b"1"));
    }

    #[test]
    fn nonce_and_json_do_not_run_into_each_other() {
        assert_ne!(revision(b"1[]", b""), revision(b"[]", b"1"));
    }
}
