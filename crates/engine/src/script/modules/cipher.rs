//! Ciphers for `lib/modules/ciphers.js`: AES in the modes ECB, CBC, CTR and GCM, and
//! ChaCha20-Poly1305, piece by piece.
//!
//! AWS-LC encrypts the blocks; the modes are made here, as its own pad always, and read a whole
//! text at once.

use super::aead::{BLOCK, Block, Seal, Tag};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

/// Why a cipher cannot be made, or a text not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Key,
    Iv,
    /// The padding of the last block is wrong: it was encrypted with another key, or changed.
    Padding,
    /// The text ends within a block.
    Length,
    /// The text or its tag was changed.
    Tag,
}

/// A text on its way through a cipher.
pub(super) struct Cipher {
    mode: Mode,
    encrypts: bool,
    pub(super) pads: bool,
    /// What does not fill a block yet, and the last block of a text that is decrypted.
    rest: Vec<u8>,
}

enum Mode {
    Ecb(Aes),
    Cbc(Aes, Block),
    Stream(KeyStream),
    Sealed(KeyStream, Box<Seal>),
}

impl Cipher {
    /// A cipher by the name that OpenSSL gives it, in lower case; `None`: there is none of this
    /// name.
    pub(super) fn new(
        name: &str,
        encrypts: bool,
        key: &[u8],
        iv: &[u8],
    ) -> Option<Result<Self, Refused>> {
        let (length, _, mode) = kind(name)?;
        if key.len() != length {
            return Some(Err(Refused::Key));
        }
        let mode = match (mode, <Block>::try_from(iv)) {
            ("ecb", _) if iv.is_empty() => Aes::new(key).map(Mode::Ecb),
            ("cbc", Ok(iv)) => Aes::new(key).map(|aes| Mode::Cbc(aes, iv)),
            ("ctr", Ok(iv)) => {
                Aes::new(key).map(|aes| Mode::Stream(KeyStream::counting(aes, iv, BLOCK)))
            }
            ("gcm", _) if !iv.is_empty() => sealed_aes(key, iv),
            ("poly1305", _) if iv.len() == 12 => sealed_chacha(key, iv),
            _ => Err(Refused::Iv),
        };
        Some(mode.map(|mode| Self {
            mode,
            encrypts,
            pads: true,
            rest: Vec::new(),
        }))
    }

    /// More of the text; returns what can be given of the result.
    pub(super) fn update(&mut self, text: &[u8]) -> Vec<u8> {
        match &mut self.mode {
            Mode::Stream(stream) => {
                let mut out = text.to_vec();
                stream.apply(&mut out);
                out
            }
            Mode::Sealed(stream, seal) => {
                let mut out = text.to_vec();
                if !self.encrypts {
                    seal.text(&out);
                }
                stream.apply(&mut out);
                if self.encrypts {
                    seal.text(&out);
                }
                out
            }
            Mode::Ecb(_) | Mode::Cbc(..) => {
                self.rest.extend_from_slice(text);
                // The last block of a decrypted text waits: it may be padding.
                let held = usize::from(!self.encrypts && self.pads);
                let whole = self.rest.len().saturating_sub(held) / BLOCK * BLOCK;
                let mut out: Vec<u8> = self.rest.drain(..whole).collect();
                self.blocks(&mut out);
                out
            }
        }
    }

    /// Bytes that are authenticated and not encrypted; `false` if the cipher has none.
    pub(super) fn authenticate(&mut self, bytes: &[u8]) -> bool {
        match &mut self.mode {
            Mode::Sealed(_, seal) => seal.header(bytes),
            _ => return false,
        }
        true
    }

