//! mosquitto, the broker of the tests for mqtt nodes.

use crate::steps::merged;
use serde_json::{Value as Json, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testing::ports;

/// A broker of its own, which ends with the test.
pub(crate) struct Mosquitto {
    pub(crate) child: Child,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Mosquitto {
    /// A broker with this configuration, in which `{}` is the port.
    pub(crate) async fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = ports::free();
        Self::again(config, directory, port).await
    }

    pub(crate) async fn again(config: &str, directory: tempfile::TempDir, port: u16) -> Self {
        let file = directory.path().join("mosquitto.conf");
        // As root it would become another user, who may not read the directory.
        let config = format!("user root\n{}", config.replace("{}", &port.to_string()));
        std::fs::write(&file, config).unwrap();
        let child = Command::new("mosquitto")
            .env(
                "PATH",
                format!("{}:/usr/sbin", std::env::var("PATH").unwrap()),
            )
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mosquitto is installed by tests/run");
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Self {
            child,
            directory,
            port,
        }
    }

    pub(crate) async fn open() -> Self {
        Self::start(OPEN).await
    }

    pub(crate) fn node(&self, more: &Json) -> Json {
        merged(
            json!({ "id": "b", "type": "mqtt-broker", "broker": "127.0.0.1", "port": self.port.to_string(),
            "clientid": "", "autoConnect": true, "usetls": false, "protocolVersion": "4", "keepalive": "60", "cleansession": true }),
            more,
        )
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const OPEN: &str = "listener {} 127.0.0.1\nallow_anonymous true\n";
