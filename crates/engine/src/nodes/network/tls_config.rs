//! `tls-config`: certificates, keys and whom to trust, for the nodes that refer to it.

use super::tls::{self, Tls};
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use crate::nodes::storage::errno;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Properties {
    cert: SmolStr,
    key: SmolStr,
    ca: SmolStr,
    servername: SmolStr,
    verifyservercert: Json,
    alpnprotocol: SmolStr,
}

struct TlsConfig(Option<Rc<Tls>>);

pub(in crate::nodes) fn build(
    build: &Build<'_>,
    host: &mut Host<'_>,
) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    let mut tls = Tls::default();
    tls.verify = properties.verifyservercert != false;
    tls.server_name = properties.servername.trim().into();
    tls.alpn = properties.alpnprotocol.trim().into();
    // As in Node-RED, nodes use what is left of a broken one: its name and whether to check.
    if let Err(failure) = fill(&mut tls, &properties, build.credentials.as_ref()) {
        host.log(Level::Error, failure.to_string());
    }
    Ok(boxed(TlsConfig(Some(Rc::new(tls)))))
}

/// Reads certificates from the files that are named, else from the credentials.
fn fill(
    tls: &mut Tls,
    properties: &Properties,
    credentials: Option<&Map<String, Json>>,
) -> Result<(), Failure> {
    let credential = |name: &str| {
        let text = credentials.and_then(|c| c.get(name)).and_then(Json::as_str);
        text.unwrap_or_default().as_bytes().to_vec()
    };
    let paths = [&properties.cert, &properties.key, &properties.ca].map(|path| path.trim());
    let [cert, key, ca] = if paths.iter().all(|path| path.is_empty()) {
        ["certdata", "keydata", "cadata"].map(credential)
    } else {
        if paths[0].is_empty() != paths[1].is_empty() {
            return Err(Failure::text("No certificate/key file provided"));
        }
        [read(paths[0])?, read(paths[1])?, read(paths[2])?]
    };
    if cert.is_empty() != key.is_empty() {
        return Err(Failure::text("No certificate/key file provided"));
    }
    if !cert.is_empty() {
        let passphrase = credential("passphrase");
        let passphrase = String::from_utf8_lossy(&passphrase);
        tls.identity = Some((tls::certificates(&cert)?, tls::key(&key, &passphrase)?));
    }
    if !ca.is_empty() {
        tls.authorities = Some(tls::certificates(&ca)?);
    }
    Ok(())
}

fn read(path: &str) -> Result<Vec<u8>, Failure> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    std::fs::read(path).map_err(|e| errno::failure(&e, "open", path))
}

impl Node for TlsConfig {
    fn start(&mut self, host: &mut Host<'_>) {
        if let Some(tls) = self.0.take() {
            host.publish(tls);
        }
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}
}
