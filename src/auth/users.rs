//! Users: names, passwords and permissions; replaced as a whole by a reload.
//!
//! Knows the config. Never changes, checks no password and counts no failure.

use super::password::Password;
use super::{AuthMethod, Caller, Certificate, Permissions};
use crate::config::Conditions;
use crate::config::{self, CertificateName, Networks, RateLimit, Totp};
use crypto::{Secret, random, sha256};
use smol_str::SmolStr;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The user made at a first start without users.
const GENERATED: &str = "admin";

/// All users, and how long their sessions last.
#[derive(Clone)]
pub(super) struct Users {
    by_name: HashMap<SmolStr, User>,
    /// The users' names, by certificate name.
    by_certificate: HashMap<CertificateName, SmolStr>,
    /// The passwords again, to choose a stand-in from.
    passwords: Vec<Arc<Password>>,
    /// Makes the choice of a stand-in unknowable from outside.
    choice: [u8; 32],
    /// The caller without a token, if the operator allows one.
    pub(super) anonymous: Option<Caller>,
    /// Absolute lifetime of a new token.
    pub(super) lifetime: Duration,
    /// The idle time-out of a token.
    pub(super) idle: Option<Duration>,
    /// The maximum number of sessions per user.
    pub(super) sessions_per_user: usize,
    /// True if browsers may sign in with a page.
    pub(super) sign_in_page: bool,
    /// True if users may register passkeys and sign in with them.
    pub(super) passkeys: bool,
    /// Permissions that may be used under a condition only.
    pub(super) conditions: Conditions,
}

/// One user.
#[derive(Clone)]
pub(super) struct User {
    pub(super) password: Arc<Password>,
    pub(super) permissions: Arc<[SmolStr]>,
    /// The networks that its requests must come from; `None`: all.
    pub(super) networks: Option<Arc<Networks>>,
    /// Its second factor; `None`: there is none.
    pub(super) totp: Option<Arc<Totp>>,
    /// The limit of its requests; `None`: none.
    pub(super) rate_limit: Option<RateLimit>,
    /// Identifies the password: the SHA-256 of its hash in the config. Sessions are bound to it.
    /// `None`: no password.
    pub(super) record: Option<[u8; 32]>,
    /// The admin made at a first start, whose hash we keep and may renew.
    generated: bool,
    /// Whether it has been logged that the hash is weak.
    hinted: Arc<AtomicBool>,
}

impl Users {
    /// The users of the config; if it has none, the `admin` whose hash was kept at the first start.
    pub(super) fn new(config: &config::Auth, generated: Option<&Secret>) -> Self {
        let mut by_name: HashMap<_, _> = config
            .users
            .iter()
            .map(|user| (SmolStr::new(&user.name), User::new(user)))
            .collect();
        if let Some(hash) = generated.filter(|_| config.users.is_empty()) {
            let admin = User {
                password: Arc::new(Password::parse(hash)),
                permissions: names(&["*"]),
                networks: None,
                totp: None,
                rate_limit: None,
                // Not of its hash, which is renewed: the password stays as long as the database,
                // where the sessions are.
                record: Some(generated_record()),
                generated: true,
                hinted: Arc::default(),
            };
            by_name.insert(SmolStr::new_static(GENERATED), admin);
        }
        let anonymous = config.anonymous.as_deref().map(|permissions| Caller {
            user: SmolStr::default(),
            permissions: Permissions::of(names(permissions)),
            known: AuthMethod::Anonymous,
        });
        let certificates = config.users.iter().flat_map(|user| {
            let names = user.certificates.iter().cloned();
            names.map(|name| (name, SmolStr::new(&user.name)))
        });
        Self {
            by_certificate: certificates.collect(),
            passwords: by_name
                .values()
                .map(|user| Arc::clone(&user.password))
                .collect(),
            by_name,
            choice: random(),
            anonymous,
            lifetime: config.lifetime,
            idle: config.idle,
            sessions_per_user: config.sessions_per_user,
            sign_in_page: config.sign_in_page,
            passkeys: config.passkeys,
            conditions: config.conditions.clone(),
        }
    }

    /// The user of exactly that name.
    pub(super) fn find(&self, name: &str) -> Option<&User> {
        self.by_name.get(name)
    }

    /// All users with their names, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&SmolStr, &User)> {
        self.by_name.iter()
    }

    /// Returns whether some user has networks or a limit of requests.
    pub(super) fn has_restricted(&self) -> bool {
        let mut users = self.by_name.values();
        users.any(|user| user.networks.is_some() || user.rate_limit.is_some())
    }

    /// Returns whether requests of a user may come from an address. Those of a name that is no
    /// user's may.
    pub(super) fn admits(&self, user: &str, address: IpAddr) -> bool {
        let networks = self.find(user).and_then(|user| user.networks.as_ref());
        networks.is_none_or(|networks| networks.contains(address))
    }

    /// The user of a certificate. One that has names of several users belongs to none.
    pub(super) fn of(&self, certificate: &Arc<Certificate>) -> Option<Caller> {
        let mut owners = certificate
            .names
            .iter()
            .filter_map(|name| self.by_certificate.get(name));
        let name = owners.next()?;
        if owners.any(|other| other != name) {
            let certificate = &certificate.fingerprint;
            tracing::warn!(%certificate, "a client's certificate has names of several users: it counts for none");
            return None;
        }
        Some(Caller {
            user: name.clone(),
            permissions: Permissions::of(Arc::clone(&self.find(name)?.permissions)),
            known: AuthMethod::Certificate(Arc::clone(certificate)),
        })
    }

    /// The same with another hash for the generated admin, if there is one.
    pub(super) fn renewed(&self, hash: &Secret) -> Self {
        let mut users = self.clone();
        for user in users.by_name.values_mut().filter(|user| user.generated) {
            user.password = Arc::new(Password::parse(hash));
        }
        let passwords = users.by_name.values().map(|user| &user.password);
        users.passwords = passwords.cloned().collect();
        users
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The password to check for a name that is unknown, so that it takes as long as for one that
    /// is known: that of some user, always the same for one name. So it costs the same whatever mix
    /// of argon2id and bcrypt there is.
    pub(super) fn stand_in(&self, name: &str) -> Arc<Password> {
        let digest = sha256(&[&self.choice, name.as_bytes()].concat());
        let number = digest
            .first_chunk()
            .map_or(0, |bytes| usize::from_le_bytes(*bytes));
        let chosen = number
            .checked_rem(self.passwords.len())
            .and_then(|index| self.passwords.get(index));
        chosen.map_or_else(|| Arc::new(Password::Unusable), Arc::clone)
    }
}

