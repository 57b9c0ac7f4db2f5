//! `udp in` and `udp out` in a running engine, with real sockets at the other end.

use crate::bench::{Bench, debug};
use crate::steps;
use crate::steps::merged;
use serde_json::{Value as Json, json};
use std::net::UdpSocket;
use std::time::Duration;
use testing::ports;

fn udp_in(id: &str, port: u16, more: &Json) -> Json {
    merged(
        json!({ "id": id, "type": "udp in", "z": "t", "x": 1, "y": 1, "iface": "", "port": port.to_string(), "ipv": "udp4",
        "multicast": "false", "group": "", "datatype": "utf8", "wires": [["out"]] }),
        more,
    )
}

fn flow(nodes: &[Json]) -> Json {
    let mut flow = vec![
        json!({ "id": "t", "type": "tab", "label": "T" }),
        debug("out"),
    ];
    flow.extend_from_slice(nodes);
    Json::Array(flow)
}

#[tokio::test]
async fn datagrams_become_messages() {
    for (datatype, payload) in [
        ("utf8", json!("hi")),
        ("base64", json!("aGk=")),
        (
            "buffer",
            json!({ "type": "Buffer", "data": b"hi", "__enc__": true, "length": 2 }),
        ),
    ] {
        let port = ports::free();
        let mut bench = Bench::with(&flow(&[udp_in(
            "node",
            port,
            &json!({ "datatype": datatype }),
        )]))
        .await;
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"hi", ("127.0.0.1", port)).unwrap();
        let from = client.local_addr().unwrap();
        let mut came = bench.output().await.1;
        came.as_object_mut().unwrap().remove("_msgid");
        assert_eq!(
            came,
            json!({ "payload": payload, "fromip": from.to_string(), "ip": "127.0.0.1", "port": from.port() })
        );
    }
}

#[tokio::test]
async fn nodes_on_one_port_all_receive_and_send_from_it() {
    let port = ports::free();
    let out = json!({ "id": "answer", "type": "udp out", "z": "t", "x": 1, "y": 1, "addr": "", "port": "", "iface": "", "ipv": "udp4",
        "outport": port.to_string(), "base64": false, "multicast": "false", "wires": [] });
    let nodes = [
        udp_in("a", port, &json!({ "wires": [["out", "answer"]] })),
        udp_in("b", port, &json!({})),
        out,
    ];
    let deployed = flow(&nodes);
    let mut bench = Bench::with(&deployed).await;
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    for _ in 0..2 {
        client.send_to(b"ping", ("127.0.0.1", port)).unwrap();
        for _ in 0..2 {
            assert_eq!(bench.output().await.1["payload"], "ping");
        }
        let mut buffer = [0; 16];
        let (count, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..count], from.port()), (&b"ping"[..], port));
        // The ports are free at once for the nodes that come after.
        bench.deploy(&deployed, flows::DeploymentType::Full).await;
    }
}

#[tokio::test]
async fn a_multicast_group_is_joined() {
    let port = ports::free();
    let group = json!({ "multicast": "true", "group": "239.77.77.77", "iface": "lo" });
    let mut bench = Bench::with(&json!([])).await;
    bench
        .deploy(
            &flow(&[udp_in("node", port, &group)]),
            flows::DeploymentType::Full,
        )
        .await;
    assert_eq!(bench.status().await.1["text"], "lo : 127.0.0.1");
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    client
        .set_multicast_if_v4(&std::net::Ipv4Addr::LOCALHOST)
        .unwrap();
    let target: std::net::SocketAddr = format!("239.77.77.77:{port}").parse().unwrap();
    client.send_to(b"all", &target.into()).unwrap();
    assert_eq!(bench.output().await.1["payload"], "all");
    let wrong = json!({ "multicast": "true", "group": "10.0.0.1" });
    bench
        .deploy(
            &flow(&[udp_in("node", port, &wrong)]),
            flows::DeploymentType::Full,
        )
        .await;
    assert_eq!(bench.error().await.1, "error: -22");
}

#[tokio::test]
async fn payloads_are_sent_where_the_node_or_the_message_says() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let port = server.local_addr().unwrap().port();
    let table = [
        (
            json!({ "addr": "127.0.0.1", "port": port.to_string() }),
            json!({ "payload": "a" }),
            "a",
        ),
        (
            json!({ "addr": "localhost", "port": port }),
            json!({ "payload": 1.5 }),
            "1.5",
        ),
        (
            json!({ "addr": "", "port": "" }),
            json!({ "payload": { "$buffer": "raw" }, "ip": "127.0.0.1", "port": port }),
            "raw",
        ),
        (
            json!({ "addr": "127.0.0.1", "port": port, "base64": true }),
            json!({ "payload": "aGk=" }),
            "hi",
        ),
    ];
    for (more, message, expected) in table {
        let node = merged(
            json!({ "type": "udp out", "iface": "", "ipv": "udp4", "outport": "", "base64": false, "multicast": "false" }),
            &more,
        );
        let mut bench = steps::bench(&node, 0).await;
        steps::send(&bench, &message).await;
        assert_eq!(steps::next(&mut bench).await.0, "complete");
        let mut buffer = [0; 16];
        let count = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], expected.as_bytes());
    }
    let node =
        json!({ "type": "udp out", "addr": "no.such.invalid", "port": "1", "multicast": "false" });
    let mut bench = steps::bench(&node, 0).await;
    steps::send(&bench, &json!({ "payload": "x" })).await;
    let (first, second) = (steps::next(&mut bench).await, steps::next(&mut bench).await);
    let caught = if first.0 == "catch" {
        first.1
    } else {
        second.1
    };
    assert_eq!(caught, "udp : Error: getaddrinfo ENOTFOUND no.such.invalid");
}
