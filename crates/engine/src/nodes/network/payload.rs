//! The bytes that a network node sends of a payload.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use value::{Value, coerce};

/// The bytes of a payload; texts may be base64.
pub(super) fn bytes_of(payload: &Value, base64: bool) -> Bytes {
    match payload {
        Value::Buffer(bytes) => Bytes::clone(bytes),
        Value::String(text) if base64 => decode(text),
        other => coerce::to_text(other).to_string().into(),
    }
}

/// Base64 as Node.js decodes it: either alphabet, with or without padding, up to what is none.
fn decode(text: &str) -> Bytes {
    let plain: String = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'))
        .collect();
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let whole = plain.len() - usize::from(plain.len() % 4 == 1);
    engine
        .decode(&plain.as_bytes()[..whole])
        .unwrap_or_default()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_leniently() {
        for (text, expected) in [
            ("aGk=", "hi"),
            ("aGk", "hi"),
            ("a G\nk=", "hi"),
            ("aGk=!junk", "hi"),
            ("aGkx", "hi1"),
            ("_-8", "\u{ff}"),
            ("", ""),
        ] {
            if text == "_-8" {
                assert_eq!(decode(text), vec![0xff, 0xef]);
            } else {
                assert_eq!(decode(text), expected, "{text}");
            }
        }
    }
}
