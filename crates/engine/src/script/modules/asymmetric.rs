//! Public-key cryptography for `lib/modules/keys.js`. Bytes come as base64 and go as an
//! `ArrayBuffer`.

use super::super::{Scripts, from_js};
use super::in_time;
use super::keys::{Curve, Key, Kind, Unreadable};
use super::signing::{self, Padding, Refused, Salt, Scheme};
use aws_lc_rs::rsa::KeySize;
use rquickjs::{ArrayBuffer, Ctx, Function, IntoJs, Object as JsObject, Result, Value as JsValue};
use std::cell::RefCell;
use std::rc::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Keys that are generated at a time, each on a thread: one of 4096 bits takes seconds, and goes on
/// when the function that wants it was stopped.
const GENERATORS: usize = 2;
static GENERATING: AtomicUsize = AtomicUsize::new(0);

/// How long one look at a key that is being generated lasts.
const LOOK: Duration = Duration::from_millis(5);

/// Gives `readKey(label, der, passphrase)`, `writeKey(key, label)`,
/// `generateKey({ kind, bits, curve })`, and `signText(key, scheme, text)`,
/// `verifyText(key, scheme, text, signature)`, `encryptRsa(key, padding, text)` and
/// `decryptRsa(key, padding, text)`. Keys are `{ isPrivate, der }`. What cannot be done is a word.
pub(super) fn define<'js>(native: &JsObject<'js>, scripts: &Weak<Scripts>) -> Result<()> {
    let ctx = native.ctx();
    native.set("readKey", Function::new(ctx.clone(), read)?)?;
    native.set("writeKey", Function::new(ctx.clone(), write)?)?;
    native.set("signText", Function::new(ctx.clone(), sign)?)?;
    native.set("verifyText", Function::new(ctx.clone(), verify)?)?;
    native.set("encryptRsa", Function::new(ctx.clone(), encrypt)?)?;
    native.set("decryptRsa", Function::new(ctx.clone(), decrypt)?)?;
    let weak = scripts.clone();
    let generate = move |ctx: Ctx<'js>, asked: JsObject<'js>| generator(ctx, &asked, weak.clone());
    native.set("generateKey", Function::new(ctx.clone(), generate)?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn read(
    ctx: Ctx<'_>,
    label: String,
    der: String,
    passphrase: Option<String>,
) -> Result<JsValue<'_>> {
    let der = from_js::bytes(&ctx, &der)?;
    let passphrase = passphrase.map(|text| from_js::bytes(&ctx, &text));
    match Key::read(&label, &der, passphrase.transpose()?.as_deref()) {
        Ok(key) => shown(&ctx, &key),
        Err(Unreadable::Key) => "key".into_js(&ctx),
        Err(Unreadable::Locked) => "locked".into_js(&ctx),
        Err(Unreadable::Passphrase) => "passphrase".into_js(&ctx),
    }
}

/// `{ kind, curve, modulus, exponent, private, public }`.
fn shown<'js>(ctx: &Ctx<'js>, key: &Key) -> Result<JsValue<'js>> {
    let facts = JsObject::new(ctx.clone())?;
    match key.kind {
        Kind::Rsa => facts.set("kind", "rsa")?,
        Kind::Ed25519 => facts.set("kind", "ed25519")?,
        Kind::Ec(curve) => {
            facts.set("kind", "ec")?;
            facts.set("curve", curve.name())?;
        }
    }
    if let Some((modulus, exponent)) = key.rsa_numbers() {
        facts.set("modulus", ArrayBuffer::new_copy(ctx.clone(), modulus)?)?;
        facts.set("exponent", ArrayBuffer::new_copy(ctx.clone(), exponent)?)?;
    }
    if let Some(private) = &key.private {
        facts.set("private", ArrayBuffer::new_copy(ctx.clone(), private)?)?;
    }
    facts.set("public", ArrayBuffer::new_copy(ctx.clone(), &key.public)?)?;
    Ok(facts.into_value())
}

/// A key as `{ isPrivate, der }`.
fn key_of(ctx: &Ctx<'_>, given: &JsObject<'_>) -> Result<std::result::Result<Key, Unreadable>> {
    let der = from_js::bytes(ctx, &given.get::<_, String>("der")?)?;
    let label = if given.get("isPrivate")? {
        "PRIVATE KEY"
    } else {
        "PUBLIC KEY"
    };
    Ok(Key::read(label, &der, None))
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn write<'js>(
    ctx: Ctx<'js>,
    key: JsObject<'js>,
    label: String,
) -> Result<Option<ArrayBuffer<'js>>> {
    let key = key_of(&ctx, &key)?;
    let der = key.ok().and_then(|key| key.written(&label));
    der.map(|der| ArrayBuffer::new_copy(ctx, der)).transpose()
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn sign<'js>(
    ctx: Ctx<'js>,
    key: JsObject<'js>,
    scheme: JsObject<'js>,
    text: String,
) -> Result<JsValue<'js>> {
    let hash: String = scheme.get("hash")?;
    let scheme = scheme_of(&scheme, &hash)?;
    let signed = using(&ctx, &key, &text, |key, text| {
        signing::sign(key, scheme, text)
    });
    bytes_or_word(ctx, signed?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn verify<'js>(
    ctx: Ctx<'js>,
    key: JsObject<'js>,
    scheme: JsObject<'js>,
    text: String,
    signature: String,
) -> Result<JsValue<'js>> {
    let signature = from_js::bytes(&ctx, &signature)?;
    let hash: String = scheme.get("hash")?;
    let scheme = scheme_of(&scheme, &hash)?;
    let verified = using(&ctx, &key, &text, |key, text| {
        signing::verify(key, scheme, text, &signature)
    });
    match verified? {
        Ok(is_right) => is_right.into_js(&ctx),
        Err(refused) => word(refused).into_js(&ctx),
    }
}

