//! `flows_cred.json` and its secret, as Node-RED keeps them (docs/reference/node-red-engine.md
//! §2.7).
//!
//! The file is `{"$": "…"}`: 16 random bytes in hexadecimal, then Base64 of the JSON in
//! AES-256-CTR, whose key is the SHA-256 of the secret. There is no authentication: a wrong secret
//! shows as text that is no JSON. A file without encryption is read too.

use super::{Error, directory::Directory};
use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use base64::{Engine, prelude::BASE64_STANDARD};
use crypto::{Secret, hex, random, sha256, unhex};
use flows::Credentials;
use serde_json::{Map, Value, json, ser::PrettyFormatter};
use zeroize::Zeroizing;

/// The file in which Node-RED keeps its generated secret, among other things.
pub(super) const RUNTIME_SETTINGS: &str = ".config.runtime.json";
const GENERATED: &str = "_credentialSecret";
/// One AES block: NIST SP 800-38A, 6.5.
const IV_BYTES: usize = 16;

/// The content of a credentials file that could be read.
#[derive(Debug, PartialEq)]
pub(super) struct Opened {
    pub(super) credentials: Credentials,
    /// Encrypted with the first secret, the one that new files are encrypted with.
    pub(super) current: bool,
}

/// Reads a credentials file with the first secret that fits; `None` if none does, or if it is no
/// such file.
pub(super) fn open(file: &[u8], secrets: &[Secret]) -> Option<Opened> {
    let file: Map<String, Value> = serde_json::from_slice(file).ok()?;
    let Some(sealed) = file.get("$") else {
        return parse(Value::Object(file)).map(|credentials| Opened {
            credentials,
            current: false,
        });
    };
    let (iv, text) = sealed.as_str()?.split_at_checked(2 * IV_BYTES)?;
    let iv = unhex(iv)?;
    let text = BASE64_STANDARD.decode(text).ok()?;
    secrets.iter().enumerate().find_map(|(position, secret)| {
        let json = decrypt(text.clone(), iv, secret)?;
        parse(serde_json::from_slice(&json).ok()?).map(|credentials| Opened {
            credentials,
            current: position == 0,
        })
    })
}

/// The credentials file, encrypted under a new random IV.
pub(super) fn seal(credentials: &Credentials, secret: &Secret) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(&credentials.nodes).map_err(|error| cannot_encrypt(&error))?;
    let iv = random::<IV_BYTES>();
    let text = encrypt(json, iv, secret).ok_or_else(|| cannot_encrypt(&"the cipher refused"))?;
    let sealed = format!("{}{}", hex(&iv), BASE64_STANDARD.encode(text));
    Ok(json!({ "$": sealed }).to_string().into_bytes())
}

/// The secrets that may open a file: the configured one, then the one that Node-RED or we made. The
/// first one encrypts.
pub(super) fn secrets(
    directory: &Directory,
    configured: Option<&Secret>,
) -> Result<Vec<Secret>, Error> {
    let generated = match runtime_settings(directory)?.remove(GENERATED) {
        Some(Value::String(secret)) => Some(Secret::new(secret)),
        _ => None,
    };
    Ok(configured.cloned().into_iter().chain(generated).collect())
}

/// Makes a secret as Node-RED does, 64 hexadecimal digits, and keeps it where Node-RED keeps it,
/// beside what is there.
pub(super) fn make_secret(directory: &Directory) -> Result<Secret, Error> {
    let mut settings = runtime_settings(directory)?;
    let secret = Secret::new(hex(&random::<32>()));
    settings.insert(GENERATED.into(), secret.reveal().into());
    let mut text = Zeroizing::new(Vec::new());
    let mut writer =
        serde_json::Serializer::with_formatter(&mut *text, PrettyFormatter::with_indent(b"    "));
    serde::Serialize::serialize(&settings, &mut writer)
        .map_err(|error| invalid(RUNTIME_SETTINGS, &error))?;
    directory.replace(RUNTIME_SETTINGS, &text)?;
    Ok(secret)
}

fn runtime_settings(directory: &Directory) -> Result<Map<String, Value>, Error> {
    match directory.read(RUNTIME_SETTINGS)? {
        None => Ok(Map::new()),
        // serde's own messages quote values, and one of these is the secret.
        Some(text) => serde_json::from_slice(&text).map_err(|error| {
            let place = format!(
                "no JSON object: line {}, column {}",
                error.line(),
                error.column()
            );
            invalid(RUNTIME_SETTINGS, &place)
        }),
    }
}

fn parse(json: Value) -> Option<Credentials> {
    serde_json::from_value(json)
        .ok()
        .map(|nodes| Credentials { nodes })
}

fn encrypt(mut text: Vec<u8>, iv: [u8; IV_BYTES], secret: &Secret) -> Option<Vec<u8>> {
    let key = EncryptingKey::ctr(key(secret)?).ok()?;
    key.less_safe_encrypt(&mut text, EncryptionContext::Iv128(FixedLength::from(&iv)))
        .ok()?;
    Some(text)
}

fn decrypt(mut text: Vec<u8>, iv: [u8; IV_BYTES], secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let key = DecryptingKey::ctr(key(secret)?).ok()?;
    key.decrypt(&mut text, DecryptionContext::Iv128(FixedLength::from(&iv)))
        .ok()?;
    Some(Zeroizing::new(text))
}

