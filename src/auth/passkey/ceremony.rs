//! Checks what a browser and an authenticator return (W3C Web Authentication Level 3 §7.1, §7.2).
//! Pure: no store, no clock.
//!
//! Attestation is not asked for: which make of authenticator a user has is not the gateway's
//! business, and a user who registers a passkey has shown another credential already.

use super::base64url::Base64Url;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use crypto::{constant_time_eq, sha256};
use serde::Deserialize;

/// The algorithms of keys (IANA COSE Algorithms), the preferred one first: `EdDSA`, `ES256`,
/// `RS256`.
pub(super) const ALGORITHMS: [i64; 3] = [-8, -7, -257];

/// Bytes of the id of a credential (Web Authentication §4, "Credential ID").
const MAX_ID: usize = 1023;

/// Bytes of a public key as `SubjectPublicKeyInfo`: more than RSA with 8192 bits has.
const MAX_KEY: usize = 1100;

/// The first bytes of authenticator data: the hash of the relying party's id, flags, counter
/// (§6.1).
const HEAD: usize = 37;

/// Bytes before the length of the id in attested credential data: the AAGUID (§6.5.1).
const AAGUID: usize = 16;

/// §6.1: the user is present.
const PRESENT: u8 = 1;
/// The user is verified.
const VERIFIED: u8 = 1 << 2;
/// The credential may be backed up.
const BACKUP_ELIGIBLE: u8 = 1 << 3;
/// The credential is backed up.
const BACKED_UP: u8 = 1 << 4;
/// Attested credential data follow.
const ATTESTED: u8 = 1 << 6;

/// Why a passkey does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyError {
    /// It is not what a browser returns.
    #[error("malformed")]
    Malformed,
    /// The challenge is unknown, another browser's, expired or used.
    #[error("challenge")]
    Challenge,
    /// The browser answers for another origin, or from within a frame of another one.
    #[error("origin")]
    Origin,
    /// The authenticator answers for another relying party.
    #[error("relying_party")]
    RelyingParty,
    /// The authenticator has not seen the user.
    #[error("user_presence")]
    NotPresent,
    /// The authenticator has not verified the user, where the passkey stands for a password too.
    #[error("user_verification")]
    NotVerified,
    /// There is no such passkey, it is another host's, or it was registered with another password
    /// of the user.
    #[error("unknown")]
    Unknown,
    /// The passkey is another user's.
    #[error("user")]
    User,
    /// The client's address is in none of the user's networks.
    #[error("network")]
    Network,
    /// The signature is wrong.
    #[error("signature")]
    Signature,
    /// The counter has not grown: there may be a copy of the authenticator.
    #[error("counter")]
    Counter,
    /// The key is none of an algorithm that was asked for.
    #[error("key")]
    Key,
}

/// What the response must be for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    /// `webauthn.create` or `webauthn.get`.
    pub(super) kind: &'a str,
    /// The challenge, in base64url.
    pub(super) challenge: &'a str,
    /// The origin of the page.
    pub(super) origin: &'a str,
    /// The id of the relying party.
    pub(super) rp: &'a str,
    /// True if the user must be verified.
    pub(super) verified: bool,
}

/// Client data (§5.8.1).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientData {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
    top_origin: Option<String>,
}

/// Authenticator data that are for us.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AuthenticatorData<'a> {
    /// The signature counter; 0: the authenticator has none.
    pub(super) counter: u32,
    /// The id of the credential that was made.
    pub(super) credential: Option<&'a [u8]>,
}

/// Checks the client data (§7.1 steps 7 to 12, §7.2 steps 10 to 14).
pub(super) fn client_data(text: &[u8], expected: &Expected<'_>) -> Result<(), PasskeyError> {
    let data: ClientData = serde_json::from_slice(text).map_err(|_| PasskeyError::Malformed)?;
    if data.kind != expected.kind {
        return Err(PasskeyError::Malformed);
    }
    if !constant_time_eq(data.challenge.as_bytes(), expected.challenge.as_bytes()) {
        return Err(PasskeyError::Challenge);
    }
    if data.origin != expected.origin || data.cross_origin || data.top_origin.is_some() {
        return Err(PasskeyError::Origin);
    }
    Ok(())
}

/// Checks the authenticator data (§7.1 steps 13 to 17, §7.2 steps 15 to 18).
pub(super) fn authenticator_data<'a>(
    bytes: &'a [u8],
    expected: &Expected<'_>,
) -> Result<AuthenticatorData<'a>, PasskeyError> {
    let malformed = PasskeyError::Malformed;
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or(malformed)?;
    let (rp, head) = head.split_at_checked(32).ok_or(malformed)?;
    let (&flags, counter) = head.split_first().ok_or(malformed)?;
    let counter = counter.try_into().map_err(|_| malformed)?;
    if rp != sha256(expected.rp.as_bytes()) {
        return Err(PasskeyError::RelyingParty);
    }
    if flags & PRESENT == 0 {
        return Err(PasskeyError::NotPresent);
    }
    if flags & VERIFIED == 0 && expected.verified {
        return Err(PasskeyError::NotVerified);
    }
    if flags & (BACKUP_ELIGIBLE | BACKED_UP) == BACKED_UP {
        return Err(malformed);
    }
    let is_attested = flags & ATTESTED != 0;
    let credential = is_attested.then(|| attested(rest).ok_or(malformed));
    Ok(AuthenticatorData {
        counter: u32::from_be_bytes(counter),
        credential: credential.transpose()?,
    })
}

