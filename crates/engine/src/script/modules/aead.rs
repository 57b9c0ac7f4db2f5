//! The authentication of sealed texts: GHASH (NIST SP 800-38D) and Poly1305 (RFC 8439), piece by
//! piece.

use ghash::GHash;
use ghash::universal_hash::{KeyInit, UniversalHash};
use poly1305::Poly1305;

/// The bytes of a block of AES and of Poly1305.
pub(super) const BLOCK: usize = 16;
pub(super) type Block = [u8; BLOCK];

/// What shows that a text was not changed.
pub(super) type Tag = Block;

/// The hash of a header and an encrypted text.
pub(super) struct Seal {
    hash: Hash,
    /// What does not fill a block yet.
    rest: Vec<u8>,
    /// Bytes of the header and of the text.
    lengths: [u64; 2],
}

#[derive(Clone)]
enum Hash {
    /// The tag is combined with the mask.
    Ghash(GHash, Block),
    Poly1305(Box<Poly1305>),
}

impl Seal {
    pub(super) fn ghash(key: Block, mask: Block) -> Self {
        Self::of(Hash::Ghash(GHash::new(&key.into()), mask))
    }

    pub(super) fn poly1305(key: [u8; 32]) -> Self {
        Self::of(Hash::Poly1305(Box::new(Poly1305::new(&key.into()))))
    }

    fn of(hash: Hash) -> Self {
        Self {
            hash,
            rest: Vec::new(),
            lengths: [0; 2],
        }
    }

    /// More of the header; all of it comes before the text.
    pub(super) fn header(&mut self, bytes: &[u8]) {
        self.lengths[0] += bytes.len() as u64;
        self.add(bytes);
    }

    /// More of the encrypted text.
    pub(super) fn text(&mut self, bytes: &[u8]) {
        if self.lengths[1] == 0 && !bytes.is_empty() {
            self.fill();
        }
        self.lengths[1] += bytes.len() as u64;
        self.add(bytes);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() / BLOCK * BLOCK;
        if whole > 0 {
            self.hash.update(&self.rest[..whole]);
            self.rest.drain(..whole);
        }
    }

    /// Fills the last block up with zeros.
    fn fill(&mut self) {
        if !self.rest.is_empty() {
            self.rest.resize(BLOCK, 0);
            self.hash.update(&self.rest);
            self.rest.clear();
        }
    }

    /// The tag of all that was added.
    pub(super) fn tag(&mut self) -> Tag {
        self.fill();
        let mut hash = self.hash.clone();
        let mut last = Block::default();
        for (length, bytes) in self.lengths.iter().zip(last.as_chunks_mut::<8>().0) {
            *bytes = match hash {
                Hash::Ghash(..) => (length * 8).to_be_bytes(),
                Hash::Poly1305(_) => length.to_le_bytes(),
            };
        }
        hash.update(&last);
        match hash {
            Hash::Ghash(hash, mask) => {
                let mut tag: Tag = hash.finalize().into();
                tag.iter_mut().zip(mask).for_each(|(a, b)| *a ^= b);
                tag
            }
            Hash::Poly1305(hash) => hash.finalize().into(),
        }
    }
}

impl Hash {
    /// Adds whole blocks.
    fn update(&mut self, blocks: &[u8]) {
        match self {
            Self::Ghash(hash, _) => hash.update_padded(blocks),
            Self::Poly1305(hash) => hash.update_padded(blocks),
        }
    }
}
