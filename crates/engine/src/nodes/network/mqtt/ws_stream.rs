//! A byte stream over a WebSocket, for MQTT over `ws://` (OASIS MQTT 5.0 §6).

use crate::nodes::network::connect::Stream;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use url::Url;
use value::Failure;

/// Bytes on their way between the two halves. Our choice.
const BUFFER: usize = 64 * 1024;

/// Opens a WebSocket with this subprotocol over a connection; written bytes are sent as binary
/// frames.
pub(super) async fn over(stream: Stream, url: &Url, protocol: &str) -> Result<Stream, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::error(e.to_string());
    let mut request = url.as_str().into_client_request().map_err(|e| wrong(&e))?;
    let protocol = HeaderValue::from_str(protocol).map_err(|e| wrong(&e))?;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocol);
    let (socket, _) = tokio_tungstenite::client_async(request, stream)
        .await
        .map_err(|e| wrong(&e))?;
    let (near, far) = tokio::io::duplex(BUFFER);
    tokio::task::spawn_local(bridge(socket, far));
    Ok(Box::new(near))
}

/// Carries bytes both ways until either end is gone.
async fn bridge(mut socket: WebSocketStream<Stream>, mut far: DuplexStream) {
    let mut buffer = vec![0; BUFFER];
    loop {
        tokio::select! {
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                if let Message::Binary(_) | Message::Text(_) = message
                    && far.write_all(&message.into_data()).await.is_err()
                {
                    return;
                }
            }
            read = far.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    let frame = Message::binary(buffer[..count].to_vec());
                    if socket.send(frame).await.is_err() {
                        return;
                    }
                }
                _ => {
                    // The other end may have gone first.
                    let _ = socket.close(None).await;
                    return;
                }
            },
        }
    }
}
