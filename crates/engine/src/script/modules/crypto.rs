//! Digests and random bytes for `lib/modules/crypto.js`. Bytes come as base64 and go as an `ArrayBuffer`.

use super::super::{Scripts, from_js};
use super::in_time;
use aws_lc_rs::{constant_time, digest, hmac, rand};
use md5::{Digest as _, Md5};
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Ctx, Exception, Function, Object as JsObject, Result};
use std::cell::RefCell;
use std::rc::Weak;

/// The maximum number of random bytes per call; more take several calls, and the time limit is checked in between.
const RANDOM: usize = 64 * 1024;
/// So many rounds of PBKDF2 go by between two looks at the clock: some milliseconds.
const ROUNDS: u32 = 4096;

/// Gives `hasher(algorithm)`, `pbkdf2({ algorithm, secret, salt, rounds, length })`, `random(length)` and `areEqual(a,
/// b)`.
pub(super) fn define<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    let weak = scripts.clone();
    let hasher = move |ctx: Ctx<'js>, algorithm: String| hasher(ctx, &algorithm, weak.clone());
    native.set("hasher", Function::new(ctx.clone(), hasher)?)?;
    native.set("random", Function::new(ctx.clone(), random)?)?;
    native.set("areEqual", Function::new(ctx.clone(), are_equal)?)?;
    let weak = scripts.clone();
    let pbkdf2 = move |ctx: Ctx<'js>, asked: JsObject<'js>| {
        let algorithm = match asked.get::<_, String>("algorithm")?.as_str() {
            "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            "sha224" => hmac::HMAC_SHA224,
            "sha256" => hmac::HMAC_SHA256,
            "sha384" => hmac::HMAC_SHA384,
            "sha512" => hmac::HMAC_SHA512,
            _ => return Ok(None),
        };
        let secret = from_js::bytes(&ctx, &asked.get::<_, String>("secret")?)?;
        let salt = from_js::bytes(&ctx, &asked.get::<_, String>("salt")?)?;
        let (rounds, length) = (asked.get("rounds")?, asked.get("length")?);
        let key = hmac::Key::new(algorithm, &secret);
        let mut derived = Vec::new();
        for block in 1u32.. {
            if derived.len() >= length {
                break;
            }
            in_time(&weak, &ctx)?;
            let seed = [&salt[..], &block.to_be_bytes()].concat();
            derived.extend(derived_block(&key, &seed, rounds, || in_time(&weak, &ctx))?);
        }
        derived.truncate(length);
        ArrayBuffer::new_copy(ctx, derived).map(Some)
    };
    native.set("pbkdf2", Function::new(ctx.clone(), pbkdf2)?)
}

/// Computes one block of PBKDF2 (RFC 8018 §5.2). The engine's own, as a library's cannot be stopped at the time limit.
fn derived_block(
    key: &hmac::Key,
    seed: &[u8],
    rounds: u32,
    in_time: impl Fn() -> Result<()>,
) -> Result<Vec<u8>> {
    let mut last = hmac::sign(key, seed);
    let mut block = last.as_ref().to_vec();
    for round in 1..rounds {
        if round % ROUNDS == 0 {
            in_time()?;
        }
        last = hmac::sign(key, last.as_ref());
        block
            .iter_mut()
            .zip(last.as_ref())
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    Ok(block)
}

/// A digest that grows.
enum Hash {
    Md5(Md5),
    Sha(digest::Context),
}

impl Hash {
    fn of(algorithm: &str) -> Option<Self> {
        let sha = match algorithm {
            "md5" => return Some(Self::Md5(Md5::new())),
            "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            "sha224" => &digest::SHA224,
            "sha256" => &digest::SHA256,
            "sha384" => &digest::SHA384,
            "sha512" => &digest::SHA512,
            "sha512-256" => &digest::SHA512_256,
            _ => return None,
        };
        Some(Self::Sha(digest::Context::new(sha)))
    }
}

/// A function that takes bytes and, called with none, answers the digest of all that it has got; `undefined` if the
/// algorithm is unknown.
fn hasher<'js>(
    ctx: Ctx<'js>,
    algorithm: &str,
    scripts: Weak<Scripts>,
) -> Result<Option<Function<'js>>> {
    let Some(hash) = Hash::of(algorithm) else {
        return Ok(None);
    };
    let hash = RefCell::new(Some(hash));
    let take = move |ctx: Ctx<'js>, added: Opt<String>| {
        in_time(&scripts, &ctx)?;
        if let Some(added) = added.0 {
            let added = from_js::bytes(&ctx, &added)?;
            match hash.borrow_mut().as_mut() {
                Some(Hash::Md5(hash)) => hash.update(&added),
                Some(Hash::Sha(hash)) => hash.update(&added),
                None => {}
            }
            return Ok(None);
        }
        match hash.take() {
            Some(Hash::Md5(hash)) => ArrayBuffer::new_copy(ctx, hash.finalize()).map(Some),
            Some(Hash::Sha(hash)) => ArrayBuffer::new_copy(ctx, hash.finish()).map(Some),
            None => Ok(None),
        }
    };
    Function::new(ctx, take).map(Some)
}

fn random(ctx: Ctx<'_>, length: usize) -> Result<ArrayBuffer<'_>> {
    let mut bytes = vec![0; length.min(RANDOM)];
    rand::fill(&mut bytes).map_err(|_| Exception::throw_internal(&ctx, "no random bytes"))?;
    ArrayBuffer::new_copy(ctx, bytes)
}

/// Whether bytes of one length are the same, compared in constant time.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn are_equal(ctx: Ctx<'_>, a: String, b: String) -> Result<bool> {
    let (a, b) = (from_js::bytes(&ctx, &a)?, from_js::bytes(&ctx, &b)?);
    Ok(constant_time::verify_slices_are_equal(&a, &b).is_ok())
}
