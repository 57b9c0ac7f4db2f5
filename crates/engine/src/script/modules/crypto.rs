//! Digests, ciphers, derived keys and random bytes for `lib/modules/crypto.js`. Bytes come as
//! base64 and go as an `ArrayBuffer`.

use super::super::{Scripts, from_js};
use super::cipher::{self, Cipher, Refused};
use super::in_time;
use aws_lc_rs::{constant_time, digest, hmac, rand};
use md5::{Digest as _, Md5};
use rquickjs::convert::List;
use rquickjs::function::Opt;
use rquickjs::{
    Array, ArrayBuffer, Ctx, Exception, Function, IntoJs, Object as JsObject, Result,
    Value as JsValue,
};
use std::cell::RefCell;
use std::rc::Weak;

/// The maximum number of random bytes per call; more take several calls, and the time limit is
/// checked in between.
const RANDOM: usize = 64 * 1024;
/// So many rounds of PBKDF2 go by between two looks at the clock: some milliseconds.
const ROUNDS: u32 = 4096;
/// The most that scrypt may do at once, N × r × p: some 128 MiB and half a second, in which its
/// time limit is not checked. Node.js' defaults take an eighth of it.
const SCRYPT: u64 = 1 << 20;

/// Gives `hasher(algorithm)`, `pbkdf2({ algorithm, secret, salt, rounds, length })`,
/// `random(length)`, `areEqual(a, b)`, `scrypt({ … })`, `cipherKind(name)` and
/// `cipher(name, encrypts, key, iv)`.
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
    native.set("pbkdf2", Function::new(ctx.clone(), pbkdf2)?)?;
    native.set("scrypt", Function::new(ctx.clone(), derived_by_scrypt)?)?;
    native.set("cipherKind", Function::new(ctx.clone(), cipher_kind)?)?;
    let weak = scripts.clone();
    let cipher = move |ctx: Ctx<'js>, name: String, encrypts: bool, key: String, iv: String| {
        let (key, iv) = (from_js::bytes(&ctx, &key)?, from_js::bytes(&ctx, &iv)?);
        match Cipher::new(&name, encrypts, &key, &iv) {
            Some(Ok(cipher)) => stepped(ctx, cipher, weak.clone()).map(Function::into_value),
            Some(Err(refused)) => refusal(&ctx, refused),
            None => Ok(JsValue::new_undefined(ctx)),
        }
    };
    native.set("cipher", Function::new(ctx.clone(), cipher)?)
}

/// The lengths of key and initialization vector of a cipher, and its mode.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn cipher_kind(name: String) -> Option<List<(usize, usize, &'static str)>> {
    cipher::kind(&name).map(List)
}

/// A cipher as a function of a step and its bytes: `update`, `header`, `unpadded` and, with the tag
/// that is expected, `final`, which returns the rest and the tag, or a word for what is wrong.
fn stepped<'js>(ctx: Ctx<'js>, cipher: Cipher, scripts: Weak<Scripts>) -> Result<Function<'js>> {
    let cipher = RefCell::new(cipher);
    let step = move |ctx: Ctx<'js>, step: String, bytes: Opt<String>| {
        in_time(&scripts, &ctx)?;
        let bytes = bytes.0.map(|bytes| from_js::bytes(&ctx, &bytes));
        let bytes = bytes.transpose()?;
        let mut cipher = cipher.borrow_mut();
        match step.as_str() {
            "update" => {
                let out = cipher.update(bytes.as_deref().unwrap_or_default());
                ArrayBuffer::new_copy(ctx, out).map(ArrayBuffer::into_value)
            }
            "header" => {
                let done = cipher.authenticate(bytes.as_deref().unwrap_or_default());
                Ok(JsValue::new_bool(ctx, done))
            }
            "unpadded" => {
                cipher.pads = false;
                Ok(JsValue::new_undefined(ctx))
            }
            _ => match cipher.finish(bytes.as_deref()) {
                Ok((rest, tag)) => {
                    let parts = Array::new(ctx.clone())?;
                    parts.set(0, ArrayBuffer::new_copy(ctx.clone(), rest)?)?;
                    if let Some(tag) = tag {
                        parts.set(1, ArrayBuffer::new_copy(ctx, tag)?)?;
                    }
                    Ok(parts.into_value())
                }
                Err(refused) => refusal(&ctx, refused),
            },
        }
    };
    Function::new(ctx, step)
}

fn refusal<'js>(ctx: &Ctx<'js>, refused: Refused) -> Result<JsValue<'js>> {
    let word = match refused {
        Refused::Key => "key",
        Refused::Iv => "iv",
        Refused::Padding => "padding",
        Refused::Length => "length",
        Refused::Tag => "tag",
    };
    word.into_js(ctx)
}

/// scrypt (RFC 7914) of `{ secret, salt, cost, size, parallel, length }`; `undefined`: the
/// parameters are wrong.
#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn derived_by_scrypt<'js>(ctx: Ctx<'js>, asked: JsObject<'js>) -> Result<Option<ArrayBuffer<'js>>> {
    let cost: u64 = asked.get("cost")?;
    let (size, parallel) = (asked.get("size")?, asked.get("parallel")?);
    let steps = cost
        .saturating_mul(u64::from(size))
        .saturating_mul(u64::from(parallel));
    if !cost.is_power_of_two() || cost < 2 || steps > SCRYPT {
        return Ok(None);
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
    let Ok(params) = scrypt::Params::new(cost.ilog2() as u8, size, parallel) else {
        return Ok(None);
    };
    let secret = from_js::bytes(&ctx, &asked.get::<_, String>("secret")?)?;
    let salt = from_js::bytes(&ctx, &asked.get::<_, String>("salt")?)?;
    let mut derived = vec![0; asked.get("length")?];
    // No bytes are refused; they need no work.
    let done = derived.is_empty() || scrypt::scrypt(&secret, &salt, &params, &mut derived).is_ok();
    done.then(|| ArrayBuffer::new_copy(ctx, derived))
        .transpose()
}

/// Computes one block of PBKDF2 (RFC 8018 §5.2). The engine's own, as a library's cannot be stopped
/// at the time limit.
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

/// A function that takes bytes and, called with none, answers the digest of all that it has got;
/// `undefined` if the algorithm is unknown.
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