fn key(secret: &Secret) -> Option<UnboundCipherKey> {
    UnboundCipherKey::new(&AES_256, &sha256(secret.reveal().as_bytes())).ok()
}

fn cannot_encrypt(reason: &dyn std::fmt::Display) -> Error {
    invalid("credentials", reason)
}

fn invalid(what: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::Invalid {
        what: what.into(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const NODE_RED_FILE: &[u8] =
        include_bytes!("../../tests/fixtures/node-red-4.1/flows_cred.json");
    const NODE_RED_SETTINGS: &str =
        include_str!("../../tests/fixtures/node-red-4.1/.config.runtime.json");

    fn credentials(json: Value) -> Credentials {
        parse(json).unwrap()
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    fn directory(settings: Option<&str>) -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        if let Some(settings) = settings {
            std::fs::write(place.path().join(RUNTIME_SETTINGS), settings).unwrap();
        }
        let directory = Directory::open(place.path()).unwrap();
        (place, directory)
    }

    #[test]
    fn a_node_red_file_is_read_with_node_reds_generated_secret() {
        let (_place, directory) = directory(Some(NODE_RED_SETTINGS));
        let opened = open(NODE_RED_FILE, &secrets(&directory, None).unwrap()).unwrap();
        assert!(opened.current);
        assert_eq!(
            opened.credentials,
            credentials(json!({
                "n1": {"user": "jürgen", "password": "s3cret \"quoted\""},
                "b1": {"user": "mq", "password": "pä55"},
            }))
        );
    }

    #[test]
    fn openssl_decrypts_the_encrypted_credentials() {
        let file = seal(
            &credentials(json!({"n": {"k": "ü"}})),
            &secret("correct horse"),
        )
        .unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let (iv, text) = file["$"].as_str().unwrap().split_at(32);
        let key = hex(&sha256(b"correct horse"));
        let started = Command::new("openssl")
            .args([
                "enc",
                "-d",
                "-aes-256-ctr",
                "-A",
                "-base64",
                "-K",
                &key,
                "-iv",
                iv,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut openssl) = started else {
            eprintln!("openssl is not on this machine: not compared");
            return;
        };
        openssl
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = openssl.wait_with_output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            r#"{"n":{"k":"ü"}}"#
        );
    }

    #[test]
    fn the_same_credentials_are_encrypted_differently_each_time() {
        let same = credentials(json!({"n": {"k": "v"}}));
        assert_ne!(
            seal(&same, &secret("s")).unwrap(),
            seal(&same, &secret("s")).unwrap()
        );
    }

    #[test]
    fn a_file_without_encryption_is_read_and_is_not_current() {
        let opened = open(br#"{"n":{"k":"v"}}"#, &[secret("s")]).unwrap();
        assert_eq!(opened.credentials, credentials(json!({"n": {"k": "v"}})));
        assert!(!opened.current);
    }

    #[test]
    fn a_file_of_the_generated_secret_is_outdated_once_another_is_configured() {
        let (_place, directory) = directory(Some(NODE_RED_SETTINGS));
        let known = secrets(&directory, Some(&secret("configured"))).unwrap();
        assert_eq!(known[0].reveal(), "configured");
        assert!(!open(NODE_RED_FILE, &known).unwrap().current);
    }

    #[test]
    fn a_wrong_secret_or_a_torn_file_decrypts_nothing() {
        assert_eq!(open(NODE_RED_FILE, &[secret("wrong")]), None);
        assert_eq!(open(NODE_RED_FILE, &[]), None);
        for broken in [
            "",
            "[]",
            "{",
            r#"{"$":1}"#,
            r#"{"$":"abc"}"#,
            r#"{"$":"zz"}"#,
            r#"{"n":"no object"}"#,
        ] {
            assert_eq!(open(broken.as_bytes(), &[secret("s")]), None, "{broken}");
        }
        let torn = format!(r#"{{"$":"{}ü!"}}"#, "g".repeat(31));
        assert_eq!(open(torn.as_bytes(), &[secret("s")]), None);
    }

    #[test]
    fn a_generated_secret_has_64_digits_and_keeps_the_other_settings() {
        let (place, directory) = directory(Some(r#"{"instanceId":"1","runtimeFlowState":"stop"}"#));
        let made = make_secret(&directory).unwrap();
        assert_eq!(made.reveal().len(), 64);
        assert_eq!(
            secrets(&directory, None).unwrap()[0].reveal(),
            made.reveal()
        );
        let text = std::fs::read_to_string(place.path().join(RUNTIME_SETTINGS)).unwrap();
        assert!(
            text.starts_with(
                "{\n    \"instanceId\": \"1\",\n    \"runtimeFlowState\": \"stop\",\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn broken_runtime_settings_are_named_and_not_overwritten() {
        let (place, directory) = directory(Some("{"));
        assert!(
            matches!(secrets(&directory, None), Err(Error::Invalid { what, .. }) if what == RUNTIME_SETTINGS)
        );
        assert!(make_secret(&directory).is_err());
        assert_eq!(
            std::fs::read_to_string(place.path().join(RUNTIME_SETTINGS)).unwrap(),
            "{"
        );
    }
}
