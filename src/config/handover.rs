//! What the engine's process gets from its gateway: its part of the file, and the paths of what is
//! the gateway's.

use super::{Cluster, Config, Error, parse};
use flows::Places;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};
use zeroize::Zeroize;

/// A message about a member's state may have this much more bytes than the body of a deployment.
/// Our choice: flow sets grow with single flows, and are JSON within JSON there.
const MESSAGE_FACTOR: usize = 8;

/// What the process is given by the gateway, over a socket that only both have: nothing of it is in
/// arguments, variables or files.
#[derive(Serialize, Deserialize)]
pub struct Handover {
    settings: String,
    file: String,
    base: PathBuf,
    variables: BTreeMap<String, String>,
    credential_secret: Option<String>,
    inaccessible_paths: Vec<PathBuf>,
    safe: bool,
    /// The part of the flows that it runs; `None`: all of them.
    shard: Option<Shard>,
    /// The most bytes of a message about its state to the gateway, if another gateway runs the
    /// engine when this one does not.
    pub longest_message: Option<usize>,
    /// The bytes of data that the process may have.
    pub memory_limit: Option<u64>,
}

/// The part of the flows that a process runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shard {
    /// Its name; empty: the main one.
    pub name: String,
    /// Which flows are in which shard.
    pub places: Places,
}

impl Shard {
    fn of(cluster: &Cluster, name: Option<&str>) -> Option<Self> {
        let places = &cluster.places;
        (!places.tabs.is_empty()).then(|| Self {
            name: name.unwrap_or_default().to_owned(),
            places: places.clone(),
        })
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.credential_secret.zeroize();
        self.variables.values_mut().for_each(Zeroize::zeroize);
    }
}

impl Config {
    /// What the engine's process is given, or that of a shard; `None`: there is no such process.
    pub fn handover(&self, shard: Option<&str>) -> Option<Handover> {
        let cluster = self.cluster.as_ref();
        let process = match shard {
            None => self.engine.process.as_ref()?,
            Some(shard) => cluster?.shards.get(shard)?,
        };
        let file = self.file.as_deref().unwrap_or(Path::new("gateway.toml"));
        let base = file.parent().unwrap_or(Path::new(""));
        let values = process.variables.iter();
        let secret = self.storage.credential_secret.as_ref();
        Some(Handover {
            settings: process.settings.clone(),
            file: format!("{} (the engine's part)", file.display()),
            base: absolute(base).unwrap_or_else(|_| base.to_owned()),
            variables: values
                .map(|(name, value)| (name.clone(), value.reveal().to_owned()))
                .collect(),
            credential_secret: secret.map(|secret| secret.reveal().to_owned()),
            inaccessible_paths: if process.confined {
                self.own_paths()
            } else {
                Vec::new()
            },
            safe: self.engine.safe,
            shard: cluster.and_then(|cluster| Shard::of(cluster, shard)),
            longest_message: self.longest_message(),
            memory_limit: process.memory_limit,
        })
    }

    /// The most bytes of a message about the state of a member's engine; `None`: there is no
    /// cluster.
    pub fn longest_message(&self) -> Option<usize> {
        let longest = || self.limits.body.saturating_mul(MESSAGE_FACTOR);
        self.cluster.as_ref().map(|_| longest())
    }

    /// The files and directories that are the gateway's.
    fn own_paths(&self) -> Vec<PathBuf> {
        let mut paths = self.sources();
        paths.push(self.tls.directory.clone());
        paths.push(self.storage.directory.clone());
        paths.extend(self.identity.keys.iter().cloned());
        paths.extend(self.audit.signing_key.clone());
        let of_sinks = self.audit.sinks.iter();
        let certificates = of_sinks.filter_map(|sink| sink.certificate.as_ref());
        let of_traces = self.traces.as_deref();
        let of_traces = of_traces.and_then(|traces| traces.certificate.as_ref());
        for certificate in certificates.chain(of_traces) {
            paths.extend([certificate.cert.clone(), certificate.key.clone()]);
        }
        if let Some(cluster) = &self.cluster {
            let certificate = &cluster.certificate;
            paths.extend([certificate.cert.clone(), certificate.key.clone()]);
        }
        let own = paths.iter().map(absolute);
        own.filter_map(Result::ok).collect()
    }
}