impl User {
    fn new(user: &config::User) -> Self {
        let hash = user.password_hash.as_ref();
        let password = hash.map_or(Password::Unusable, Password::parse);
        if hash.is_some() && matches!(password, Password::Unusable) {
            tracing::error!(
                user = user.name,
                "the password hash cannot be used: this user cannot sign in"
            );
        }
        Self {
            password: Arc::new(password),
            permissions: names(&user.permissions),
            networks: user.networks.clone(),
            totp: user.totp.clone(),
            rate_limit: user.rate_limit,
            record: hash.map(|hash| sha256(hash.reveal().as_bytes())),
            generated: false,
            hinted: Arc::default(),
        }
    }

    /// Returns whether it is the admin made at a first start.
    pub(super) fn is_generated(&self) -> bool {
        self.generated
    }

    /// Returns whether the next sign-in is to leave a stronger hash.
    pub(super) fn is_to_renew(&self) -> bool {
        self.generated && self.password.is_weak()
    }

    /// Logs once that a hash in the config is weak: only the operator can change it.
    pub(super) fn hint(&self, name: &str) {
        if !self.generated && self.password.is_weak() && !self.hinted.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                user = name,
                "this user's password hash is easier to guess than it should be: make a new one with `flowgate hash-password`"
            );
        }
    }
}

/// Identifies the password of the `admin` made at a first start.
pub(super) fn generated_record() -> [u8; 32] {
    sha256(b"the generated admin")
}

fn names(list: &[impl AsRef<str>]) -> Arc<[SmolStr]> {
    list.iter().map(SmolStr::new).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

    fn config(users: &[(&str, &str)]) -> config::Auth {
        let user = |(name, hash): &(&str, &str)| config::User {
            name: (*name).into(),
            password_hash: Some(Secret::new((*hash).into())),
            certificates: Vec::new(),
            totp: None,
            rate_limit: None,
            networks: None,
            permissions: vec!["read".into()],
        };
        config::Auth {
            conditions: config::Conditions::default(),
            lifetime: Duration::from_mins(1),
            idle: None,
            users: users.iter().map(user).collect(),
            anonymous: Some(vec!["flows.read".into()]),
            sign_in_page: false,
            passkeys: false,
            sessions_per_user: 100,
            jwt: Vec::new(),
            oidc: Vec::new(),
            throttle: config::Throttle {
                per_user_and_address: 5,
                per_address: 50,
                per_user: 20,
                bad_tokens_per_address: 100,
                window: Duration::from_mins(10),
            },
        }
    }

    #[test]
    fn names_are_exact() {
        let users = Users::new(&config(&[("ann", BCRYPT)]), None);
        assert_eq!(users.find("ann").unwrap().permissions[..], ["read"]);
        for name in ["Ann", " ann", "ann ", "", "constructor"] {
            assert!(users.find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_generated_admin_exists_only_while_no_user_is_configured() {
        let hash = Secret::new(BCRYPT.into());
        let admin = Users::new(&config(&[]), Some(&hash));
        assert_eq!(admin.find("admin").unwrap().permissions[..], ["*"]);
        assert!(
            Users::new(&config(&[("ann", BCRYPT)]), Some(&hash))
                .find("admin")
                .is_none()
        );
        assert!(Users::new(&config(&[]), None).is_empty());
    }

    #[test]
    fn an_unknown_name_always_costs_as_much_as_one_known_user() {
        let users = Users::new(&config(&[("ann", BCRYPT), ("bob", "not a hash")]), None);
        let stand_in = |name: &str| Arc::as_ptr(&users.stand_in(name));
        let real = ["ann", "bob"].map(|name| Arc::as_ptr(&users.find(name).unwrap().password));
        let chosen: Vec<_> = (0..64).map(|n| stand_in(&format!("stranger{n}"))).collect();
        assert!(chosen.iter().all(|password| real.contains(password)));
        assert!(
            real.iter().all(|password| chosen.contains(password)),
            "each is chosen sometimes"
        );
        assert_eq!(stand_in("stranger"), stand_in("stranger"));
    }

    #[test]
    fn without_users_an_unusable_password_is_checked() {
        assert!(matches!(
            *Users::new(&config(&[]), None).stand_in("x"),
            Password::Unusable
        ));
    }

    #[test]
    fn a_caller_without_a_token_has_the_configured_permissions() {
        let users = Users::new(&config(&[]), None);
        let caller = users.anonymous.unwrap();
        assert!(caller.user.is_empty());
        assert!(caller.permissions.cover("flows.read"));
        assert!(!caller.permissions.cover("flows.write"));
    }
}