/// Does something with a key and the bytes of a text.
fn using<T>(
    ctx: &Ctx<'_>,
    key: &JsObject<'_>,
    text: &str,
    act: impl FnOnce(&Key, &[u8]) -> std::result::Result<T, Refused>,
) -> Result<std::result::Result<T, Refused>> {
    let text = from_js::bytes(ctx, text)?;
    let key = key_of(ctx, key)?.map_err(|_| Refused::Kind);
    Ok(key.and_then(|key| act(&key, &text)))
}

/// `{ hash, salt, isFixed }`; the salt is `digest` or `max`, or there is none.
fn scheme_of<'s>(given: &JsObject<'_>, hash: &'s str) -> Result<Scheme<'s>> {
    let salt: Option<String> = given.get("salt")?;
    Ok(Scheme {
        hash,
        salt: salt.map(|salt| match salt.as_str() {
            "digest" => Salt::Digest,
            _ => Salt::Max,
        }),
        is_fixed: given.get("isFixed")?,
    })
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn encrypt<'js>(
    ctx: Ctx<'js>,
    key: JsObject<'js>,
    padding: JsObject<'js>,
    text: String,
) -> Result<JsValue<'js>> {
    let hash: Option<String> = padding.get("hash")?;
    let padding = match hash {
        Some(hash) => Padding::Oaep {
            hash,
            label: from_js::bytes(&ctx, &padding.get::<_, String>("label")?)?.to_vec(),
        },
        None => Padding::Pkcs1,
    };
    let encrypted = using(&ctx, &key, &text, |key, text| {
        signing::encrypt(key, &padding, text)
    });
    bytes_or_word(ctx, encrypted?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn decrypt<'js>(
    ctx: Ctx<'js>,
    key: JsObject<'js>,
    padding: JsObject<'js>,
    text: String,
) -> Result<JsValue<'js>> {
    let hash: String = padding.get("hash")?;
    let label = from_js::bytes(&ctx, &padding.get::<_, String>("label")?)?;
    let decrypted = using(&ctx, &key, &text, |key, text| {
        signing::decrypt(key, &hash, &label, text)
    });
    bytes_or_word(ctx, decrypted?)
}

fn bytes_or_word(ctx: Ctx<'_>, done: std::result::Result<Vec<u8>, Refused>) -> Result<JsValue<'_>> {
    match done {
        Ok(bytes) => ArrayBuffer::new_copy(ctx, bytes).map(ArrayBuffer::into_value),
        Err(refused) => word(refused).into_js(&ctx),
    }
}

fn word(refused: Refused) -> &'static str {
    match refused {
        Refused::Digest => "digest",
        Refused::Kind => "kind",
        Refused::Length => "length",
        Refused::Text => "text",
    }
}

/// A function that gives the pair once it is there, `undefined` before; it waits for a moment if it
/// is asked to.
fn generator<'js>(
    ctx: Ctx<'js>,
    asked: &JsObject<'js>,
    scripts: Weak<Scripts>,
) -> Result<JsValue<'js>> {
    let kind = match asked.get::<_, String>("kind")?.as_str() {
        "rsa" => Some(Kind::Rsa),
        "ec" => Curve::named(&asked.get::<_, String>("curve")?).map(Kind::Ec),
        _ => Some(Kind::Ed25519),
    };
    let bits = match asked.get("bits")? {
        2048 => KeySize::Rsa2048,
        3072 => KeySize::Rsa3072,
        _ => KeySize::Rsa4096,
    };
    let Some(kind) = kind else {
        return "curve".into_js(&ctx);
    };
    let begun: RefCell<Option<Receiver<Option<Key>>>> = RefCell::default();
    let look = move |ctx: Ctx<'js>, waits: bool| {
        in_time(&scripts, &ctx)?;
        if begun.borrow().is_none() {
            begun.replace(begin(kind, bits));
        }
        let wait = if waits { LOOK } else { Duration::ZERO };
        let came = if let Some(pair) = &*begun.borrow() {
            pair.recv_timeout(wait)
        } else {
            rest(wait);
            Err(RecvTimeoutError::Timeout)
        };
        match came {
            Ok(Some(key)) => shown(&ctx, &key),
            Err(RecvTimeoutError::Timeout) => Ok(JsValue::new_undefined(ctx)),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => "failed".into_js(&ctx),
        }
    };
    Function::new(ctx, look).map(Function::into_value)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a function that waits for its key runs, within its time limit"
)]
fn rest(time: Duration) {
    thread::sleep(time);
}

/// Begins to generate a pair; `None`: as many as may are under way.
fn begin(kind: Kind, bits: KeySize) -> Option<Receiver<Option<Key>>> {
    let free = |n: usize| (n < GENERATORS).then_some(n + 1);
    GENERATING
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
        .ok()?;
    let (sender, receiver) = sync_channel(1);
    let begun = thread::Builder::new()
        .name("generate-key".to_owned())
        .spawn(move || {
            // A function that was stopped does not wait for it any more.
            let _ = sender.send(Key::generate(kind, bits));
            GENERATING.fetch_sub(1, Ordering::Relaxed);
        });
    if begun.is_err() {
        GENERATING.fetch_sub(1, Ordering::Relaxed);
    }
    Some(receiver)
}
