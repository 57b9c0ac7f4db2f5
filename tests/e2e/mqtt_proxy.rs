//! An MQTT broker over WebSocket is reached through the proxy that the environment names.

use crate::harness::{Process, config_text, program};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The head of a request.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(Duration::from_secs(30), stream.read_u8()).await;
        head.push(byte.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn an_mqtt_broker_over_websocket_is_reached_through_the_proxy_of_the_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("gateway.toml"), config_text("")).unwrap();
    let flows = r#"[
        {"id":"t","type":"tab","label":"T"},
        {"id":"b","type":"mqtt-broker","broker":"ws://broker.test:9001/mqtt","port":"","clientid":"c","autoConnect":true},
        {"id":"n","type":"mqtt in","z":"t","topic":"a","qos":"0","broker":"b","x":1,"y":1,"wires":[[]]}]"#;
    std::fs::create_dir(directory.path().join("data")).unwrap();
    std::fs::write(directory.path().join("data/flows.json"), flows).unwrap();
    let mut command = program(directory.path(), &["run"]);
    command.env("ws_proxy", format!("http://ann:secret@{address}"));
    let _gateway = Process::launch(command, directory.path()).unwrap();
    let accepted = tokio::time::timeout(Duration::from_secs(30), proxy.accept()).await;
    let (mut stream, _) = accepted.unwrap().unwrap();
    let asked = head(&mut stream).await;
    assert!(
        asked.starts_with("CONNECT broker.test:9001 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("\r\nProxy-Authorization: Basic YW5uOnNlY3JldA==\r\n"),
        "{asked}"
    );
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let upgrade = head(&mut stream).await;
    assert!(upgrade.starts_with("GET /mqtt HTTP/1.1\r\n"), "{upgrade}");
    let protocol = "sec-websocket-protocol: mqtt\r\n";
    assert!(upgrade.to_ascii_lowercase().contains(protocol), "{upgrade}");
}
