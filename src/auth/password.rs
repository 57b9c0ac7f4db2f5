//! Passwords: argon2id and bcrypt hashes, read and checked; the hash of a new one.
//!
//! Knows no user. Takes as long as a hash is meant to take, so never call `verify` on a thread that
//! serves others.

use argon2::password_hash::phc::PasswordHash;
use argon2::{
    ARGON2ID_IDENT, Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version,
};
use crypto::{Secret, random};

/// Argon2id's cost: 19 MiB, 2 passes, 1 lane. OWASP Password Storage Cheat Sheet, first
/// recommendation.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The most that a configured hash may cost, so that a slip in the config (`$2b$31$` takes days)
/// cannot hold a thread for good: 1 GiB and 16 passes, or bcrypt's cost 18 (some 15 s).
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_PASSES: u32 = 16;
const MAX_BCRYPT_COST: u32 = 18;

/// The recommended minimum of memory times passes of an argon2id hash, KiB (OWASP Password Storage
/// Cheat Sheet: 7 MiB, 5 passes); and of bcrypt's cost.
const LEAST_WORK_KIB: u32 = 7 * 1024 * 5;
const LEAST_BCRYPT_COST: u32 = 10;

/// The characters of a generated password: none looks like another. 32 of them: 5 bits each.
const READABLE: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A password's hash, as the config holds it.
#[derive(Debug)]
pub(super) enum Password {
    /// Argon2id, with its own parameters.
    Argon2id(Box<PasswordHash>),
    /// Bcrypt, as Node-RED makes them.
    Bcrypt(Secret),
    /// Not a hash that we can check: no sign-in succeeds with it, but trying takes as long as an
    /// argon2id hash.
    Unusable,
}

impl Password {
    /// Reads a hash: an argon2id PHC string or bcrypt (`$2a$`, `$2b$`, `$2y$`).
    pub(super) fn parse(hash: &Secret) -> Self {
        let text = hash.reveal();
        if text.starts_with("$argon2id$") {
            parse_argon2id(text)
        } else {
            parse_bcrypt(text)
        }
        .unwrap_or(Self::Unusable)
    }

    /// Returns whether it is easier to guess from its hash than it should be today.
    pub(super) fn is_weak(&self) -> bool {
        match self {
            Self::Argon2id(hash) => Params::try_from(&**hash)
                .is_ok_and(|params| params.m_cost() * params.t_cost() < LEAST_WORK_KIB),
            Self::Bcrypt(hash) => {
                let parts = hash.reveal().parse::<bcrypt::HashParts>();
                parts.is_ok_and(|parts| parts.get_cost() < LEAST_BCRYPT_COST)
            }
            Self::Unusable => false,
        }
    }

    /// Returns whether this is the password. Bcrypt looks at the first 72 bytes only, here as
    /// everywhere.
    pub(super) fn verify(&self, password: &Secret) -> bool {
        let bytes = password.reveal().as_bytes();
        match self {
            Self::Argon2id(hash) => Argon2::default().verify_password(bytes, &**hash).is_ok(),
            Self::Bcrypt(hash) => bcrypt::verify(bytes, hash.reveal()).unwrap_or(false),
            Self::Unusable => {
                let mut wasted = [0; Params::DEFAULT_OUTPUT_LEN];
                let _ = costly().hash_password_into(bytes, &[0; 16], &mut wasted);
                false
            }
        }
    }
}

fn parse_argon2id(text: &str) -> Option<Password> {
    let hash = PasswordHash::new(text).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let version = hash
        .version
        .map_or(Ok(Version::default()), Version::try_from);
    let usable = hash.algorithm == ARGON2ID_IDENT
        && version.is_ok()
        && hash.salt.is_some()
        && hash.hash.is_some()
        && params.m_cost() <= MAX_MEMORY_KIB
        && params.t_cost() <= MAX_PASSES;
    usable.then(|| Password::Argon2id(Box::new(hash)))
}

fn parse_bcrypt(text: &str) -> Option<Password> {
    let known = ["$2a$", "$2b$", "$2y$"]
        .iter()
        .any(|prefix| text.starts_with(prefix));
    let cost = text.parse::<bcrypt::HashParts>().ok()?.get_cost();
    // bcrypt's own least cost is 4
    (known && (4..=MAX_BCRYPT_COST).contains(&cost))
        .then(|| Password::Bcrypt(Secret::new(text.into())))
}

/// A password could not be hashed: argon2 lacks memory (19 MiB), as salt and parameters are valid.
#[derive(Debug, thiserror::Error)]
#[error("the password cannot be hashed: {0}")]
pub struct HashError(argon2::password_hash::Error);

/// The argon2id hash of a password, as PHC string.
pub fn hash_password(password: &Secret) -> Result<Secret, HashError> {
    phc(&costly(), password)
}

