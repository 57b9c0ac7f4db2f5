//! A text becomes a [`Config`], with the environment that it refers to.

use super::{Config, Error, error, isolation, raw, setting, tables, written};
use crypto::{hex, sha256};
use std::cell::RefCell;
use std::path::{Path, PathBuf};

/// Parses `text`; `file` is its name in errors, `base` the directory of its paths, `variable` the
/// environment.
pub(super) fn parse(
    text: &str,
    file: &str,
    base: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Error> {
    let read = RefCell::default();
    let secret_variables = RefCell::default();
    let source = setting::Source {
        base,
        read: &read,
        secret_variables: &secret_variables,
        variable,
    };
    let config = raw::parse(text).and_then(|root| tables::config(root, &source));
    config
        .map(|mut config| {
            isolation::complete(&mut config, text, &source);
            config.engine.hide_env = config.engine.hide_env.with(secret_variables.take());
            Config {
                file: Some(file.into()),
                secrets: read.take(),
                sha256: hex(&sha256(text.as_bytes())),
                written: written(text).into(),
                ..config
            }
        })
        .map_err(|fault| Error::Diagnostic(Box::new(error::locate(fault, text, file))))
}

impl Config {
    /// Every file whose change a reload takes up.
    pub fn sources(&self) -> Vec<PathBuf> {
        let certificates = self.tls.certificates.iter();
        let certificates = certificates.flat_map(|given| [&given.cert, &given.key]);
        let clients = self.tls.clients.iter();
        let clients = clients.flat_map(|clients| std::iter::once(&clients.ca).chain(&clients.crl));
        let members = self.cluster.iter().flat_map(|cluster| {
            let own = &cluster.certificate;
            [&own.cert, &own.key, &cluster.ca_file]
        });
        let files = self.file.iter().chain(&self.secrets);
        let files = files.chain(certificates).chain(clients).chain(members);
        files.cloned().collect()
    }
}
