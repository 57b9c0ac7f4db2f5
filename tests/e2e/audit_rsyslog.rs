//! A real rsyslog receives the audit log.

use crate::harness::{Gateway, KillOnDrop, until};
use crate::reverse_proxies::free_address;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use tokio::net::TcpStream;

/// What a real rsyslog needs to receive syslog at a port of 127.0.0.1, and to write the messages as
/// lines. Without TLS, which `audit_sinks` has: Debian's rsyslog 8.2302 closes descriptors of TLS
/// connections twice now and then, and writes its file into another connection.
const RSYSLOG: &str = r#"
global(maxMessageSize="64k")
module(load="imtcp")
template(name="message" type="string" string="%msg%\n")
input(type="imtcp" address="127.0.0.1" port="PORT")
action(type="omfile" file="DIR/received.log" template="message")
"#;

/// rsyslog with this configuration, listening at this address.
async fn rsyslog(directory: &Path, config: &str, address: SocketAddr) -> KillOnDrop {
    fs::write(directory.join("rsyslog.conf"), config).unwrap();
    // Debian has it where only root looks for programs.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let child = Command::new("rsyslogd")
        .env("PATH", path)
        .args(["-n", "-i", "NONE", "-f"])
        .arg(directory.join("rsyslog.conf"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = KillOnDrop(child);
    until("rsyslog listens", async || {
        TcpStream::connect(address).await.is_ok()
    })
    .await;
    child
}

#[tokio::test]
async fn a_real_rsyslog_writes_the_lines_of_the_log_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let address = free_address();
    let config = RSYSLOG
        .replace("DIR", path.to_str().unwrap())
        .replace("PORT", &address.port().to_string());
    let _rsyslog = rsyslog(&path, &config, address).await;
    let lines =
        format!("[[audit.sink]]\ntype = \"syslog\"\nurl = \"tcp://{address}\"\ntimeout = \"5m\"\n");
    let gateway = Gateway::open(&lines, directory);
    for user in ["admin", "reader", "deployer"] {
        gateway.sign_in(user).await;
    }
    let received = || fs::read_to_string(path.join("received.log")).unwrap_or_default();
    until("the sign-ins are written", async || {
        received().matches("auth.login").count() == 3
    })
    .await;
    let directory = gateway.stop().await;
    let whole = fs::read_to_string(directory.path().join("data/audit.log")).unwrap();
    until("the end is written", async || {
        received().lines().count() >= whole.lines().count()
    })
    .await;
    assert_eq!(received(), whole);
}