/// A random password and its hash, for the `admin` of a first start.
///
/// 26 characters of 5 bits: 130 bits. Stretching protects passwords that can be guessed; 130 random
/// bits cannot, so the hash is argon2id at its cheapest (RFC 9106 §3.1) and does not delay the
/// start. The first sign-in replaces it.
pub(super) fn generate() -> Result<(Secret, Secret), HashError> {
    let password = random::<26>()
        .iter()
        .map(|byte| char::from(READABLE[usize::from(byte % 32)]))
        .collect();
    let password = Secret::new(password);
    let hash = phc(
        &argon2id(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST),
        &password,
    )?;
    Ok((password, hash))
}

fn costly() -> Argon2<'static> {
    argon2id(MEMORY_KIB, PASSES, LANES)
}

fn argon2id(memory: u32, passes: u32, lanes: u32) -> Argon2<'static> {
    // never the default: all calls are above, with numbers in bounds
    let params = Params::new(memory, passes, lanes, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn phc(argon2: &Argon2<'_>, password: &Secret) -> Result<Secret, HashError> {
    let salt = random::<16>();
    let hash = argon2.hash_password_with_salt(password.reveal().as_bytes(), &salt);
    Ok(Secret::new(hash.map_err(HashError)?.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    fn accepts(hash: &str, password: &str) -> bool {
        Password::parse(&secret(hash)).verify(&secret(password))
    }

    #[test]
    fn a_new_hash_is_argon2id_with_the_cost_of_owasp_and_accepts_its_password_only() {
        let hash = hash_password(&secret("pass word ")).unwrap();
        assert!(
            hash.reveal().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{}",
            hash.reveal()
        );
        assert!(accepts(hash.reveal(), "pass word "));
        assert!(!accepts(hash.reveal(), "pass word"), "nothing is trimmed");
        assert!(!accepts(hash.reveal(), ""));
        assert_ne!(
            hash.reveal(),
            hash_password(&secret("pass word ")).unwrap().reveal(),
            "each has its own salt"
        );
    }

    #[test]
    fn an_argon2id_hash_made_elsewhere_is_accepted_with_its_own_parameters() {
        // the reference implementation's test vector (phc-winner-argon2, test.c)
        let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert!(accepts(hash, "password"));
        assert!(!accepts(hash, "Password"));
    }

    #[test]
    fn bcrypt_hashes_of_node_red_are_accepted_in_all_three_spellings() {
        // the test vector of John the Ripper and crypt_blowfish for $2a$; the three spellings mean
        // the same here
        let rest = "05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        for version in ["$2a$", "$2b$", "$2y$"] {
            assert!(accepts(&format!("{version}{rest}"), "U*U"), "{version}");
            assert!(!accepts(&format!("{version}{rest}"), "U*V"), "{version}");
        }
        assert!(!accepts(&format!("$2x${rest}"), "U*U"));
    }

    #[test]
    fn an_invalid_hash_accepts_no_password() {
        let damaged = [
            "",
            "secret",
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ",
            "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=18$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
            "$2b$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
            "$2b$05$short",
        ];
        for hash in damaged {
            let password = Password::parse(&secret(hash));
            assert!(matches!(password, Password::Unusable), "{hash}");
            assert!(!password.verify(&secret("secret")), "{hash}");
        }
    }

    #[test]
    fn a_generated_password_is_readable_and_matches_its_hash() {
        let (password, hash) = generate().unwrap();
        assert_eq!(password.reveal().len(), 26);
        assert!(
            password
                .reveal()
                .bytes()
                .all(|byte| READABLE.contains(&byte))
        );
        assert!(accepts(hash.reveal(), password.reveal()));
        assert_ne!(password.reveal(), generate().unwrap().0.reveal());
    }

    #[test]
    fn a_hash_below_the_owasp_recommendation_is_weak() {
        let weak = |hash: &str| Password::parse(&secret(hash)).is_weak();
        let rest = "c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        for (cost, expected) in [
            ("m=19456,t=2,p=1", false),
            ("m=7168,t=5,p=1", false),
            ("m=19456,t=1,p=1", true),
        ] {
            assert_eq!(weak(&format!("$argon2id$v=19${cost}${rest}")), expected);
        }
        let rest = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        assert!(weak(&format!("$2b$08${rest}")) && !weak(&format!("$2b$10${rest}")));
        assert!(
            weak(generate().unwrap().1.reveal())
                && !weak(hash_password(&secret("x")).unwrap().reveal())
        );
    }

    #[test]
    fn a_password_does_not_print() {
        let bcrypt = Password::parse(&secret(
            "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
        ));
        assert_eq!(format!("{bcrypt:?}"), "Bcrypt(***)");
    }
}
