//! Signatures, and encryption with RSA (RFC 8017, FIPS 186-5, RFC 8032), by AWS-LC.

use super::keys::{Curve, Key, Kind};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    self, OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OAEP_SHA384_MGF1SHA384,
    OAEP_SHA512_MGF1SHA512, OaepAlgorithm, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RsaEncoding, RsaPssSaltLength,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// The salt of RSASSA-PSS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Salt {
    /// As long as the digest.
    Digest,
    /// As long as the key allows.
    Max,
}

/// How texts are signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheme<'s> {
    /// The digest; empty: the signature has its own.
    pub(super) hash: &'s str,
    /// RSASSA-PSS; `None`: RSASSA-PKCS1-v1_5.
    pub(super) salt: Option<Salt>,
    /// ECDSA as two numbers (IEEE P1363) instead of ASN.1.
    pub(super) is_fixed: bool,
}

/// Why a text is not signed, encrypted or decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// This kind of key does not go with this digest.
    Digest,
    /// This kind of key cannot do it.
    Kind,
    /// The text is longer than the key can encrypt.
    Length,
    /// The text was not encrypted with this key and scheme, or was changed.
    Text,
}

/// The signature of a text.
pub(super) fn sign(key: &Key, scheme: Scheme<'_>, text: &[u8]) -> Result<Vec<u8>, Refused> {
    let private = key.private.as_deref().ok_or(Refused::Kind)?;
    let random = SystemRandom::new();
    match key.kind {
        Kind::Rsa => {
            let encoding = rsa_signing(scheme).ok_or(Refused::Digest)?;
            let pair = rsa::KeyPair::from_pkcs8(private).map_err(|_| Refused::Kind)?;
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(encoding, &random, text, &mut signature)
                .map_err(|_| Refused::Digest)?;
            Ok(signature)
        }
        Kind::Ec(curve) => {
            let algorithm = ecdsa(curve, scheme).ok_or(Refused::Digest)?;
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, private).map_err(|_| Refused::Kind)?;
            let signature = pair.sign(&random, text).map_err(|_| Refused::Digest)?;
            Ok(signature.as_ref().to_vec())
        }
        Kind::Ed25519 if scheme.hash.is_empty() => {
            let pair = Ed25519KeyPair::from_pkcs8(private).map_err(|_| Refused::Kind)?;
            Ok(pair.sign(text).as_ref().to_vec())
        }
        Kind::Ed25519 => Err(Refused::Digest),
    }
}

/// Whether a signature is that of the text.
pub(super) fn verify(
    key: &Key,
    scheme: Scheme<'_>,
    text: &[u8],
    signature: &[u8],
) -> Result<bool, Refused> {
    let algorithm: &'static dyn VerificationAlgorithm = match key.kind {
        Kind::Rsa => rsa_verification(scheme),
        Kind::Ec(curve) => ecdsa(curve, scheme).map(|a| &**a as _),
        Kind::Ed25519 if scheme.hash.is_empty() => Some(&signature::ED25519 as _),
        Kind::Ed25519 => None,
    }
    .ok_or(Refused::Digest)?;
    let key = UnparsedPublicKey::new(algorithm, &key.public);
    Ok(key.verify(text, signature).is_ok())
}

fn rsa_signing(scheme: Scheme<'_>) -> Option<&'static dyn RsaEncoding> {
    const MAX: RsaPssSaltLength = RsaPssSaltLength::Max;
    Some(match (scheme.hash, scheme.salt) {
        ("sha256", None) => &signature::RSA_PKCS1_SHA256,
        ("sha384", None) => &signature::RSA_PKCS1_SHA384,
        ("sha512", None) => &signature::RSA_PKCS1_SHA512,
        ("sha256", Some(Salt::Digest)) => &signature::RSA_PSS_SHA256,
        ("sha384", Some(Salt::Digest)) => &signature::RSA_PSS_SHA384,
        ("sha512", Some(Salt::Digest)) => &signature::RSA_PSS_SHA512,
        ("sha256", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_SHA256.with_pss_salt_length(MAX) }
        }
        ("sha384", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_SHA384.with_pss_salt_length(MAX) }
        }
        ("sha512", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_SHA512.with_pss_salt_length(MAX) }
        }
        _ => return None,
    })
}

