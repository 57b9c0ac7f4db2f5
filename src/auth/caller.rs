//! The caller of a request, the authentication method, and the expiry.

use super::{Permissions, Session};
use crate::config::CertificateName;
use smol_str::SmolStr;
use std::fmt;
use std::sync::Arc;

/// The caller, after *identify*. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The user's name; empty: anonymous.
    pub user: SmolStr,
    /// The caller's permissions now: the token's scope and those of the user.
    pub permissions: Permissions,
    /// The authentication method.
    pub known: AuthMethod,
}

/// The caller's authentication method.
#[derive(Debug, Clone)]
pub enum AuthMethod {
    /// Not at all: anonymous, or no sign-in is required.
    Anonymous,
    /// By a token, or by a cookie.
    Token(Arc<Session>),
    /// By the client certificate of the connection.
    Certificate(Arc<Certificate>),
    /// By the gateway in front of this engine.
    Gateway,
}

/// The identity in a client's certificate. The TLS handshake has verified it; nothing here parses
/// certificates.
#[derive(Debug)]
pub struct Certificate {
    /// All that it is called, its fingerprint too.
    pub names: Vec<CertificateName>,
    /// Its fingerprint.
    pub fingerprint: CertificateName,
    /// When it ends, seconds since 1970. Its connection may last longer.
    pub expires: u64,
}

impl Caller {
    /// Returns whether the caller is authenticated.
    pub fn is_known(&self) -> bool {
        !matches!(self.known, AuthMethod::Anonymous)
    }

    /// Returns whether the caller is known by the cookie of a page.
    pub fn has_page(&self) -> bool {
        self.session().is_some_and(Session::is_page)
    }

    /// Returns whether the caller is known by the password of Basic authentication.
    pub fn has_basic(&self) -> bool {
        self.session().is_some_and(Session::is_basic)
    }

    /// The user whose rights the caller has: of a service token that a user made, that user; of any
    /// other, the caller.
    pub fn account(&self) -> &SmolStr {
        let creator = self.session().and_then(|session| session.creator.as_ref());
        creator.unwrap_or(&self.user)
    }

    /// The caller's session, if there is one.
    pub fn session(&self) -> Option<&Session> {
        match &self.known {
            AuthMethod::Token(session) => Some(session),
            AuthMethod::Anonymous | AuthMethod::Certificate(_) | AuthMethod::Gateway => None,
        }
    }
}

/// For the audit log, the history and proposals.
impl fmt::Display for AuthMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => Ok(()),
            Self::Gateway => f.write_str("gateway"),
            Self::Token(session) if session.is_page() => f.write_str("page"),
            Self::Token(session) if session.is_basic() => f.write_str("basic"),
            Self::Token(session) if session.is_jwt() => f.write_str("jwt"),
            Self::Token(session) => match &session.creator {
                Some(creator) => write!(f, "token of {creator}"),
                None => f.write_str("token"),
            },
            Self::Certificate(certificate) => write!(f, "certificate {}", certificate.fingerprint),
        }
    }
}
