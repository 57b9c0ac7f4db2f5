//! Lists users: those of the configuration, and those of identity providers and issuers with a
//! session. No password, hash or secret is in the list.

use super::{Auth, Session};
use crate::config::Networks;
use crate::store;
use serde::Serialize;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Where a user comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UserSource {
    /// The configuration.
    File,
    /// The first start, without users in the configuration.
    Generated,
    /// An identity provider, or an issuer of JWTs.
    Provider,
}

/// A user as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInfo {
    /// Its name.
    pub name: SmolStr,
    /// Where it comes from.
    pub source: UserSource,
    /// The name of the identity provider or issuer in the configuration; `None`: it has none.
    pub provider: Option<SmolStr>,
    /// Its permissions everywhere.
    pub permissions: Vec<SmolStr>,
    /// True if it has a password; of others than local users, no.
    pub has_password: bool,
    /// True if it needs codes at a sign-in; of others than local users, that is the provider's
    /// business.
    pub has_codes: bool,
    /// The number of its passkeys.
    pub passkeys: usize,
    /// The number of its sessions.
    pub sessions: usize,
    /// The networks that its requests must come from; empty: all.
    pub networks: Vec<String>,
}

impl Auth {
    /// All users, by name.
    pub async fn user_list(&self) -> Result<Vec<UserInfo>, store::Error> {
        let passkeys = self.passkeys(None).await?;
        let mut list = self.local_users();
        let sessions = self.0.registry.sessions();
        let is_users = |session: &Session| !session.is_service_token();
        let of_session = |session: &Session| (session.user.clone(), provided(session));
        for (name, provided) in sessions.map_alive(is_users, of_session) {
            let known = list.get_mut(&name);
            if let Some(user) = known {
                user.sessions += 1;
            } else if let Some(user) = provided {
                list.insert(name, user);
            }
        }
        for passkey in passkeys {
            if let Some(user) = list.get_mut(passkey.user.as_str()) {
                user.passkeys += 1;
            }
        }
        Ok(list.into_values().collect())
    }

    fn local_users(&self) -> BTreeMap<SmolStr, UserInfo> {
        let users = self.0.registry.users();
        let listed = users.all().map(|(name, user)| UserInfo {
            name: name.clone(),
            source: if user.is_generated() {
                UserSource::Generated
            } else {
                UserSource::File
            },
            provider: None,
            permissions: user.permissions.to_vec(),
            has_password: user.record.is_some(),
            has_codes: user.totp.is_some(),
            passkeys: 0,
            sessions: 0,
            networks: user
                .networks
                .as_ref()
                .map_or_else(Vec::new, |networks| networks.texts()),
        });
        listed.map(|user| (user.name.clone(), user)).collect()
    }
}

/// The user of a session that a provider vouches for.
fn provided(session: &Session) -> Option<UserInfo> {
    let federated = session.federated.as_ref()?;
    Some(UserInfo {
        name: session.user.clone(),
        source: UserSource::Provider,
        provider: Some(federated.provider.clone()),
        permissions: federated.permissions().everywhere().user.to_vec(),
        has_password: false,
        has_codes: false,
        passkeys: 0,
        sessions: 1,
        networks: session
            .networks
            .as_ref()
            .map_or_else(Vec::new, Networks::texts),
    })
}
