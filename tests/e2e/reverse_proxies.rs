//! [`ReverseProxy`]: `HAProxy`, nginx or Caddy as a process of its own, with a configuration of a
//! few lines.

use crate::harness::until;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use testing::ports;
use tokio::net::TcpStream;

/// A running proxy, stopped when dropped.
pub struct ReverseProxy {
    child: Child,
    _directory: TempDir,
}

impl ReverseProxy {
    /// `HAProxy`, listening at this address.
    pub async fn haproxy(config: &str, address: SocketAddr) -> Self {
        let arguments = |file: &str| vec!["-db".to_owned(), "-f".to_owned(), file.to_owned()];
        Self::start("haproxy", arguments, config, address).await
    }

    /// nginx, listening at this address; the config is what stands in `http`.
    pub async fn nginx(config: &str, address: SocketAddr) -> Self {
        let config = format!(
            "daemon off;\nerror_log stderr crit;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{config}\n}}\n"
        );
        let arguments = |file: &str| vec!["-c".to_owned(), file.to_owned()];
        Self::start("nginx", arguments, &config, address).await
    }

    /// Caddy, listening at this address.
    pub async fn caddy(config: &str, address: SocketAddr) -> Self {
        let arguments = |file: &str| {
            let words = ["run", "--adapter", "caddyfile", "--config", file];
            words.map(str::to_owned).to_vec()
        };
        let config = format!("{{\nadmin off\nauto_https off\n}}\n{config}");
        Self::start("caddy", arguments, &config, address).await
    }

    async fn start(
        program: &str,
        arguments: impl Fn(&str) -> Vec<String>,
        config: &str,
        address: SocketAddr,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let mut written = std::fs::File::create(&file).unwrap();
        written.write_all(config.as_bytes()).unwrap();
        // Debian has both where only root looks for programs.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let child = Command::new(program)
            .env("PATH", path)
            .args(arguments(file.to_str().unwrap()))
            .current_dir(directory.path())
            // Caddy keeps files there.
            .env("HOME", directory.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Self {
            child,
            _directory: directory,
        };
        until("the proxy listens", async || {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        proxy
    }
}

impl Drop for ReverseProxy {
    fn drop(&mut self) {
        // nginx ends its workers when it is asked to; killed it would leave them behind.
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args(["-s", "TERM", &id]).status();
        let _ = self.child.wait();
    }
}

/// An address of this machine without a listener.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free()))
}