/// The id in attested credential data (§6.5.1).
fn attested(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.get(AAGUID..)?.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    rest.get(..length)
        .filter(|id| !id.is_empty() && id.len() <= MAX_ID)
}

/// Checks the signature of an assertion (§7.2 steps 19 and 20) by a key as `SubjectPublicKeyInfo`.
pub(super) fn signature(
    algorithm: i64,
    key: &[u8],
    authenticator_data: &[u8],
    client_data: &[u8],
    signature: &[u8],
) -> Result<(), PasskeyError> {
    let signed = [authenticator_data, &sha256(client_data)].concat();
    let checked = public_key(algorithm, key)?.verify_sig(&signed, signature);
    checked.map_err(|_| PasskeyError::Signature)
}

/// A public key of an algorithm that was asked for.
pub(super) fn public_key(algorithm: i64, key: &[u8]) -> Result<ParsedPublicKey, PasskeyError> {
    let algorithm: &'static dyn VerificationAlgorithm = match algorithm {
        -8 => &ED25519,
        -7 => &ECDSA_P256_SHA256_ASN1,
        -257 => &RSA_PKCS1_2048_8192_SHA256,
        _ => return Err(PasskeyError::Key),
    };
    let key = Some(key).filter(|key| key.len() <= MAX_KEY);
    let parsed = key.and_then(|key| ParsedPublicKey::new(algorithm, key).ok());
    parsed.ok_or(PasskeyError::Key)
}

/// `AuthenticationResponseJSON` (§5.1.8), without what is not looked at.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// The id of the credential.
    pub(super) raw_id: Base64Url,
    pub(super) response: AssertionResponse,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AssertionResponse {
    #[serde(rename = "clientDataJSON")]
    pub(super) client_data: Base64Url,
    pub(super) authenticator_data: Base64Url,
    pub(super) signature: Base64Url,
    pub(super) user_handle: Option<Base64Url>,
}

