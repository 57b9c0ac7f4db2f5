//! Text to bytes and back in the encodings that files may have.
//!
//! Names are those of Node.js and of iconv; unknown names are refused, not guessed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
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
    /// ISO 8859-1.
    Latin1,
    /// The low eight bits of every UTF-16 unit.
    Binary,
    /// ASCII.
    Ascii,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// Read by its byte order mark, little endian without one; written little endian with one.
    Utf16,
    /// Any other that browsers support.
    Web(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The encoding of this name; case and punctuation do not matter.
    pub fn named(name: &str) -> Result<Self, Failure> {
        let plain: String = name
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
            "latin1" | "iso88591" | "l1" => Self::Latin1,
            "ascii" | "usascii" => Self::Ascii,
            "ucs2" | "utf16le" => Self::Utf16Le,
            "utf16be" => Self::Utf16Be,
            "utf16" => Self::Utf16,
            _ => {
                let web = encoding_rs::Encoding::for_label_no_replacement(name.as_bytes())
                    .or_else(|| {
                        encoding_rs::Encoding::for_label_no_replacement(windows(&plain).as_bytes())
                    })
                    .ok_or_else(|| {
                        Failure::error(format!(
                            "Encoding not recognized: '{name}' (searched as: '{plain}')"
                        ))
                    })?;
                Self::Web(web)
            }
        })
    }

    /// Whether a line feed is always one byte, and that byte always a line feed.
    pub fn has_byte_lines(self) -> bool {
        match self {
            Self::Plain | Self::Utf8 | Self::Latin1 | Self::Binary | Self::Ascii | Self::Web(_) => {
                true
            }
            Self::Base64 | Self::Hex | Self::Utf16Le | Self::Utf16Be | Self::Utf16 => false,
        }
    }

    /// Encodes a text. Characters that the encoding lacks become `?`; invalid base64 is skipped, invalid hex ends the
    /// text.
    pub fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Plain | Self::Utf8 => text.as_bytes().to_vec(),
            Self::Base64 => from_base64(text),
            Self::Hex => from_hex(text),
            Self::Latin1 => narrow(text, 0xff),
            Self::Binary => text
                .encode_utf16()
                .map(|unit| unit.to_le_bytes()[0])
                .collect(),
            Self::Ascii => narrow(text, 0x7f),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Utf16 => std::iter::once(0xfeff)
                .chain(text.encode_utf16())
                .flat_map(u16::to_le_bytes)
                .collect(),
            Self::Web(encoding) => from_web(encoding, text),
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
            Self::Latin1 | Self::Binary => bytes.iter().map(|b| char::from(*b)).collect(),
            Self::Ascii => bytes
                .iter()
                .map(|b| {
                    if b.is_ascii() {
                        char::from(*b)
                    } else {
                        char::REPLACEMENT_CHARACTER
                    }
                })
                .collect(),
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
            Self::Web(encoding) => encoding.decode_without_bom_handling(bytes).0,
        }
    }
}

/// iconv's `win1252` and `cp1252` are browsers' `windows-1252`.
fn windows(name: &str) -> String {
    if name == "macroman" {
        return "macintosh".to_owned();
    }
    let number = name.strip_prefix("win").or_else(|| name.strip_prefix("cp"));
    number.map_or_else(String::new, |n| format!("windows-{n}"))
}

/// An odd last byte is no UTF-16 and is left out, as Node.js does.
fn whole(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() & !1]
}

fn narrow(text: &str, highest: u32) -> Vec<u8> {
    text.chars()
        .map(|c| match u8::try_from(u32::from(c)) {
            Ok(byte) if u32::from(byte) <= highest => byte,
            _ => b'?',
        })
        .collect()
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

fn from_web(encoding: &'static encoding_rs::Encoding, text: &str) -> Vec<u8> {
    let (bytes, _, lacking) = encoding.encode(text);
    if !lacking {
        return bytes.into_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut buffer = [0; 4];
    for c in text.chars() {
        match encoding.encode(c.encode_utf8(&mut buffer)) {
            (_, _, true) => out.push(b'?'),
            (bytes, _, false) => out.extend_from_slice(&bytes),
        }
    }
    out
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