fn rsa_verification(scheme: Scheme<'_>) -> Option<&'static dyn VerificationAlgorithm> {
    const MAX: RsaPssSaltLength = RsaPssSaltLength::Max;
    Some(match (scheme.hash, scheme.salt) {
        ("sha1", None) => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        ("sha256", None) => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        ("sha384", None) => &signature::RSA_PKCS1_2048_8192_SHA384,
        ("sha512", None) => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        ("sha256", Some(Salt::Digest)) => &signature::RSA_PSS_2048_8192_SHA256,
        ("sha384", Some(Salt::Digest)) => &signature::RSA_PSS_2048_8192_SHA384,
        ("sha512", Some(Salt::Digest)) => &signature::RSA_PSS_2048_8192_SHA512,
        ("sha256", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_2048_8192_SHA256.with_pss_salt_length(MAX) }
        }
        ("sha384", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_2048_8192_SHA384.with_pss_salt_length(MAX) }
        }
        ("sha512", Some(Salt::Max)) => {
            &const { signature::RSA_PSS_2048_8192_SHA512.with_pss_salt_length(MAX) }
        }
        _ => return None,
    })
}

/// The digests that AWS-LC has for a curve, for signatures in both forms.
fn ecdsa(curve: Curve, scheme: Scheme<'_>) -> Option<&'static EcdsaSigningAlgorithm> {
    let [asn1, fixed] = match (curve, scheme.hash) {
        (Curve::P256, "sha256") => [
            &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        ],
        (Curve::P384, "sha384") => [
            &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
            &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        ],
        (Curve::P521, "sha256") => [
            &signature::ECDSA_P521_SHA256_ASN1_SIGNING,
            &signature::ECDSA_P521_SHA256_FIXED_SIGNING,
        ],
        (Curve::P521, "sha384") => [
            &signature::ECDSA_P521_SHA384_ASN1_SIGNING,
            &signature::ECDSA_P521_SHA384_FIXED_SIGNING,
        ],
        (Curve::P521, "sha512") => [
            &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
            &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
        ],
        (Curve::Secp256k1, "sha256") => [
            &signature::ECDSA_P256K1_SHA256_ASN1_SIGNING,
            &signature::ECDSA_P256K1_SHA256_FIXED_SIGNING,
        ],
        _ => return None,
    };
    Some(if scheme.is_fixed { fixed } else { asn1 })
}

/// How a text is encrypted with RSA.
pub(super) enum Padding {
    Oaep {
        /// That of the mask too.
        hash: String,
        label: Vec<u8>,
    },
    Pkcs1,
}

/// Encrypts a text with RSA.
pub(super) fn encrypt(key: &Key, padding: &Padding, text: &[u8]) -> Result<Vec<u8>, Refused> {
    let public = PublicEncryptingKey::from_der(&key.public).map_err(|_| Refused::Kind)?;
    let mut out = vec![0; public.key_size_bytes()];
    let done = match padding {
        Padding::Oaep { hash, label } => {
            let algorithm = oaep(hash).ok_or(Refused::Digest)?;
            let key = OaepPublicEncryptingKey::new(public).map_err(|_| Refused::Kind)?;
            key.encrypt(algorithm, text, &mut out, Some(label))
                .map(drop)
        }
        Padding::Pkcs1 => {
            let key = Pkcs1PublicEncryptingKey::new(public).map_err(|_| Refused::Kind)?;
            key.encrypt(text, &mut out).map(drop)
        }
    };
    done.map(|()| out).map_err(|_| Refused::Length)
}

/// Decrypts a text with RSA and OAEP. Not with PKCS #1 v1.5: its errors would give texts away
/// (CVE-2023-46809).
pub(super) fn decrypt(
    key: &Key,
    hash: &str,
    label: &[u8],
    text: &[u8],
) -> Result<Vec<u8>, Refused> {
    let algorithm = oaep(hash).ok_or(Refused::Digest)?;
    let private = key.private.as_deref().ok_or(Refused::Kind)?;
    let private = PrivateDecryptingKey::from_pkcs8(private).map_err(|_| Refused::Kind)?;
    let key = OaepPrivateDecryptingKey::new(private).map_err(|_| Refused::Kind)?;
    let mut out = vec![0; key.min_output_size()];
    let plain = key
        .decrypt(algorithm, text, &mut out, Some(label))
        .map_err(|_| Refused::Text)?;
    Ok(plain.to_vec())
}

fn oaep(hash: &str) -> Option<&'static OaepAlgorithm> {
    Some(match hash {
        "sha1" => &OAEP_SHA1_MGF1SHA1,
        "sha256" => &OAEP_SHA256_MGF1SHA256,
        "sha384" => &OAEP_SHA384_MGF1SHA384,
        "sha512" => &OAEP_SHA512_MGF1SHA512,
        _ => return None,
    })
}
