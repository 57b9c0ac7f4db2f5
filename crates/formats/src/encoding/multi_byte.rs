//! Encodings of one or more bytes for each character, of Chinese, Japanese and Korean.
//!
//! `encoding_rs` reads them. Its EUC-JP does not write JIS X 0212 and its Big5 does not write
//! HKSCS, as browsers do not; iconv-lite, with which Node-RED's file nodes write, does.

use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

/// An encoding, and which of its characters are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MultiByte {
    encoding: &'static Encoding,
    written: Written,
}

/// The characters that are written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    /// Those that browsers write.
    Browsers,
    /// Those of [`JIS_X_0212`] too.
    JisX0212,
    /// Those of [`HKSCS`] too.
    Hkscs,
    /// Those of code page 950 only, which is Big5 without most extensions.
    CodePage950,
}

/// Characters of Big5 that code page 950 lacks, by their bytes (observed of iconv-lite).
const NOT_IN_950: [RangeInclusive<[u8; 2]>; 4] = [
    [0x87, 0x40]..=[0xa0, 0xfe],
    [0xa3, 0xc0]..=[0xa3, 0xe0],
    [0xc6, 0xa1]..=[0xc8, 0xfe],
    [0xf9, 0xfe]..=[0xfe, 0xfe],
];

/// Characters that `encoding_rs` does not write, and their bytes.
type Extension = HashMap<char, Vec<u8>>;

/// HKSCS: the first bytes of a character are those that are written (observed of iconv-lite).
static HKSCS: LazyLock<Extension> = LazyLock::new(|| {
    let bytes = (0x81..=0xfe).flat_map(|lead| (0x40..=0xfe).map(move |trail| vec![lead, trail]));
    extension(BIG5, bytes)
});

/// JIS X 0212, the characters after the byte 0x8F.
static JIS_X_0212: LazyLock<Extension> = LazyLock::new(|| {
    let bytes =
        (0xa1..=0xfe).flat_map(|lead| (0xa1..=0xfe).map(move |trail| vec![0x8f, lead, trail]));
    extension(EUC_JP, bytes)
});

fn extension(encoding: &'static Encoding, all: impl Iterator<Item = Vec<u8>>) -> Extension {
    let mut found = Extension::default();
    for bytes in all {
        let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(&bytes)
        else {
            continue;
        };
        let mut characters = text.chars();
        if let (Some(c), None) = (characters.next(), characters.next()) {
            found.entry(c).or_insert(bytes);
        }
    }
    found
}

impl MultiByte {
    /// The encoding of this name, in lower-case letters and digits; names are iconv-lite's.
    pub(super) fn named(name: &str) -> Option<Self> {
        let encoding = match name {
            "932" | "shiftjis" | "csshiftjis" | "mskanji" | "sjis" | "windows31j" | "ms31j"
            | "xsjis" | "windows932" | "ms932" | "cp932" => SHIFT_JIS,
            "eucjp" => EUC_JP,
            "936" | "gb2312" | "gb231280" | "gb23121980" | "csgb2312" | "csiso58gb231280"
            | "euccn" | "windows936" | "ms936" | "cp936" | "gbk" | "xgbk" | "isoir58" => GBK,
            "gb18030" | "chinese" => GB18030,
            "949" | "windows949" | "ms949" | "cp949" | "cseuckr" | "csksc56011987" | "euckr"
            | "isoir149" | "korean" | "ksc56011987" | "ksc56011989" | "ksc5601" => EUC_KR,
            "950" | "windows950" | "ms950" | "cp950" | "big5" | "big5hkscs" | "cnbig5"
            | "csbig5" | "xxbig5" => BIG5,
            _ => return None,
        };
        let written = if encoding == EUC_JP {
            Written::JisX0212
        } else if encoding != BIG5 {
            Written::Browsers
        } else if name.ends_with("950") {
            Written::CodePage950
        } else {
            Written::Hkscs
        };
        Some(Self { encoding, written })
    }

    pub(super) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.encoding.decode_without_bom_handling(bytes).0
    }

    /// A character that the encoding lacks becomes `?`.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let (bytes, _, lacking) = self.encoding.encode(text);
        if !lacking && self.written == Written::Browsers {
            return bytes.into_owned();
        }
        let mut out = Vec::with_capacity(text.len());
        for c in text.chars() {
            self.put(c, &mut out);
        }
        out
    }

    fn put(self, c: char, out: &mut Vec<u8>) {
        let mut buffer = [0; 4];
        let (bytes, _, lacking) = self.encoding.encode(c.encode_utf8(&mut buffer));
        let usual = (!lacking).then_some(&*bytes);
        let bytes = match self.written {
            Written::Browsers => usual,
            // NEC's and IBM's characters of EUC-JP are in JIS X 0212 too, and written as those.
            Written::JisX0212 => JIS_X_0212.get(&c).map(Vec::as_slice).or(usual),
            Written::Hkscs => usual.or_else(|| HKSCS.get(&c).map(Vec::as_slice)),
            Written::CodePage950 => usual.filter(|bytes| match *bytes {
                [lead, trail] => !NOT_IN_950.iter().any(|not| not.contains(&[*lead, *trail])),
                _ => true,
            }),
        };
        out.extend_from_slice(bytes.unwrap_or(b"?"));
    }
}
