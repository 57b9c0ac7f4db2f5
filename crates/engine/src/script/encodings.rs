//! Natives for encodings, which would be slow in JavaScript.

use super::from_js;
use rquickjs::{ArrayBuffer, Ctx, Function, Object as JsObject, Result, String as JsString};

/// Gives the library what it needs for encodings: `utf8(text)` and `base64(text)` make an
/// `ArrayBuffer`, `utf8Text(base64)` a string.
pub(super) fn define(native: &JsObject<'_>) -> Result<()> {
    native.set("utf8", Function::new(native.ctx().clone(), utf8)?)?;
    native.set("base64", Function::new(native.ctx().clone(), base64)?)?;
    native.set("utf8Text", Function::new(native.ctx().clone(), utf8_text)?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn utf8<'js>(ctx: Ctx<'js>, text: JsString<'js>) -> Result<ArrayBuffer<'js>> {
    let text = from_js::text(&ctx, &text)?;
    ArrayBuffer::new_copy(ctx, text.as_bytes())
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn utf8_text(ctx: Ctx<'_>, encoded: String) -> Result<JsString<'_>> {
    let bytes = from_js::bytes(&ctx, &encoded)?;
    JsString::from_str(ctx, &String::from_utf8_lossy(&bytes))
}

/// Node's lenient base64: both alphabets, anything else skipped, the first `=` ends it.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn base64<'js>(ctx: Ctx<'js>, text: JsString<'js>) -> Result<ArrayBuffer<'js>> {
    let text = from_js::text(&ctx, &text)?;
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for c in text.bytes() {
        let sextet = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => continue,
        };
        bits = (bits << 6 | u32::from(sextet)) & 0xfff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    ArrayBuffer::new_copy(ctx, bytes)
}