    /// The rest of the result, and the tag; `expected`: that of a text that is decrypted.
    pub(super) fn finish(
        &mut self,
        expected: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Option<Tag>), Refused> {
        match &mut self.mode {
            Mode::Stream(_) => Ok((Vec::new(), None)),
            Mode::Sealed(_, seal) => {
                let tag = seal.tag();
                let same = |expected: &[u8]| {
                    let own = &tag[..expected.len().min(tag.len())];
                    // The shortest tag there is (NIST SP 800-38D §5.2.1.2).
                    expected.len() >= 4
                        && aws_lc_rs::constant_time::verify_slices_are_equal(own, expected).is_ok()
                };
                if !self.encrypts && !expected.is_some_and(same) {
                    return Err(Refused::Tag);
                }
                Ok((Vec::new(), Some(tag)))
            }
            Mode::Ecb(_) | Mode::Cbc(..) => self.finish_blocks().map(|out| (out, None)),
        }
    }

    fn finish_blocks(&mut self) -> Result<Vec<u8>, Refused> {
        let mut last = std::mem::take(&mut self.rest);
        if self.encrypts && self.pads {
            let padding = BLOCK - last.len();
            #[expect(clippy::cast_possible_truncation, reason = "at most a block")]
            last.resize(BLOCK, padding as u8);
        }
        if !last.len().is_multiple_of(BLOCK) || (self.pads && last.is_empty()) {
            return Err(Refused::Length);
        }
        self.blocks(&mut last);
        if !self.encrypts && self.pads {
            let padding = last.last().map_or(0, |n| usize::from(*n));
            let text = last.len().checked_sub(padding).ok_or(Refused::Padding)?;
            if padding == 0
                || last[text..]
                    .iter()
                    .any(|byte| usize::from(*byte) != padding)
            {
                return Err(Refused::Padding);
            }
            last.truncate(text);
        }
        Ok(last)
    }

    /// Encrypts or decrypts whole blocks.
    fn blocks(&mut self, blocks: &mut [u8]) {
        match &mut self.mode {
            Mode::Ecb(aes) if self.encrypts => aes.encrypt(blocks),
            Mode::Ecb(aes) => aes.decrypt(blocks),
            Mode::Cbc(aes, last) if self.encrypts => {
                for block in blocks.as_chunks_mut::<BLOCK>().0 {
                    xor(block, last);
                    aes.encrypt(block);
                    *last = *block;
                }
            }
            Mode::Cbc(aes, last) => {
                let before = blocks.to_vec();
                aes.decrypt(blocks);
                let (before, _) = before.as_chunks::<BLOCK>();
                let chained = std::iter::once(&*last).chain(before);
                for (block, previous) in blocks.as_chunks_mut::<BLOCK>().0.iter_mut().zip(chained) {
                    xor(block, previous);
                }
                *last = before.last().copied().unwrap_or(*last);
            }
            Mode::Stream(_) | Mode::Sealed(..) => {}
        }
    }
}

/// The lengths of key and initialization vector of a cipher, and its mode.
pub(super) fn kind(name: &str) -> Option<(usize, usize, &'static str)> {
    if name == "chacha20-poly1305" {
        return Some((32, 12, "poly1305"));
    }
    let (bits, mode) = name.strip_prefix("aes-")?.split_once('-')?;
    let length = match bits {
        "128" => 16,
        "192" => 24,
        "256" => 32,
        _ => return None,
    };
    Some(match mode {
        "ecb" => (length, 0, "ecb"),
        "cbc" => (length, 16, "cbc"),
        "ctr" => (length, 16, "ctr"),
        "gcm" => (length, 12, "gcm"),
        _ => return None,
    })
}

/// NIST SP 800-38D §7.1.
fn sealed_aes(key: &[u8], iv: &[u8]) -> Result<Mode, Refused> {
    let mut aes = Aes::new(key)?;
    let mut hash_key = Block::default();
    aes.encrypt(&mut hash_key);
    let mut first = Block::default();
    if iv.len() == 12 {
        first[..12].copy_from_slice(iv);
        first[15] = 1;
    } else {
        let mut seal = Seal::ghash(hash_key, Block::default());
        seal.text(iv);
        first = seal.tag();
    }
    let mut mask = first;
    aes.encrypt(&mut mask);
    let mut stream = KeyStream::counting(aes, first, 4);
    stream.count();
    Ok(Mode::Sealed(stream, Box::new(Seal::ghash(hash_key, mask))))
}

