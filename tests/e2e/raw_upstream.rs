//! A runtime behind the gateway whose every byte a test writes itself.

use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Calls `serve` with each connection and the head of its first request; health checks get no
/// response.
pub(crate) async fn start<F>(serve: impl Fn(TcpStream, String) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(tcp.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            if !head.contains("/auth/login") {
                connections.spawn(serve(tcp, head));
            }
        }
    });
    address
}
