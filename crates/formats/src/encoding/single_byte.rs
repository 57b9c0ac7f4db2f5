//! Encodings of one byte for each character: code pages, ISO 8859, those of the Mac, KOI8 and
//! others.
//!
//! `single_byte.txt` has their tables, as iconv-lite has them, with which Node-RED's file nodes
//! read and write; `tests/golden/encodings.mjs` writes it. `encoding_rs` lacks most of them, and a
//! few of its own differ.

use std::fmt;
use std::sync::LazyLock;

/// The names of each encoding, a tab, and the characters of its bytes from 0x80, or of all, as a
/// JSON string.
const TABLES: &str = include_str!("single_byte.txt");

/// An encoding's characters.
pub struct SingleByte {
    /// Its names, which are lower-case letters and digits.
    names: Vec<&'static str>,
    /// The character of each byte.
    characters: [char; 256],
    /// The bytes in the order of their characters.
    by_character: [u8; 256],
}

impl fmt::Debug for SingleByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

impl PartialEq for SingleByte {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

static ENCODINGS: LazyLock<Vec<SingleByte>> =
    LazyLock::new(|| TABLES.lines().filter_map(parse).collect());

fn parse(line: &'static str) -> Option<SingleByte> {
    let (names, characters) = line.split_once('\t')?;
    let given = value::json::parse(characters).ok()?;
    let given = given.as_str()?;
    let mut by_character: [u8; 256] = [0; 256];
    for (place, byte) in by_character.iter_mut().zip(0..=u8::MAX) {
        *place = byte;
    }
    let mut characters = by_character.map(char::from);
    let first = 256_usize.checked_sub(given.chars().count())?;
    for (place, c) in characters[first..].iter_mut().zip(given.chars()) {
        *place = c;
    }
    by_character.sort_by_key(|byte| (characters[usize::from(*byte)], *byte));
    Some(SingleByte {
        names: names.split(' ').collect(),
        characters,
        by_character,
    })
}

impl SingleByte {
    /// The encoding of this name, in lower-case letters and digits.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ENCODINGS.iter().find(|e| e.names.contains(&name))
    }

    pub(super) fn decode(&self, bytes: &[u8]) -> String {
        let characters = bytes.iter().map(|b| self.characters[usize::from(*b)]);
        characters.collect()
    }

    /// A character that several bytes have becomes the last of them. One that none has becomes `?`,
    /// or two beyond U+FFFF.
    pub(super) fn encode(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for c in text.chars() {
            match self.byte(c) {
                Some(byte) => out.push(byte),
                None => out.extend(std::iter::repeat_n(b'?', c.len_utf16())),
            }
        }
        out
    }

    fn byte(&self, c: char) -> Option<u8> {
        let character = |byte: &u8| self.characters[usize::from(*byte)];
        let after = self.by_character.partition_point(|b| character(b) <= c);
        let last = self.by_character.get(after.checked_sub(1)?)?;
        (character(last) == c).then_some(*last)
    }

    /// Returns whether byte 10 is a line feed, and nothing else is.
    pub(super) fn has_byte_lines(&self) -> bool {
        self.byte('\n') == Some(b'\n') && self.characters[usize::from(b'\n')] == '\n'
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_encoding_and_every_name_one_of_it() {
        assert_eq!(ENCODINGS.len(), TABLES.lines().count());
        for encoding in ENCODINGS.iter() {
            for name in &encoding.names {
                assert_eq!(SingleByte::named(name), Some(encoding), "{name}");
            }
        }
    }

    #[test]
    fn what_an_encoding_reads_it_writes_again() {
        for encoding in ENCODINGS.iter() {
            let bytes: Vec<u8> = (0..=255).collect();
            let text = encoding.decode(&bytes);
            let written = encoding.encode(&text);
            assert_eq!(encoding.decode(&written), text, "{encoding:?}");
        }
    }

    #[test]
    fn characters_that_are_lacking_become_question_marks() {
        let koi8 = SingleByte::named("koi8r").unwrap();
        assert_eq!(koi8.encode("я漢😀"), b"\xd1???");
    }
}
