//! Text to bytes and back in the encodings that files may have.
//!
//! Names are those of Node.js and of iconv-lite; unknown names are refused, not guessed.

mod multi_byte;
mod single_byte;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use multi_byte::MultiByte;
use single_byte::SingleByte;
use std::borrow::Cow;
use std::fmt::Write;
use value::Failure;

/// The encoding of a file's text as bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Encoding {
    /// UTF-8; a byte order mark is text.
    Plain,
    /// UTF-8; a byte order mark is left out.
    Utf8,
    /// Base64 (RFC 4648 §4).
    Base64,
    /// Hexadecimal.
    Hex,
    /// The low eight bits of every UTF-16 unit.
    Binary,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// Read by its byte order mark, little endian without one; written little endian with one.
    Utf16,
    /// One byte for each character.
    SingleByte(&'static SingleByte),
    /// Chinese, Japanese or Korean.
    MultiByte(MultiByte),
}

impl Encoding {
    /// The encoding of this name; case, punctuation and the year of an ISO name do not matter.
    pub fn named(name: &str) -> Result<Self, Failure> {
        let plain: String = without_year(name)
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Ok(match plain.as_str() {
            "none" => Self::Plain,
            "utf8" | "unicode11utf8" => Self::Utf8,
            "base64" => Self::Base64,
            "hex" => Self::Hex,
            "binary" => Self::Binary,
            "ucs2" | "utf16le" => Self::Utf16Le,
            "utf16be" => Self::Utf16Be,
            "utf16" => Self::Utf16,
            other => SingleByte::named(other)
                .map(Self::SingleByte)
                .or_else(|| MultiByte::named(other).map(Self::MultiByte))
                .ok_or_else(|| {
                    Failure::error(format!(
                        "Encoding not recognized: '{name}' (searched as: '{plain}')"
                    ))
                })?,
        })
    }

    /// Returns whether a line feed is always one byte, and that byte always a line feed.
    pub fn has_byte_lines(self) -> bool {
        match self {
            Self::Plain | Self::Utf8 | Self::Binary | Self::MultiByte(_) => true,
            Self::SingleByte(encoding) => encoding.has_byte_lines(),
            Self::Base64 | Self::Hex | Self::Utf16Le | Self::Utf16Be | Self::Utf16 => false,
        }
    }

    /// Encodes a text. Characters that the encoding lacks become `?`; invalid base64 is skipped,
    /// invalid hex ends the text.
    pub fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Plain | Self::Utf8 => text.as_bytes().to_vec(),
            Self::Base64 => from_base64(text),
            Self::Hex => from_hex(text),
            Self::Binary => text
                .encode_utf16()
                .map(|unit| unit.to_le_bytes()[0])
                .collect(),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Utf16 => std::iter::once(0xfeff)
                .chain(text.encode_utf16())
                .flat_map(u16::to_le_bytes)
                .collect(),
            Self::SingleByte(encoding) => encoding.encode(text),
            Self::MultiByte(encoding) => encoding.encode(text),
        }
    }

    /// The text of these bytes. Unreadable bytes become U+FFFD.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        match self {
            Self::Plain => String::from_utf8_lossy(bytes),
            Self::Utf8 => {
                String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
            }
            Self::Base64 => BASE64_STANDARD.encode(bytes).into(),
            Self::Hex => bytes
                .iter()
                .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{byte:02x}");
                    out
                })
                .into(),
            Self::Binary => bytes.iter().map(|b| char::from(*b)).collect(),
            Self::Utf16Le => {
                encoding_rs::UTF_16LE
                    .decode_without_bom_handling(whole(bytes))
                    .0
            }
            Self::Utf16Be => {
                encoding_rs::UTF_16BE
                    .decode_without_bom_handling(whole(bytes))
                    .0
            }
            Self::Utf16 => encoding_rs::UTF_16LE.decode(whole(bytes)).0,
            Self::SingleByte(encoding) => encoding.decode(bytes).into(),
            Self::MultiByte(encoding) => encoding.decode(bytes),
        }
    }
}

/// `ISO_8859-1:1987` is `ISO_8859-1`.
fn without_year(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((rest, year)) if year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) => rest,
        _ => name,
    }
}

/// An odd last byte is no UTF-16 and is left out, as Node.js does.
fn whole(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() & !1]
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map_while(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

/// Reads both alphabets (RFC 4648 §4, §5), skips characters in neither, and ends at `=`.
fn from_base64(text: &str) -> Vec<u8> {
    let mut plain: Vec<u8> = text
        .bytes()
        .take_while(|b| *b != b'=')
        .filter_map(|b| match b {
            b'-' => Some(b'+'),
            b'_' => Some(b'/'),
            b'+' | b'/' => Some(b),
            _ => b.is_ascii_alphanumeric().then_some(b),
        })
        .collect();
    if plain.len() % 4 == 1 {
        plain.pop();
    }
    let lenient = base64::engine::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::general_purpose::NO_PAD.with_decode_allow_trailing_bits(true),
    );
    // Nothing is left that could fail.
    lenient.decode(plain).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Bytes that Node-RED 4.1 wrote.
    #[test]
    fn text_becomes_the_bytes_that_node_red_writes() {
        for (name, text, bytes) in [
            ("none", "hé", &b"h\xc3\xa9"[..]),
            ("utf16le", "hé\n", b"h\0\xe9\0\n\0"),
            ("ucs2", "h", b"h\0"),
            ("utf16", "h\n", b"\xff\xfeh\0\n\0"),
            ("utf-16be", "h", b"\0h"),
            ("latin1", "hé€", b"h\xe9?"),
            ("ascii", "hé", b"h?"),
            ("hex", "6869zz", b"hi"),
            ("base64", "aGk=", b"hi"),
            ("base64", "aG\nk", b"hi"),
            ("Shift_JIS", "あ", b"\x82\xa0"),
            ("win1252", "€あ", b"\x80?"),
            ("ISO_8859-5:1988", "я", b"\xef"),
            ("Windows932", "あ😀", b"\x82\xa0?"),
            ("EUC-JP", "あ丂", b"\xa4\xa2\x8f\xb0\xa1"),
            ("Big5-HKSCS", "漢Ê", b"\xba\x7e\x88\x66"),
            ("Windows950", "漢Êя", b"\xba\x7e??"),
        ] {
            assert_eq!(Encoding::named(name).unwrap().encode(text), bytes, "{name}");
        }
    }

    /// Texts that Node-RED 4.1 read.
    #[test]
    fn bytes_become_the_text_that_node_red_reads() {
        for (name, text) in [
            ("none", "hé\u{fffd}"),
            ("hex", "68c3a9ff"),
            ("base64", "aMOp/w=="),
            ("latin1", "hÃ©ÿ"),
            ("ucs2", "써ﾩ"),
            ("utf16", "써ﾩ"),
            ("ascii", "h\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            let decoded = Encoding::named(name).unwrap();
            assert_eq!(decoded.decode(b"h\xc3\xa9\xff"), text, "{name}");
        }
        assert_eq!(Encoding::Utf16Le.decode(b"h\0i"), "h");
        assert_eq!(Encoding::Utf8.decode(b"\xef\xbb\xbfx"), "x");
        assert_eq!(Encoding::Plain.decode(b"\xef\xbb\xbfx"), "\u{feff}x");
    }

    #[test]
    fn an_unknown_encoding_is_named() {
        assert_eq!(
            Encoding::named("No-Pe").unwrap_err().message,
            "Encoding not recognized: 'No-Pe' (searched as: 'nope')"
        );
    }
}
