//! [`RecordingUpstream`]: a runtime behind the gateway that reads requests strictly. It records
//! each request, and every byte that does not belong to a well-formed one.

use crate::strict::{self, Request};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// When the upstream responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RespondWhen {
    /// After the whole request.
    Whole,
    /// After the head of a request whose target contains `/early`, else after the whole request.
    Early,
    /// The same; after such a head it reads nothing more.
    EarlyThenStopReading,
}

/// What the runtime has received.
#[derive(Debug, Default, Clone)]
pub struct Record {
    /// Complete requests with the number of their connection, health checks aside.
    pub requests: Vec<(usize, Request)>,
    /// Connections that ended inside a request, with its bytes.
    pub cut: Vec<(usize, String)>,
    /// Requests that have begun, by their connection, with all bytes so far.
    pub begun: BTreeMap<usize, String>,
    /// What was not HTTP.
    pub violations: Vec<String>,
}

/// The runtime.
pub struct RecordingUpstream {
    pub address: SocketAddr,
    record: Arc<Mutex<Record>>,
    _task: JoinSet<()>,
}

impl RecordingUpstream {
    pub async fn start(answers: RespondWhen) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Arc::<Mutex<Record>>::default();
        let shared = Arc::clone(&record);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 1.. {
                let (tcp, _) = listener.accept().await.unwrap();
                connections.spawn(serve(tcp, number, answers, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            record,
            _task: task,
        }
    }

    /// The config of a gateway with one worker, so that all requests share one pool of connections.
    pub fn config(&self) -> String {
        format!(
            "[upstream]\nurl = \"http://{}\"\nhealth = \"1h\"\nfirst_byte = \"5s\"\n[server]\nworkers = 1\n",
            self.address
        )
    }

    pub fn record(&self) -> Record {
        self.lock().clone()
    }

    /// The same, and forgets it.
    pub fn take(&self) -> Record {
        std::mem::take(&mut *self.lock())
    }

    /// The bytes of requests that are under way.
    pub fn begun(&self) -> String {
        let record = self.lock();
        record.begun.values().map(String::as_str).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }
}

const CONTENT: &str = r#"{"flows":[],"rev":"1","id":"a"}"#;

fn response(method: &str) -> String {
    let body = if method == "HEAD" { "" } else { CONTENT };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        CONTENT.len()
    )
}

async fn serve(
    mut tcp: TcpStream,
    number: usize,
    answers: RespondWhen,
    record: Arc<Mutex<Record>>,
) {
    let mut ahead = Vec::new();
    let mut answered = false;
    loop {
        match strict::read(&ahead) {
            Err(violation) => {
                let bytes = String::from_utf8_lossy(&ahead);
                let violation = format!("{violation} in {bytes:?}");
                record.lock().unwrap().violations.push(violation);
                return;
            }
            Ok(Some((request, length))) => {
                ahead.drain(..length);
                let response = response(&request.method);
                if !request.target.starts_with("/auth/login") {
                    record.lock().unwrap().requests.push((number, request));
                }
                if !answered && tcp.write_all(response.as_bytes()).await.is_err() {
                    return;
                }
                answered = false;
                continue;
            }
            Ok(None) => {}
        }
        let text = String::from_utf8_lossy(&ahead).into_owned();
        record.lock().unwrap().begun.insert(number, text.clone());
        let early = text.contains("\r\n\r\n") && text.contains("/early");
        if answers != RespondWhen::Whole && early && !answered {
            answered = true;
            if tcp.write_all(response("POST").as_bytes()).await.is_err() {
                return;
            }
            if answers == RespondWhen::EarlyThenStopReading {
                std::future::pending::<()>().await;
            }
        }
        let mut piece = [0; 4096];
        if let Ok(count @ 1..) = tcp.read(&mut piece).await {
            ahead.extend_from_slice(&piece[..count]);
            continue;
        }
        let mut record = record.lock().unwrap();
        record.begun.remove(&number);
        if !ahead.is_empty() {
            record.cut.push((number, text));
        }
        return;
    }
}
