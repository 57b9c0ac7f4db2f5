//! Keys of public-key cryptography: reads, writes and generates them. AWS-LC checks each key that
//! is read.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, Ed25519KeyPair, KeyPair,
    ParsedPublicKey,
};
use pkcs8::der::asn1::UintRef;
use pkcs8::der::{Decode, Reader, SliceReader};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Kdf;
use pkcs8::spki::SubjectPublicKeyInfoRef;
use pkcs8::{EncryptedPrivateKeyInfoRef, ObjectIdentifier, PrivateKeyInfoRef};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const SECP256K1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.10");

/// The work that a passphrase may take, in which no other flow runs: rounds of PBKDF2 or scrypt's N
/// × r × p, some half a second of either. OpenSSL's default is 2,048 rounds, OWASP's advice
/// 600,000.
const MAX_WORK: u64 = 1 << 20;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rsa,
    Ec(Curve),
    Ed25519,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
    Secp256k1,
}

impl Curve {
    /// By OpenSSL's name, or NIST's.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "P-256" | "prime256v1" | "secp256r1" => Self::P256,
            "P-384" | "secp384r1" => Self::P384,
            "P-521" | "secp521r1" => Self::P521,
            "secp256k1" => Self::Secp256k1,
            _ => return None,
        })
    }

    /// OpenSSL's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::P256 => "prime256v1",
            Self::P384 => "secp384r1",
            Self::P521 => "secp521r1",
            Self::Secp256k1 => "secp256k1",
        }
    }

    const ALL: [Self; 4] = [Self::P256, Self::P384, Self::P521, Self::Secp256k1];

    /// Signatures in ASN.1 with the curve's usual digest.
    fn algorithm(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::P256 => &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            Self::P384 => &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
            Self::P521 => &signature::ECDSA_P521_SHA512_ASN1_SIGNING,
            Self::Secp256k1 => &signature::ECDSA_P256K1_SHA256_ASN1_SIGNING,
        }
    }
}

impl Kind {
    fn of(algorithm: ObjectIdentifier, curve: Option<ObjectIdentifier>) -> Option<Self> {
        Some(match (algorithm, curve) {
            (RSA, _) => Self::Rsa,
            (ED25519, _) => Self::Ed25519,
            (EC, Some(P256)) => Self::Ec(Curve::P256),
            (EC, Some(P384)) => Self::Ec(Curve::P384),
            (EC, Some(P521)) => Self::Ec(Curve::P521),
            (EC, Some(SECP256K1)) => Self::Ec(Curve::Secp256k1),
            _ => return None,
        })
    }
}

/// Why a key cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Its structure is wrong, or it is of a kind that is not supported.
    Key,
    /// It is encrypted, and there is no passphrase.
    Locked,
    /// The passphrase is wrong, or would take too long.
    Passphrase,
}

/// A public key, or a pair.
pub(super) struct Key {
    pub(super) kind: Kind,
    /// PKCS #8 (RFC 5208); `None`: the key is public.
    pub(super) private: Option<Vec<u8>>,
    /// `SubjectPublicKeyInfo` (RFC 5280).
    pub(super) public: Vec<u8>,
}

impl Key {
    /// Reads a key in DER, whose structure has the label that it has in PEM (RFC 7468, RFC 5915,
    /// RFC 8017).
    pub(super) fn read(
        label: &str,
        der: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<Self, Unreadable> {
        let key = match label {
            "PRIVATE KEY" => Self::of_pkcs8(der),
            "ENCRYPTED PRIVATE KEY" => Self::of_pkcs8(&decrypted(der, passphrase)?),
            "RSA PRIVATE KEY" => rsa::KeyPair::from_der(der).ok().and_then(|p| rsa_pair(&p)),
            "EC PRIVATE KEY" => Curve::ALL.into_iter().find_map(|curve| {
                let pair = EcdsaKeyPair::from_private_key_der(curve.algorithm(), der).ok()?;
                ec_pair(curve, &pair)
            }),
            "PUBLIC KEY" => Self::of_spki(der),
            "RSA PUBLIC KEY" => rsa::PublicKey::from_der(der).ok().and_then(|key| {
                let spki: PublicKeyX509Der<'_> = key.as_der().ok()?;
                Self::of_spki(spki.as_ref())
            }),
            "CERTIFICATE" => x509_parser::parse_x509_certificate(der)
                .ok()
                .and_then(|(_, certificate)| Self::of_spki(certificate.public_key().raw)),
            _ => None,
        };
        key.ok_or(Unreadable::Key)
    }

    fn of_pkcs8(der: &[u8]) -> Option<Self> {
        let info = PrivateKeyInfoRef::try_from(der).ok()?;
        match Kind::of(info.algorithm.oid, info.algorithm.parameters_oid().ok())? {
            Kind::Rsa => rsa_pair(&rsa::KeyPair::from_pkcs8(der).ok()?),
            Kind::Ec(curve) => ec_pair(
                curve,
                &EcdsaKeyPair::from_pkcs8(curve.algorithm(), der).ok()?,
            ),
            Kind::Ed25519 => ed25519_pair(&Ed25519KeyPair::from_pkcs8(der).ok()?),
        }
    }

    fn of_spki(der: &[u8]) -> Option<Self> {
        let info = SubjectPublicKeyInfoRef::try_from(der).ok()?;
        let kind = Kind::of(info.algorithm.oid, info.algorithm.parameters_oid().ok())?;
        let public: PublicKeyX509Der<'_> = match kind {
            Kind::Rsa => rsa::PublicKey::from_der(der).ok()?.as_der(),
            Kind::Ec(curve) => {
                let algorithm: &EcdsaVerificationAlgorithm = curve.algorithm();
                ParsedPublicKey::new(algorithm, der).ok()?.as_der()
            }
            Kind::Ed25519 => ParsedPublicKey::new(&signature::ED25519, der)
                .ok()?
                .as_der(),
        }
        .ok()?;
        Some(Self {
            kind,
            private: None,
            public: public.as_ref().to_vec(),
        })
    }

