//! The part of a session that an identity provider vouches for: who it says the caller is, and what
//! that permits.
//!
//! The session of a JWT is in memory only: the token begins it again after a restart.

use super::Permissions;
use super::sync_shim::ArcSwap;
use crate::config::ClaimGrant;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::fmt;
use std::sync::Arc;

/// The provider's part of a session.
pub struct Federated {
    /// The name of the provider's table in the configuration.
    pub provider: SmolStr,
    /// The thumbprint of the key that signed the token.
    pub key: [u8; 32],
    /// The permissions of the claims.
    permissions: ArcSwap<FederatedPermissions>,
}

impl Federated {
    pub(super) fn new(provider: &str, key: [u8; 32], permissions: FederatedPermissions) -> Self {
        Self {
            provider: provider.into(),
            key,
            permissions: ArcSwap::from_pointee(permissions),
        }
    }

    /// The permissions of the claims.
    pub fn permissions(&self) -> Arc<FederatedPermissions> {
        self.permissions.load_full()
    }

    /// Replaces them; false: they are the same.
    pub(super) fn set_permissions(&self, permissions: FederatedPermissions) -> bool {
        let differ = *self.permissions() != permissions;
        if differ {
            self.permissions.store(Arc::new(permissions));
        }
        differ
    }
}

impl fmt::Debug for Federated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Federated").field(&self.provider).finish()
    }
}

/// Permissions by grants that fit claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederatedPermissions {
    /// Everywhere.
    everywhere: Arc<[SmolStr]>,
    /// At upstreams that grants name: those for everywhere, and more.
    at: Vec<(SmolStr, Arc<[SmolStr]>)>,
}

impl FederatedPermissions {
    /// The permissions of a token with these claims; `None`: no grant fits.
    pub fn of(grants: &[ClaimGrant], claims: &Map<String, Json>) -> Option<Self> {
        let fit: Vec<&ClaimGrant> = grants.iter().filter(|grant| grant.fits(claims)).collect();
        if fit.is_empty() {
            return None;
        }
        let names = |upstream: Option<&str>| -> Arc<[SmolStr]> {
            let here = |grant: &&&ClaimGrant| {
                grant.upstream.is_none() || grant.upstream.as_deref() == upstream
            };
            let lists = fit.iter().filter(here).map(|grant| &grant.permissions);
            lists.flatten().map(SmolStr::new).collect()
        };
        let mut upstreams: Vec<&str> = fit.iter().filter_map(|g| g.upstream.as_deref()).collect();
        upstreams.sort_unstable();
        upstreams.dedup();
        let at = upstreams.into_iter();
        Some(Self {
            everywhere: names(None),
            at: at.map(|name| (name.into(), names(Some(name)))).collect(),
        })
    }

    /// Those that count everywhere.
    pub fn everywhere(&self) -> Permissions {
        Permissions::of(Arc::clone(&self.everywhere))
    }

    /// Those at the backend of this name, if they differ from those everywhere.
    pub fn at(&self, backend: &str) -> Option<&Arc<[SmolStr]>> {
        let mut at = self.at.iter();
        at.find(|(name, _)| name == backend).map(|(_, list)| list)
    }
}
