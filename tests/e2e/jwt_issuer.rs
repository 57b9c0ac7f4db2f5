//! [`JwtIssuer`]: signs JWTs, and serves its public keys over HTTP. The keys that it serves, and
//! whether it answers, can be changed while a gateway uses it.

use crate::mock_upstream::{Action, MockUpstream, ok, status};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// `iss` of its tokens.
pub const ISSUER: &str = "https://ci.example.org";
/// `aud` of its tokens.
pub const AUDIENCE: &str = "flowgate";

/// A key pair.
#[derive(Clone)]
pub struct SigningKey {
    pub id: String,
    pub algorithm: Algorithm,
    pub private: EncodingKey,
    pub public: Jwk,
}

/// What it answers to a request for its keys.
#[derive(Clone)]
pub enum Keys {
    Set(JwkSet),
    Text(String),
    Unwell,
}

pub struct JwtIssuer {
    pub key: SigningKey,
    pub served: Arc<Mutex<Keys>>,
    server: MockUpstream,
}

impl SigningKey {
    /// A key for ES256.
    pub fn new(id: &str) -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let private = EncodingKey::from_ec_der(pkcs8.unwrap().as_ref());
        Self::of(id, Algorithm::ES256, private)
    }

    pub fn of(id: &str, algorithm: Algorithm, private: EncodingKey) -> Self {
        let mut public = Jwk::from_encoding_key(&private, algorithm).unwrap();
        public.common.key_id = Some(id.to_owned());
        Self {
            id: id.to_owned(),
            algorithm,
            private,
            public,
        }
    }

    /// A token with these claims.
    pub fn sign(&self, claims: &Json) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub fn sign_as(&self, header: &Header, claims: &Json) -> String {
        jsonwebtoken::encode(header, claims, &self.private).unwrap()
    }

    pub fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.clone());
        header
    }
}

/// A set of public keys.
pub fn set_of(keys: &[&SigningKey]) -> JwkSet {
    JwkSet {
        keys: keys.iter().map(|key| key.public.clone()).collect(),
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// The claims of a token that is valid for five minutes, with these instead or beside.
pub fn claims(other: &Json) -> Json {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "repo:acme/flows", "iat": now(), "exp": now() + 300, "groups": ["deployers"]
    });
    for (name, value) in other.as_object().unwrap() {
        match value {
            Json::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

impl JwtIssuer {
    pub async fn start() -> Self {
        let key = SigningKey::new("first");
        let keys = Arc::new(Mutex::new(Keys::Set(set_of(&[&key]))));
        let shown = Arc::clone(&keys);
        let server = MockUpstream::start(move |_| {
            Action::RespondAndClose(match &*shown.lock().unwrap() {
                Keys::Set(set) => ok("application/json", &serde_json::to_string(set).unwrap()),
                Keys::Text(text) => ok("application/json", text),
                Keys::Unwell => status("503 Service Unavailable", "text/plain", ""),
            })
        });
        Self {
            key,
            served: keys,
            server: server.await,
        }
    }

    /// The configuration of a gateway that accepts its tokens, with other lines.
    pub fn config(&self, lines: &str) -> String {
        format!(
            "[[auth.jwt]]\nname = \"ci\"\nissuer = \"{ISSUER}\"\naudience = [\"{AUDIENCE}\"]\n\
             jwks_url = \"http://{}/keys\"\n{lines}\n\
             [[auth.jwt.grant]]\nclaims = {{ groups = [\"deployers\"] }}\npermissions = [\"read\", \"flows.write\"]\n\
             [[auth.jwt.grant]]\nclaims = {{ groups = [\"admins\"] }}\npermissions = [\"*\"]\n",
            self.server.address
        )
    }

    /// A token with these claims instead or beside.
    pub fn token(&self, other: &Json) -> String {
        self.key.sign(&claims(other))
    }

    pub fn serve(&self, keys: Keys) {
        *self.served.lock().unwrap() = keys;
    }

    /// Requests for its keys so far.
    pub fn fetches(&self) -> usize {
        self.server.received().len()
    }
}
