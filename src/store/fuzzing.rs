//! Invariants checked for every credentials file.

#![allow(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a check: it may panic"
)]

use super::credentials::{open, seal};
use crypto::Secret;
use flows::Credentials;

/// Whatever is read can be written and read again; with another secret it is not what it was;
/// nothing shows a value.
pub fn credentials(data: &[u8]) {
    let secret = |text: &str| Secret::new(text.to_owned());
    let _ = open(data, &[secret("one")]);
    let Ok(credentials) = Credentials::from_json(data) else {
        return;
    };
    if credentials.nodes.contains_key("$") {
        return;
    }
    assert!(Credentials::from_json(credentials.to_json().as_bytes()).unwrap() == credentials);
    let sealed = seal(&credentials, &secret("one")).unwrap();
    let opened = open(&sealed, &[secret("one"), secret("other")]).unwrap();
    assert!(opened.current && opened.credentials == credentials);
    let opened = open(&sealed, &[secret("other"), secret("one")]).unwrap();
    assert!(!opened.current && opened.credentials == credentials);
    assert!(open(&sealed, &[secret("other")]).is_none_or(|o| o.credentials != credentials));
}
