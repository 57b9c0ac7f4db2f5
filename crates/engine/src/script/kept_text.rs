//! The text of a node's function, which is kept beside what is compiled of it: for errors that quote a line, and for the next time
//! it is compiled. A long one is kept deflated; it is read seldom.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use smol_str::SmolStr;
use std::borrow::Cow;

/// The bytes from which a text is deflated. Our choice: shorter ones are nearly all of them, and would gain little.
const LONG: usize = 4096;

/// A text that is read seldom.
#[derive(Debug)]
pub(super) enum KeptText {
    /// As it is.
    Plain(SmolStr),
    /// Deflated (RFC 1951), with its length.
    Deflated(Box<[u8]>, usize),
}

impl KeptText {
    pub(super) fn new(text: &SmolStr) -> Self {
        let deflated = if text.len() < LONG {
            None
        } else {
            deflated(text)
        };
        deflated.map_or_else(
            || Self::Plain(text.clone()),
            |bytes| Self::Deflated(bytes, text.len()),
        )
    }

    /// The text.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Plain(text) => Cow::Borrowed(text),
            Self::Deflated(bytes, length) => {
                let mut text = Vec::with_capacity(*length);
                let mut inflate = Decompress::new(false);
                // It is what `deflated` has made; otherwise errors quote nothing.
                let _ = inflate.decompress_vec(bytes, &mut text, FlushDecompress::Finish);
                Cow::Owned(String::from_utf8(text).unwrap_or_default())
            }
        }
    }
}

/// The deflated text; `None`: it would not be shorter.
fn deflated(text: &str) -> Option<Box<[u8]>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut deflate = Compress::new(Compression::fast(), false);
    let status = deflate.compress_vec(text.as_bytes(), &mut bytes, FlushCompress::Finish);
    matches!(status, Ok(Status::StreamEnd)).then(|| bytes.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_takes_less_room_and_is_the_same() {
        let short = SmolStr::from("return msg;");
        assert!(matches!(KeptText::new(&short), KeptText::Plain(_)));
        let line = "const grüße = (msg) => msg.payload;\n";
        let long = SmolStr::from(line.repeat(LONG / line.len() + 1));
        let kept = KeptText::new(&long);
        let KeptText::Deflated(bytes, _) = &kept else {
            panic!("it is long")
        };
        assert!(bytes.len() < long.len() / 4, "{}", bytes.len());
        assert_eq!(kept.text(), long.as_str());
    }

    #[test]
    fn a_text_that_cannot_be_shortened_is_kept_as_it_is() {
        let random = (0..LONG / 64).map(|_| crypto::hex(&crypto::random::<32>()));
        let random: String = random.collect();
        assert_eq!(KeptText::new(&random.as_str().into()).text(), random);
    }
}
