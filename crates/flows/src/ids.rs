//! Ids of 16 hexadecimal digits, for messages and requests: unique, not secret.

use smol_str::SmolStr;

/// 2^64 divided by the golden ratio: the step from one state to the next (`SplitMix64`; Steele,
/// Lea, Flood 2014).
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The id of a state. One to one, so that ids differ, and scattered, so that they do not reveal
/// their count.
pub fn id(state: u64) -> SmolStr {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let mut text = [0; 16];
    for (byte, digits) in mixed
        .to_be_bytes()
        .into_iter()
        .zip(text.chunks_exact_mut(2))
    {
        digits.copy_from_slice(&[
            DIGITS[usize::from(byte >> 4)],
            DIGITS[usize::from(byte & 15)],
        ]);
    }
    SmolStr::new(std::str::from_utf8(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_sixteen_hexadecimal_digits_and_differ() {
        let ids: HashSet<SmolStr> = (0..10_000_u64).map(|n| id(n.wrapping_mul(STEP))).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(
            ids.iter()
                .all(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }
}