impl Handover {
    /// The configuration of the engine's process.
    pub fn config(&self) -> Result<Config, Error> {
        let variable = |name: &str| match self.variables.get(name) {
            Some(value) => Some(value.clone()),
            None => std::env::var(name).ok(),
        };
        let (settings, file) = (&self.settings, &self.file);
        let mut config = parse::parse(settings, file, &self.base, &variable)?;
        let secret = self.credential_secret.clone();
        config.storage.credential_secret = secret.map(crypto::Secret::new);
        let engine = &mut config.engine;
        engine
            .inaccessible_paths
            .clone_from(&self.inaccessible_paths);
        engine.safe = self.safe;
        engine.shard.clone_from(&self.shard);
        let contexts = engine.context.iter();
        let contexts = contexts.filter_map(|store| Some(store.files.as_ref()?.directory.clone()));
        let mut accessible: Vec<_> = contexts.collect();
        if let Some(host) = &engine.node_host {
            accessible.extend([&host.directory, &host.sockets, &host.state].map(Clone::clone));
        }
        let modules = config.editor.modules.iter();
        accessible.extend(modules.filter(|modules| modules.is_dir()).cloned());
        accessible.push(config.storage.directory.clone());
        engine.accessible_paths = accessible;
        Ok(config)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::EngineListen;
    use std::time::Duration;

    fn parse(text: &str) -> Result<Config, String> {
        let variable = |name: &str| (name == "SECRET").then(|| "a secret".to_owned());
        let config = parse::parse(
            text,
            "/etc/flowgate/gateway.toml",
            Path::new("/etc/flowgate"),
            &variable,
        );
        config.map_err(|error| error.to_string())
    }

    #[test]
    fn an_isolated_engine_is_an_upstream_and_gets_its_part_of_the_file_alone() {
        let text = r#"
            auth = "off"
            [server]
            listen = ["127.0.0.1:8443"]
            drain = "3s"
            trusted_proxies = ["10.0.0.1"]
            [engine]
            isolation = "process"
            memory_limit = "1GiB"
            http_node_root = "/${SECRET}"
            [[engine.context]]
            name = "disk"
            module = "localfilesystem"
            [storage]
            directory = "/var/lib/flowgate"
            credential_secret = "${SECRET}"
            [identity]
            keys = ["identity.pem"]
        "#;
        let text = text.replace("/${SECRET}", "/api");
        let config = parse(&text).unwrap();
        let [upstream] = &*config.upstreams else {
            panic!("one upstream");
        };
        let socket = Path::new("/var/lib/flowgate/engine.sock");
        assert_eq!(upstream.socket.as_deref(), Some(socket));
        assert!(upstream.identity_headers && upstream.first_byte > config.timeouts.endpoint);
        let handover = config.handover(None).unwrap();
        assert!(
            !handover.settings.contains("SECRET"),
            "{}",
            handover.settings
        );
        let handover = serde_json::to_string(&handover).unwrap();
        let handover: Handover = serde_json::from_str(&handover).unwrap();
        let engine = handover.config().unwrap();
        let listen = engine.engine.listen.clone();
        assert!(matches!(listen, Some(EngineListen::Unix(found)) if found.path == socket));
        assert_eq!(engine.server.drain, Duration::from_secs(3));
        assert_eq!(engine.engine.http_node_root, "/api");
        assert_eq!(engine.engine.memory, Some(768 << 20));
        let own = Path::new("/var/lib/flowgate/engine");
        assert_eq!(engine.storage.directory, own);
        let files = engine.engine.context[0].files.as_ref().unwrap();
        assert_eq!(files.directory, own.join("context"));
        let secret = engine.storage.credential_secret.as_ref().unwrap();
        assert_eq!(secret.reveal(), "a secret");
        assert!(engine.identity.keys.is_empty() && engine.operations.is_none());
        let taken = &engine.engine.inaccessible_paths;
        for path in ["gateway.toml", "certs", "identity.pem", "/var/lib/flowgate"] {
            let path = Path::new("/etc/flowgate").join(path);
            assert!(taken.contains(&path), "{path:?}: {taken:?}");
        }
    }

    #[test]
    fn variables_of_the_engines_part_go_with_it() {
        let text = "[engine]\nisolation = \"process-unconfined\"\nhide_env = [\"${SECRET}\"]\n";
        let config = parse(&text.replace(
            "hide_env = [\"${SECRET}\"]",
            "socket_reconnect = \"${SECRET}\"",
        ));
        assert!(config.unwrap_err().contains("duration"));
        let text = text.replace(
            "hide_env = [\"${SECRET}\"]",
            "[editor]\nmodules = \"${SECRET}\"",
        );
        let handover = parse(&text).unwrap().handover(None).unwrap();
        assert_eq!(handover.variables["SECRET"], "a secret");
        let modules = handover.config().unwrap().editor.modules.unwrap();
        assert_eq!(modules, Path::new("/etc/flowgate/a secret"));
        assert!(handover.inaccessible_paths.is_empty());
    }

    #[test]
    fn isolation_is_for_the_own_engine_of_a_gateway() {
        for (text, words) in [
            ("isolation = \"yes\"\n", "\"process-unconfined\""),
            ("memory_limit = \"1GiB\"\n", "set isolation"),
            ("operations = \"127.0.0.1:9091\"\n", "set isolation"),
            (
                "isolation = \"process\"\n[upstream]\nurl = \"http://127.0.0.1:1880\"\n",
                "an [upstream] runs the flows",
            ),
            (
                "isolation = \"process\"\n[engine.listen]\naddress = \"unix:/run/a.sock\"\n",
                "the file of a gateway",
            ),
        ] {
            let error = parse(&format!("[engine]\n{text}")).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let none = parse("[engine]\nisolation = \"none\"\n").unwrap();
        assert!(none.engine.process.is_none() && none.upstreams.is_empty());
        let long = format!(
            "[engine]\nisolation = \"process\"\n[storage]\ndirectory = \"/{}\"\n",
            "a".repeat(100)
        );
        assert!(parse(&long).unwrap_err().contains("shorter path"));
    }
}