/// `RegistrationResponseJSON` (§5.1.8), without what is not looked at.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub(super) raw_id: Base64Url,
    pub(super) response: RegistrationResponse,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RegistrationResponse {
    #[serde(rename = "clientDataJSON")]
    pub(super) client_data: Base64Url,
    pub(super) authenticator_data: Base64Url,
    /// As `SubjectPublicKeyInfo`; the browser makes it of the authenticator's.
    pub(super) public_key: Base64Url,
    pub(super) public_key_algorithm: i64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    };

    const EXPECTED: Expected<'static> = Expected {
        kind: "webauthn.get",
        challenge: "Y2hhbGxlbmdl",
        origin: "https://flows.example",
        rp: "flows.example",
        verified: true,
    };

    fn checked(text: &str) -> Result<(), PasskeyError> {
        client_data(text.as_bytes(), &EXPECTED)
    }

    #[test]
    fn client_data_are_for_this_challenge_and_exactly_this_origin() {
        let data = |challenge: &str, origin: &str, more: &str| {
            format!(
                r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{origin}"{more}}}"#
            )
        };
        let fine = data(EXPECTED.challenge, EXPECTED.origin, "");
        assert_eq!(checked(&fine), Ok(()));
        let more = r#","crossOrigin":false,"other_keys_can_be_added_here":"x""#;
        assert_eq!(
            checked(&data(EXPECTED.challenge, EXPECTED.origin, more)),
            Ok(())
        );
        for challenge in ["", "Y2hhbGxlbmdm", "y2hhbGxlbmdl", "Y2hhbGxlbmdl="] {
            let text = data(challenge, EXPECTED.origin, "");
            assert_eq!(checked(&text), Err(PasskeyError::Challenge), "{challenge}");
        }
        for origin in [
            "https://flows.example.",
            "https://flows.example:8443",
            "https://a.flows.example",
            "http://flows.example",
            "https://flows.example/",
            "https://flows.example.evil",
            "null",
        ] {
            let text = data(EXPECTED.challenge, origin, "");
            assert_eq!(checked(&text), Err(PasskeyError::Origin), "{origin}");
        }
        for more in [
            r#","crossOrigin":true"#,
            r#","topOrigin":"https://evil.example""#,
        ] {
            let text = data(EXPECTED.challenge, EXPECTED.origin, more);
            assert_eq!(checked(&text), Err(PasskeyError::Origin), "{more}");
        }
        let doubled = data(EXPECTED.challenge, EXPECTED.origin, r#","origin":"x""#);
        let create = fine.replace("webauthn.get", "webauthn.create");
        for text in ["", "{}", "[]", doubled.as_str(), create.as_str()] {
            assert_eq!(checked(text), Err(PasskeyError::Malformed), "{text}");
        }
    }

    fn data(rp: &str, flags: u8, more: &[u8]) -> Vec<u8> {
        [&sha256(rp.as_bytes())[..], &[flags], &[0, 0, 1, 2], more].concat()
    }

    #[test]
    fn authenticator_data_are_for_this_relying_party_and_show_the_user() {
        let checked = |bytes: &[u8]| {
            authenticator_data(bytes, &EXPECTED)
                .map(|data| (data.counter, data.credential.is_some()))
        };
        let fine = data("flows.example", PRESENT | VERIFIED, &[]);
        assert_eq!(checked(&fine), Ok((258, false)));
        for (bytes, error) in [
            (
                data("example", PRESENT | VERIFIED, &[]),
                PasskeyError::RelyingParty,
            ),
            (
                data("flows.example", VERIFIED, &[]),
                PasskeyError::NotPresent,
            ),
            (
                data("flows.example", PRESENT, &[]),
                PasskeyError::NotVerified,
            ),
            (
                data("flows.example", PRESENT | VERIFIED | BACKED_UP, &[]),
                PasskeyError::Malformed,
            ),
            (fine[..HEAD - 1].to_vec(), PasskeyError::Malformed),
            (Vec::new(), PasskeyError::Malformed),
        ] {
            assert_eq!(checked(&bytes), Err(error));
        }
        let lenient = Expected {
            verified: false,
            ..EXPECTED
        };
        assert!(authenticator_data(&data("flows.example", PRESENT, &[]), &lenient).is_ok());
    }

    #[test]
    fn the_id_of_a_credential_is_read_within_its_bounds() {
        let flags = PRESENT | VERIFIED | ATTESTED;
        let id = |length: u16, id: &[u8]| {
            let more = [&[0; AAGUID][..], &length.to_be_bytes(), id].concat();
            let bytes = data("flows.example", flags, &more);
            let data = authenticator_data(&bytes, &EXPECTED);
            data.map(|data| data.credential.map(<[u8]>::to_vec))
        };
        assert_eq!(id(2, b"idkey"), Ok(Some(b"id".to_vec())));
        for (length, bytes) in [
            (0, &b"key"[..]),
            (4, b"id"),
            (u16::MAX, b"id"),
            (1024, &[0; 1024]),
        ] {
            assert_eq!(id(length, bytes), Err(PasskeyError::Malformed), "{length}");
        }
    }

    #[test]
    fn signatures_of_each_algorithm_are_checked_by_their_own_key() {
        let random = SystemRandom::new();
        let (data, client) = (&b"authenticator data"[..], &b"client data"[..]);
        let signed = [data, &sha256(client)].concat();
        let ed = Ed25519KeyPair::generate().unwrap();
        let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let mut rsa_signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &random, &signed, &mut rsa_signature)
            .unwrap();
        let der = |der: &[u8]| der.to_vec();
        let all = [
            (
                -8,
                der(ed.public_key().as_der().unwrap().as_ref()),
                ed.sign(&signed).as_ref().to_vec(),
            ),
            (
                -7,
                der(ec.public_key().as_der().unwrap().as_ref()),
                ec.sign(&random, &signed).unwrap().as_ref().to_vec(),
            ),
            (
                -257,
                der(rsa.public_key().as_der().unwrap().as_ref()),
                rsa_signature,
            ),
        ];
        for (algorithm, key, made) in &all {
            let check = |client: &[u8], made: &[u8]| {
                signature(*algorithm, key.as_slice(), data, client, made)
            };
            assert_eq!(check(client, made), Ok(()), "{algorithm}");
            assert_eq!(check(b"other", made), Err(PasskeyError::Signature));
            let mut tampered = made.clone();
            *tampered.last_mut().unwrap() ^= 1;
            assert_eq!(check(client, &tampered), Err(PasskeyError::Signature));
            assert_eq!(check(client, &[]), Err(PasskeyError::Signature));
            for (other, ..) in all.iter().filter(|(other, ..)| other != algorithm) {
                assert!(public_key(*other, key).is_err(), "{other} {algorithm}");
            }
        }
        let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).unwrap();
        let p384 = der(p384.public_key().as_der().unwrap().as_ref());
        assert_eq!(public_key(-7, &p384).err(), Some(PasskeyError::Key));
        for (algorithm, key) in [(-35, &p384[..]), (-7, &[]), (-7, &[0; 2000])] {
            assert_eq!(public_key(algorithm, key).err(), Some(PasskeyError::Key));
        }
    }
}
