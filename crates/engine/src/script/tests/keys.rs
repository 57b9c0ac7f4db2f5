//! Tests the keys and signatures of the module `crypto`, against Node.js itself.

use super::modules::{importing, installed};
use super::*;
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Makes pairs, exports them, signs and encrypts; the payload is JSON.
const MAKE: &str = r"
    const kinds = { rsa: ['rsa', { modulusLength: 2048 }], ed25519: ['ed25519'] };
    for (const namedCurve of ['P-256', 'secp384r1', 'secp521r1', 'secp256k1']) kinds[namedCurve] = ['ec', { namedCurve }];
    const hashes = { secp384r1: 'sha384', secp521r1: 'sha512', ed25519: null };
    const made = {};
    for (const [name, given] of Object.entries(kinds)) {
        const { publicKey, privateKey } = m.generateKeyPairSync(...given);
        const own = name === 'rsa' ? 'pkcs1' : 'sec1', hash = hashes[name] === undefined ? 'sha256' : hashes[name];
        const texts = { pkcs8: privateKey.export({ type: 'pkcs8', format: 'pem' }) };
        if (name !== 'ed25519') texts.own = privateKey.export({ type: own, format: 'pem' });
        const schemes = name === 'rsa' ? [{}, { padding: 6 }, { padding: 6, saltLength: -1 }] : name === 'ed25519' ? [{}] : [{}, { dsaEncoding: 'ieee-p1363' }];
        made[name] = {
            hash, texts, public: publicKey.export({ type: 'spki', format: 'pem' }), details: publicKey.asymmetricKeyDetails.namedCurve,
            signed: schemes.map(scheme => [scheme, m.sign(hash, Buffer.from('a text'), { key: privateKey, ...scheme }).toString('base64')]),
        };
        if (name === 'rsa') {
            made[name].encrypted = [{}, { oaepHash: 'sha256', oaepLabel: 'label' }, { padding: 1 }].map(padding =>
                [padding, m.publicEncrypt({ key: publicKey, ...padding }, Buffer.from('secret')).toString('base64')]);
        }
    }
    return JSON.stringify(made);";

/// In either: verifies and decrypts all of it with each form of its key, and answers what does not
/// fit.
const CHECK: &str = r"
    const wrong = [];
    for (const [name, { hash, texts, public: pem, signed, encrypted = [] }] of Object.entries(JSON.parse(made))) {
        for (const [scheme, signature] of signed) {
            for (const key of [pem, texts.pkcs8, texts.own ?? pem, m.createPublicKey(m.createPrivateKey(texts.pkcs8))]) {
                for (const [text, expected] of [['a text', true], ['another', false]]) {
                    const given = { key, ...scheme }, bytes = Buffer.from(signature, 'base64');
                    if (m.verify(hash, Buffer.from(text), given, bytes) !== expected) wrong.push([name, scheme, text]);
                    if (hash && m.createVerify(hash).update(text).verify(given, bytes) !== expected) wrong.push([name, scheme, text, 'createVerify']);
                }
            }
        }
        for (const [padding, text] of encrypted) {
            if (padding.padding === 1) continue;
            const plain = m.privateDecrypt({ key: texts.own, ...padding }, Buffer.from(text, 'base64')).toString();
            if (plain !== 'secret') wrong.push([name, padding, plain]);
        }
    }
    return wrong.length + JSON.stringify(wrong);";

