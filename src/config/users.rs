//! `[[auth.user]]`: accounts, each with a name, a way to be known, and permissions.
//!
//! Knows how they are spelled, and that no two are the same; never checks a password.

use super::error::SpannedError;
use super::rate_limit::rate_limit;
use super::setting::{Source, Span};
use super::{CertificateName, User, networks, password_hash as hash, raw, route, tls};
use crypto::{Secret, unhex};
use data_encoding::BASE32_NOPAD;
use std::sync::Arc;
use toml::Spanned;

/// The prefix of names that logs show instead of the names of unknown users.
pub const UNKNOWN_USER: &str = "unknown:";

/// A second factor: codes of an authenticator app, and recovery codes.
#[derive(Debug)]
pub struct Totp {
    /// The secret in base32.
    pub secret: Secret,
    /// The SHA-256 of the recovery codes.
    pub recovery_codes: Vec<[u8; 32]>,
}

/// All of them. `asked`: whether clients are asked for certificates.
pub(super) fn users(
    raw: Vec<Spanned<raw::User>>,
    asked: bool,
    source: &Source<'_>,
) -> Result<Vec<User>, SpannedError> {
    let mut users: Vec<User> = Vec::new();
    for table in raw {
        let span = table.span();
        let user = user(table, asked, source)?;
        if users.iter().any(|other| other.name == user.name) {
            return Err(SpannedError::rule(
                span,
                format!("there are two users named \"{}\"", user.name),
            ));
        }
        let shared = user.certificates.iter().find_map(|name| {
            let other = users.iter().find(|other| other.certificates.contains(name));
            Some((name, other?))
        });
        if let Some((name, other)) = shared {
            let (one, two) = (&other.name, &user.name);
            let sentence = format!("the certificate {name} is both {one}'s and {two}'s");
            return Err(SpannedError::rule(span, sentence));
        }
        users.push(user);
    }
    Ok(users)
}

fn user(table: Spanned<raw::User>, asked: bool, source: &Source<'_>) -> Result<User, SpannedError> {
    let span = table.span();
    let raw = table.into_inner();
    let Some(name) = raw.name else {
        return Err(SpannedError::rule(span, "a user needs a name"));
    };
    let name = source.parsed(
        &name,
        "a name, not empty, without control characters, and not beginning with \"token:\", \"jwt:\" or \"oidc:\", as those of service tokens, JWTs and users of providers do, nor with \"unknown:\", as logs call users who do not exist",
        |text| {
            let plain = !text.is_empty() && !text.contains(char::is_control);
            let reserved = ["token:", "jwt:", "oidc:", UNKNOWN_USER];
            let reserved = reserved.iter().any(|prefix| text.starts_with(prefix));
            (plain && !reserved).then(|| text.to_owned())
        },
    )?;
    let certificates = certificates(raw.certificates, asked, source)?;
    let secret = source.secret(raw.password_hash, raw.password_hash_file)?;
    if secret.is_none() && certificates.is_empty() {
        return Err(SpannedError::rule(
            span,
            format!(
                "user \"{name}\" needs a password_hash or a password_hash_file, or certificates"
            ),
        ));
    }
    let password_hash = secret.map(|(hash, place)| password_hash(&name, hash, place));
    let secret = source.secret(raw.totp_secret, raw.totp_secret_file)?;
    let totp = totp(secret, raw.recovery_codes, source)?;
    let Some(permissions) = source.list(raw.permissions, route::PERMISSION, route::permission)?
    else {
        return Err(SpannedError::rule(
            span,
            format!("user \"{name}\" needs permissions, such as [\"*\"] or [\"read\"]"),
        ));
    };
    Ok(User {
        name,
        password_hash: password_hash.transpose()?,
        certificates,
        permissions,
        totp,
        networks: networks::allowed(raw.networks, source)?,
        rate_limit: rate_limit(raw.rate_limit, source)?,
    })
}

/// The second factor; its secret has 128 bits at least (RFC 4226 §4).
fn totp(
    secret: Option<(Secret, Span)>,
    recovery_codes: raw::List,
    source: &Source<'_>,
) -> Result<Option<Arc<Totp>>, SpannedError> {
    let span = recovery_codes.as_ref().map(Spanned::span);
    let expected = "the SHA-256 of a recovery code, as `flowgate totp` prints it";
    let recovery_codes = source.list(recovery_codes, expected, unhex)?;
    let Some((secret, place)) = secret else {
        return span.map_or(Ok(None), |span| {
            let sentence = "recovery_codes are for a user with a totp_secret";
            Err(SpannedError::rule(span, sentence))
        });
    };
    let plain = secret.reveal().trim_end_matches('=').replace(' ', "");
    let bytes = BASE32_NOPAD.decode(plain.to_ascii_uppercase().as_bytes());
    if bytes.is_ok_and(|bytes| bytes.len() >= 16) {
        return Ok(Some(Arc::new(Totp {
            secret,
            recovery_codes: recovery_codes.unwrap_or_default(),
        })));
    }
    let sentence = "a totp_secret is base32 of at least 16 bytes: make one with `flowgate totp`";
    Err(SpannedError::rule(place, sentence))
}

fn password_hash(name: &str, hash: Secret, place: Span) -> Result<Secret, SpannedError> {
    if hash::is_hash(hash.reveal()) {
        return Ok(hash);
    }
    let sentence = format!(
        "the password hash of user \"{name}\" is not {}",
        hash::EXPECTED
    );
    Err(SpannedError::rule(place, sentence))
}

fn certificates(
    list: raw::List,
    asked: bool,
    source: &Source<'_>,
) -> Result<Vec<CertificateName>, SpannedError> {
    let span = list.as_ref().map(Spanned::span);
    let names = source.list(list, tls::NAME, tls::name)?.unwrap_or_default();
    match span {
        Some(span) if !asked && !names.is_empty() => Err(SpannedError::rule(
            span,
            "clients are not asked for certificates: name the file of their authorities, tls.client_ca",
        )),
        _ => Ok(names),
    }
}