/// RFC 8439 §2.8.
fn sealed_chacha(key: &[u8], iv: &[u8]) -> Result<Mode, Refused> {
    let mut stream = ChaCha20::new_from_slices(key, iv).map_err(|_| Refused::Iv)?;
    let mut mac_key = [0; 32];
    stream.apply_keystream(&mut mac_key);
    // The text begins with the second block, of 64 bytes.
    stream.seek(64);
    Ok(Mode::Sealed(
        KeyStream::ChaCha(Box::new(stream)),
        Box::new(Seal::poly1305(mac_key)),
    ))
}

/// Blocks of AES with one key.
struct Aes {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
}

impl Aes {
    fn new(key: &[u8]) -> Result<Self, Refused> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            _ => &AES_256,
        };
        let key = || UnboundCipherKey::new(algorithm, key).map_err(|_| Refused::Key);
        Ok(Self {
            encrypting: EncryptingKey::ecb(key()?).map_err(|_| Refused::Key)?,
            decrypting: DecryptingKey::ecb(key()?).map_err(|_| Refused::Key)?,
        })
    }

    /// Encrypts whole blocks; these and a fitting key cannot fail.
    fn encrypt(&mut self, blocks: &mut [u8]) {
        let done = self
            .encrypting
            .less_safe_encrypt(blocks, EncryptionContext::None);
        debug_assert!(done.is_ok(), "whole blocks");
    }

    fn decrypt(&mut self, blocks: &mut [u8]) {
        let done = self.decrypting.decrypt(blocks, DecryptionContext::None);
        debug_assert!(done.is_ok(), "whole blocks");
    }
}

/// Bytes with which a text is combined.
enum KeyStream {
    /// Encrypted counters; the last `bytes` of the block count.
    Counter {
        aes: Box<Aes>,
        counter: Block,
        bytes: usize,
        unused: Vec<u8>,
    },
    ChaCha(Box<ChaCha20>),
}

impl KeyStream {
    fn counting(aes: Aes, counter: Block, bytes: usize) -> Self {
        Self::Counter {
            aes: Box::new(aes),
            counter,
            bytes,
            unused: Vec::new(),
        }
    }

    fn count(&mut self) {
        if let Self::Counter { counter, bytes, .. } = self {
            increment(counter, *bytes);
        }
    }

    fn apply(&mut self, text: &mut [u8]) {
        match self {
            Self::ChaCha(stream) => stream.apply_keystream(text),
            Self::Counter {
                aes,
                counter,
                bytes,
                unused,
            } => {
                let missing = text.len().saturating_sub(unused.len()).div_ceil(BLOCK);
                let mut fresh = Vec::with_capacity(missing * BLOCK);
                for _ in 0..missing {
                    fresh.extend_from_slice(counter);
                    increment(counter, *bytes);
                }
                aes.encrypt(&mut fresh);
                unused.extend(fresh);
                let keys = unused.drain(..text.len());
                text.iter_mut()
                    .zip(keys)
                    .for_each(|(byte, key)| *byte ^= key);
            }
        }
    }
}

fn increment(counter: &mut Block, bytes: usize) {
    for byte in counter[BLOCK - bytes..].iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
}

fn xor(block: &mut Block, other: &Block) {
    block.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_needs_a_tag_of_four_bytes_at_least() {
        let (key, iv) = ([7; 32], [9; 12]);
        let cipher = |encrypts| {
            Cipher::new("aes-256-gcm", encrypts, &key, &iv)
                .unwrap()
                .ok()
                .unwrap()
        };
        let mut encrypting = cipher(true);
        let sealed = encrypting.update(b"text");
        let (_, tag) = encrypting.finish(None).unwrap();
        let tag = tag.unwrap();
        let opened = |tag: &[u8]| {
            let mut decrypting = cipher(false);
            assert_eq!(decrypting.update(&sealed), b"text");
            decrypting.finish(Some(tag)).is_ok()
        };
        assert!(opened(&tag) && opened(&tag[..4]));
        assert!(!opened(&tag[..3]) && !opened(&[]) && !opened(&[0; 16]));
    }
}