fn node(code: &str) -> String {
    let out = Command::new("node").args(["-e", code]).output().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// What a function returns that has the module as `m`; it may take 30 seconds.
fn here(body: &str) -> String {
    let data = installed(&[]);
    let scripts = Scripts::new(&Settings {
        script_timeout: Duration::from_secs(30),
        modules: data.path().to_owned(),
        ..Settings::default()
    })
    .unwrap();
    let import = crate::script::Import {
        var: "m".into(),
        module: "crypto".into(),
    };
    let code = Code {
        function: format!("msg.payload = (() => {{{body}}})(); return msg").into(),
        imports: Box::new([import]),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(&scripts, code);
    assert!(sandbox.start().is_empty());
    match sandbox.call(message(1.0)).first() {
        Some(Effect::Pass(message)) => message.get("payload").as_str().unwrap_or("").to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn keys_signatures_and_secrets_are_exchanged_with_node_js() {
    let ours = here(MAKE);
    assert!(ours.starts_with('{'), "{ours}");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &ours).unwrap();
    let prologue = format!(
        "const m = require('crypto'), made = require('fs').readFileSync({:?}, 'utf8');",
        file.path()
    );
    let checked = node(&format!(
        "{prologue} process.stdout.write((() => {{{CHECK}}})())"
    ));
    assert_eq!(checked, "0[]");

    let theirs = node(&format!(
        "const m = require('crypto'); process.stdout.write((() => {{{MAKE}}})())"
    ));
    let quoted = serde_json::to_string(&theirs).unwrap();
    assert_eq!(here(&format!("const made = {quoted}; {CHECK}")), "0[]");
}

#[test]
fn keys_that_do_not_fit_are_errors_with_the_codes_of_node_js() {
    let tried = |expression: &str| {
        here(&format!(
            "const rsa = m.generateKeyPairSync('rsa', {{ modulusLength: 2048 }});
             const ec = m.generateKeyPairSync('ec', {{ namedCurve: 'P-256' }}), ed = m.generateKeyPairSync('ed25519');
             try {{ return String({expression}) }} catch (e) {{ return e.name + ' ' + e.code + ' ' + e.message }}"
        ))
    };
    for (expression, expected) in [
        (
            "m.sign('sha256', Buffer.from('x'), rsa.publicKey)",
            "TypeError ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE Invalid key object type public, expected private.",
        ),
        (
            "m.sign('foo', Buffer.from('x'), rsa.privateKey)",
            "TypeError ERR_CRYPTO_INVALID_DIGEST Invalid digest: foo",
        ),
        (
            "m.sign('sha256', Buffer.from('x'), ed.privateKey)",
            "Error ERR_OSSL_INVALID_DIGEST error:1C80007A:Provider routines::invalid digest",
        ),
        (
            "m.privateDecrypt(rsa.privateKey, Buffer.alloc(256))",
            "Error ERR_OSSL_RSA_OAEP_DECODING_ERROR error:02000079:rsa routines::oaep decoding error",
        ),
        (
            "m.privateDecrypt({ key: rsa.privateKey, padding: 1 }, Buffer.alloc(256))",
            "TypeError ERR_INVALID_ARG_VALUE RSA_PKCS1_PADDING is no longer supported for private decryption",
        ),
        (
            "m.publicEncrypt(rsa.publicKey, Buffer.alloc(300))",
            "Error ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE error:0200006E:rsa routines::data too large for key size",
        ),
        (
            "m.publicEncrypt(ec.publicKey, Buffer.alloc(3))",
            "Error ERR_OSSL_EVP_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE error:03000096:digital envelope routines::operation not supported for this keytype",
        ),
        (
            "m.verify('sha256', Buffer.from('x'), rsa.publicKey, Buffer.from('y'))",
            "false",
        ),
    ] {
        assert_eq!(tried(expression), expected, "{expression}");
    }
}

#[test]
fn a_key_that_takes_long_ends_with_the_time_limit_of_its_function() {
    let data = installed(&[]);
    let code = Code {
        function: "for (;;) m.generateKeyPairSync('rsa', { modulusLength: 4096 })".into(),
        ..Code::default()
    };
    let (mut sandbox, started) = importing(data.path(), "crypto", code);
    assert!(started.is_empty(), "{started:?}");
    let began = Instant::now();
    let effects = sandbox.call(message(1.0));
    assert!(
        matches!(&effects[..], [Effect::Error(failure, _)] if failure.to_string().contains("timed out")),
        "{effects:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_key_is_generated_while_other_code_runs() {
    let data = installed(&[]);
    let code = Code {
        function: "m.generateKeyPair('rsa', { modulusLength: 2048 }, (error, key) => node.send({ payload: error ?? key.asymmetricKeyType }))".into(),
        outputs: 1,
        ..Code::default()
    };
    let (mut sandbox, _) = importing(data.path(), "crypto", code);
    let mut effects = sandbox.call(message(1.0));
    loop {
        if let Some(Effect::Send(sent)) = effects.iter().find(|e| matches!(e, Effect::Send(_))) {
            assert_eq!(sent[0].1.get("payload").as_str(), Some("rsa"));
            return;
        }
        let timer = effects.iter().find_map(|effect| match effect {
            Effect::SetTimer(number, _) => Some(*number),
            _ => None,
        });
        let number = timer.unwrap_or_else(|| panic!("{effects:?}"));
        std::thread::yield_now();
        effects = sandbox.timer(number);
    }
}
