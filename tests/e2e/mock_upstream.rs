//! [`MockUpstream`]: a runtime behind the gateway whose responses a test scripts, as an [`Action`]
//! for each request. It records every byte that it receives. [`ok`] and [`status`] make responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What the upstream does after a request.
#[derive(Debug, Clone)]
pub enum Action {
    /// Sends this and keeps the connection open for another request.
    Respond(String),
    /// Sends this and closes the connection.
    RespondAndClose(String),
    /// Sends this and then nothing more.
    Hang(String),
    /// Sends this after a number of milliseconds.
    Delay(u64, String),
}

/// One request as it was received.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Head and body, every byte.
    pub bytes: String,
    /// Which connection it came on, from 1.
    pub connection: usize,
}

/// The upstream. Health checks (`/auth/login`) are not among the requests that it shows.
pub struct MockUpstream {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: tokio::task::JoinHandle<()>,
}

impl MockUpstream {
    /// On a port of its own.
    pub async fn start(act: impl Fn(&str) -> Action + Send + Sync + 'static) -> Self {
        Self::at(crate::reverse_proxies::free_address(), act).await
    }

    /// Leaves requests for this path without an answer, and answers all others.
    pub async fn hanging_at(path: &'static str) -> Self {
        Self::start(move |request| {
            if request.contains(path) {
                Action::Hang(String::new())
            } else {
                Action::Respond(ok("text/plain", "a"))
            }
        })
        .await
    }

    /// At an address that may have been another's.
    pub async fn at(
        address: SocketAddr,
        act: impl Fn(&str) -> Action + Send + Sync + 'static,
    ) -> Self {
        let listener = crate::harness::listen(address).await;
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let (all, act) = (Arc::clone(&received), Arc::new(act));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            for connection in 1.. {
                let (tcp, _) = listener.accept().await.unwrap();
                let (all, act) = (Arc::clone(&all), Arc::clone(&act));
                connections.spawn(async move {
                    let note = |bytes| {
                        let request = ReceivedRequest { bytes, connection };
                        all.lock().unwrap().push(request);
                    };
                    serve(tcp, &*act, note).await;
                });
            }
        });
        Self {
            address,
            received,
            task,
        }
    }

    /// The config of a gateway in front of it, which checks its health once.
    pub fn config(&self) -> String {
        self.config_with("health = \"1h\"")
    }

    /// The same with other lines.
    pub fn config_with(&self, lines: &str) -> String {
        format!("[upstream]\nurl = \"http://{}\"\n{lines}\n", self.address)
    }

    /// A series of this upstream's metrics, with another label or none.
    pub fn series(&self, name: &str, label: &str) -> String {
        let comma = if label.is_empty() { "" } else { "," };
        format!(
            "flowgate_upstream_{name}{{upstream=\"{}\"{comma}{label}}}",
            self.address
        )
    }

    /// The requests that it has received.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        let received = self.received.lock().unwrap();
        let requests = received.iter().filter(|r| !r.bytes.contains("/auth/login"));
        requests.cloned().collect()
    }

    /// The requests since the last call of this.
    pub fn take(&self) -> Vec<ReceivedRequest> {
        let mut received = std::mem::take(&mut *self.received.lock().unwrap());
        received.retain(|r| !r.bytes.contains("/auth/login"));
        received
    }

    /// The bytes of its only request.
    pub fn only(&self) -> String {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received[0].bytes.clone()
    }

    /// Closes its listener and all its connections.
    pub async fn stop(self) -> SocketAddr {
        self.task.abort();
        let _ = self.task.await;
        self.address
    }
}

/// A response with a body and its length.
pub fn ok(kind: &str, body: &str) -> String {
    status("200 OK", kind, body)
}

/// The same with another status.
pub fn status(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}")
}

async fn serve(mut tcp: TcpStream, act: &(dyn Fn(&str) -> Action + Sync), note: impl Fn(String)) {
    let mut ahead = Vec::new();
    while let Some(request) = read_request(&mut tcp, &mut ahead).await {
        note(request.clone());
        let (response, then) = match act(&request) {
            Action::Respond(response) => (response, None),
            Action::RespondAndClose(response) => (response, Some(false)),
            Action::Hang(response) => (response, Some(true)),
            Action::Delay(ms, response) => {
                tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                (response, None)
            }
        };
        if tcp.write_all(response.as_bytes()).await.is_err() {
            return;
        }
        match then {
            None => {}
            Some(false) => return,
            Some(true) => drop(tcp.read_to_end(&mut Vec::new()).await),
        }
    }
}

/// The next request, whole; `None`: there is none.
async fn read_request(tcp: &mut TcpStream, ahead: &mut Vec<u8>) -> Option<String> {
    loop {
        // As many characters as bytes.
        let text: String = ahead
            .iter()
            .map(|b| if b.is_ascii() { char::from(*b) } else { '?' })
            .collect();
        if let Some(length) = length(&text) {
            return Some(
                String::from_utf8_lossy(&ahead.drain(..length).collect::<Vec<_>>()).into_owned(),
            );
        }
        let mut buffer = [0; 4096];
        match tcp.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => ahead.extend_from_slice(&buffer[..n]),
        }
    }
}

/// How long the request is, if it is whole.
fn length(text: &str) -> Option<usize> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let lower = head.to_ascii_lowercase();
    let head = head.len() + 4;
    if lower.contains("transfer-encoding: chunked") {
        let last = body.starts_with("0\r\n").then_some(0);
        let last = last.or_else(|| body.find("\r\n0\r\n").map(|at| at + 2))?;
        let end = body[last..].find("\r\n\r\n")?;
        return Some(head + last + end + 4);
    }
    let announced = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let whole = head + announced.map_or(0, |n| n.parse::<usize>().unwrap_or(0));
    (text.len() >= whole).then_some(whole)
}
