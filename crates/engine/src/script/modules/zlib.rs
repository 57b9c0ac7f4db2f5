//! Compression for `lib/modules/zlib.js`, in the formats gzip, zlib, raw deflate and Brotli.

use super::super::{Scripts, from_js};
use super::brotli::{Decoder, Encoder};
use super::compression::{PIECE, Wrong};
use super::in_time;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use rquickjs::convert::List;
use rquickjs::{ArrayBuffer, Ctx, Function, IntoJs, Object as JsObject, Result, Value as JsValue};
use std::cell::RefCell;
use std::rc::Weak;

/// The maximum number of bytes that come out of one call. Our choice: an eighth of the memory that
/// all functions have by default; a few KiB can become that many.
const MAX_OUTPUT: usize = 128 << 20;

/// Bits of the window: 32 KiB, the most there is (RFC 1951 §2).
const WINDOW: u8 = 15;

/// Gives `deflater(format, level)`, `inflater(format)`, `brotliEncoder(parameters)` and
/// `brotliDecoder()`: functions of bytes, whether they are the last, and the most bytes to return.
/// They return bytes, or what is wrong: a text, or a number, that of the most bytes or of Brotli's
/// error, which is negative. Formats are `gzip`, `zlib` and `raw`.
pub(super) fn define<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let deflater = move |ctx: Ctx<'js>, format: String, level: u32| {
        let level = Compression::new(level.min(9));
        let codec = Codec::Deflate(match format.as_str() {
            "gzip" => Compress::new_gzip(level, WINDOW),
            format => Compress::new(level, format == "zlib"),
        });
        stepped(ctx, codec, weak.clone())
    };
    native.set("deflater", Function::new(ctx.clone(), deflater)?)?;
    let weak = scripts.clone();
    let inflater = move |ctx: Ctx<'js>, format: String| {
        let codec = Codec::Inflate(inflate(&format), format);
        stepped(ctx, codec, weak.clone())
    };
    native.set("inflater", Function::new(ctx.clone(), inflater)?)?;
    let weak = scripts.clone();
    let encoder = move |ctx: Ctx<'js>, parameters: Vec<List<(u32, u32)>>| {
        let parameters: Vec<_> = parameters.into_iter().map(|List(pair)| pair).collect();
        stepped(ctx, Codec::Brotli(Encoder::new(&parameters)), weak.clone())
    };
    native.set("brotliEncoder", Function::new(ctx.clone(), encoder)?)?;
    let weak = scripts.clone();
    let decoder = move |ctx: Ctx<'js>| stepped(ctx, Codec::Unbrotli(Decoder::new()), weak.clone());
    native.set("brotliDecoder", Function::new(ctx.clone(), decoder)?)
}

fn inflate(format: &str) -> Decompress {
    match format {
        "gzip" => Decompress::new_gzip(WINDOW),
        format => Decompress::new(format == "zlib"),
    }
}

enum Codec {
    Deflate(Compress),
    /// With the format, for the next member of a gzip file.
    Inflate(Decompress, String),
    Brotli(Encoder),
    Unbrotli(Decoder),
}

fn stepped<'js>(ctx: Ctx<'js>, codec: Codec, scripts: Weak<Scripts>) -> Result<Function<'js>> {
    let codec = RefCell::new(codec);
    let step =
        move |ctx: Ctx<'js>, bytes: String, is_last: bool, most: f64| -> Result<JsValue<'js>> {
            let bytes = from_js::bytes(&ctx, &bytes)?;
            let most = limit(most);
            let mut out = Vec::new();
            let done = codec
                .borrow_mut()
                .run(&bytes, is_last, &mut out, |length| {
                    in_time(&scripts, &ctx)?;
                    Ok(length <= most)
                })?;
            match done {
                Ok(()) => ArrayBuffer::new_copy(ctx, out).map(ArrayBuffer::into_value),
                Err(Wrong::Data(message)) => message.into_js(&ctx),
                Err(Wrong::Brotli(number)) => number.into_js(&ctx),
                Err(Wrong::End) => "unexpected end of file".into_js(&ctx),
                Err(Wrong::TooLong) => most.into_js(&ctx),
            }
        };
    Function::new(ctx, step)
}