    /// A new pair. One of RSA takes a tenth of a second to some seconds.
    pub(super) fn generate(kind: Kind, bits: KeySize) -> Option<Self> {
        match kind {
            Kind::Rsa => rsa_pair(&rsa::KeyPair::generate(bits).ok()?),
            Kind::Ec(curve) => ec_pair(curve, &EcdsaKeyPair::generate(curve.algorithm()).ok()?),
            Kind::Ed25519 => ed25519_pair(&Ed25519KeyPair::generate().ok()?),
        }
    }

    /// The key in the structure that has this label in PEM; `None`: it has no such form.
    pub(super) fn written(&self, label: &str) -> Option<Vec<u8>> {
        let private = || PrivateKeyInfoRef::try_from(self.private.as_deref()?).ok();
        match (label, self.kind) {
            ("PRIVATE KEY", _) => self.private.clone(),
            ("PUBLIC KEY", _) => Some(self.public.clone()),
            ("RSA PRIVATE KEY", Kind::Rsa) => Some(private()?.private_key.as_bytes().to_vec()),
            ("RSA PUBLIC KEY", Kind::Rsa) => self.public_bits(),
            ("EC PRIVATE KEY", Kind::Ec(curve)) => {
                let pkcs8 = self.private.as_deref()?;
                let pair = EcdsaKeyPair::from_pkcs8(curve.algorithm(), pkcs8).ok()?;
                let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().ok()?;
                Some(der.as_ref().to_vec())
            }
            _ => None,
        }
    }

    fn public_bits(&self) -> Option<Vec<u8>> {
        let info = SubjectPublicKeyInfoRef::try_from(self.public.as_slice()).ok()?;
        Some(info.subject_public_key.raw_bytes().to_vec())
    }

    /// The modulus and the exponent of a key of RSA, without zeros in front.
    pub(super) fn rsa_numbers(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let bits = self.public_bits().filter(|_| self.kind == Kind::Rsa)?;
        let numbers = SliceReader::new(&bits).ok()?.sequence(|reader| {
            let (modulus, exponent) = (UintRef::decode(reader)?, UintRef::decode(reader)?);
            pkcs8::der::Result::Ok((modulus.as_bytes().to_vec(), exponent.as_bytes().to_vec()))
        });
        numbers.ok()
    }
}

/// The PKCS #8 in an encrypted one (RFC 5958).
fn decrypted(der: &[u8], passphrase: Option<&[u8]>) -> Result<Vec<u8>, Unreadable> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der).map_err(|_| Unreadable::Key)?;
    let passphrase = passphrase.ok_or(Unreadable::Locked)?;
    let EncryptionScheme::Pbes2(parameters) = &encrypted.encryption_algorithm else {
        return Err(Unreadable::Key);
    };
    let work = match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) => u64::from(pbkdf2.iteration_count),
        Kdf::Scrypt(scrypt) => scrypt
            .cost_parameter
            .saturating_mul(u64::from(scrypt.block_size))
            .saturating_mul(u64::from(scrypt.parallelization)),
        _ => return Err(Unreadable::Key),
    };
    if work > MAX_WORK {
        return Err(Unreadable::Passphrase);
    }
    let plain = encrypted
        .decrypt(passphrase)
        .map_err(|_| Unreadable::Passphrase)?;
    Ok(plain.as_bytes().to_vec())
}

fn rsa_pair(pair: &rsa::KeyPair) -> Option<Key> {
    let private: Pkcs8V1Der<'_> = pair.as_der().ok()?;
    pair_of(Kind::Rsa, private.as_ref(), pair.public_key())
}

fn ec_pair(curve: Curve, pair: &EcdsaKeyPair) -> Option<Key> {
    let private = pair.to_pkcs8v1().ok()?;
    pair_of(Kind::Ec(curve), private.as_ref(), pair.public_key())
}

fn ed25519_pair(pair: &Ed25519KeyPair) -> Option<Key> {
    let private: Pkcs8V1Der<'_> = pair.as_der().ok()?;
    pair_of(Kind::Ed25519, private.as_ref(), pair.public_key())
}

fn pair_of(
    kind: Kind,
    private: &[u8],
    public: &impl AsDer<PublicKeyX509Der<'static>>,
) -> Option<Key> {
    Some(Key {
        kind,
        private: Some(private.to_vec()),
        public: public.as_der().ok()?.as_ref().to_vec(),
    })
}