/// The bytes that may come out of one call where the code asks for this many at most.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
fn limit(asked: f64) -> usize {
    (asked as usize).min(MAX_OUTPUT)
}

impl Codec {
    /// Takes bytes in; `may_go_on` is asked for each piece that comes out.
    fn run(
        &mut self,
        mut bytes: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
        may_go_on: impl Fn(usize) -> Result<bool>,
    ) -> Result<std::result::Result<(), Wrong>> {
        loop {
            out.reserve(PIECE);
            let (status, taken) = match self.step(bytes, is_last, out) {
                Ok(done) => done,
                Err(wrong) => return Ok(Err(wrong)),
            };
            bytes = bytes.get(taken..).unwrap_or_default();
            if !may_go_on(out.len())? {
                return Ok(Err(Wrong::TooLong));
            }
            let is_full = out.len() == out.capacity();
            match status {
                Status::StreamEnd if self.begins_again(bytes) => {}
                Status::StreamEnd => return Ok(Ok(())),
                _ if is_full || !bytes.is_empty() => {}
                _ if is_last => return Ok(Err(Wrong::End)),
                _ => return Ok(Ok(())),
            }
        }
    }

    /// One step, and how many bytes it took.
    fn step(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(Status, usize), Wrong> {
        match self {
            Self::Deflate(deflate) => {
                let flush = if is_last {
                    FlushCompress::Finish
                } else {
                    FlushCompress::None
                };
                let before = deflate.total_in();
                let status = deflate
                    .compress_vec(bytes, out, flush)
                    .map_err(|error| Wrong::Data(error.to_string()))?;
                Ok((status, since(before, deflate.total_in())))
            }
            Self::Inflate(inflate, _) => {
                let before = inflate.total_in();
                let status = inflate
                    .decompress_vec(bytes, out, FlushDecompress::None)
                    .map_err(|error| {
                        Wrong::Data(error.message().unwrap_or("data error").to_owned())
                    })?;
                Ok((status, since(before, inflate.total_in())))
            }
            Self::Brotli(encoder) => encoder.step(bytes, is_last, out),
            Self::Unbrotli(decoder) => decoder.step(bytes, out),
        }
    }

    /// A gzip file may have several members, one after another (RFC 1952 §2.2); zeros behind it are
    /// ignored, as in Node.js.
    fn begins_again(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Inflate(decompress, format)
                if format == "gzip" && bytes.first().is_some_and(|first| *first != 0) =>
            {
                *decompress = inflate(format);
                true
            }
            _ => false,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most what is in memory")]
fn since(before: u64, now: u64) -> usize {
    (now - before) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// All of the output in one call, as `zlib.js` asks for it without `maxOutputLength`.
    fn inflated(bytes: &[u8]) -> std::result::Result<usize, bool> {
        let mut codec = Codec::Inflate(inflate("zlib"), "zlib".to_owned());
        let mut out = Vec::new();
        let done = codec.run(bytes, true, &mut out, |length| {
            Ok(length <= limit(f64::INFINITY))
        });
        match done.unwrap() {
            Ok(()) => Ok(out.len()),
            Err(wrong) => Err(matches!(wrong, Wrong::TooLong)),
        }
    }

    #[test]
    fn a_few_bytes_that_become_too_many_are_refused() {
        let zeros = |length: usize| {
            let mut deflate = Compress::new(Compression::fast(), true);
            let mut bytes = Vec::with_capacity(length / 32);
            let text = vec![0; length];
            deflate
                .compress_vec(&text, &mut bytes, FlushCompress::Finish)
                .unwrap();
            bytes
        };
        assert_eq!(inflated(&zeros(1 << 20)), Ok(1 << 20));
        assert_eq!(inflated(&zeros(MAX_OUTPUT + (1 << 20))), Err(true));
    }
}
