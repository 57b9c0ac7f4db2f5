//! `flowgate health`: asks the operations listener of the running gateway whether it is ready, for
//! a container's health check.

use crate::config::Config;
use crate::stdio::{print_line, report};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// For connecting, and for the response. Our choice: less than the least time-out of a container's
/// health check that is of use.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes of a response. Our choice: a state and a line for each upstream.
const MAX_LENGTH: u64 = 64 << 10;

/// The states in which it serves requests.
const SERVING: [&str; 2] = ["ready", "degraded"];

/// Prints the state; 0 if it serves requests.
pub(super) fn show(config: &Config) -> ExitCode {
    let Some(address) = config.operations else {
        report(format_args!(
            "flowgate: operations is \"off\" in the configuration: there is no listener to ask"
        ));
        return ExitCode::FAILURE;
    };
    let address = reachable(address);
    let state = match ask(address) {
        Ok(state) => state,
        Err(error) => {
            report(format_args!("flowgate: http://{address}/readyz: {error}"));
            return ExitCode::FAILURE;
        }
    };
    print_line(&state);
    if SERVING.contains(&&*state) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Where this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.take(MAX_LENGTH).read_to_string(&mut response)?;
    state(&response).ok_or_else(|| io::Error::other("this is no flowgate"))
}

/// The state in a response.
fn state(response: &str) -> Option<String> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let is_http = head.starts_with("HTTP/1.1 200 ") || head.starts_with("HTTP/1.1 503 ");
    let body: Value = serde_json::from_str(body).ok().filter(|_| is_http)?;
    Some(body.get("status")?.as_str()?.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_this_machine() {
        for (listens, asked) in [
            ("0.0.0.0:9090", "127.0.0.1:9090"),
            ("[::]:9090", "[::1]:9090"),
            ("192.0.2.7:9090", "192.0.2.7:9090"),
        ] {
            assert_eq!(reachable(listens.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[test]
    fn the_state_is_read_from_flowgates_response_only() {
        let response =
            |status: &str, body: &str| format!("HTTP/1.1 {status}\r\na: b\r\n\r\n{body}");
        let ready = response("200 OK", r#"{"status":"ready"}"#);
        assert_eq!(state(&ready).as_deref(), Some("ready"));
        let draining = response("503 Service Unavailable", r#"{"status":"draining"}"#);
        assert_eq!(state(&draining).as_deref(), Some("draining"));
        for other in [
            response("404 Not Found", r#"{"status":"ready"}"#),
            response("200 OK", "ok"),
            response("200 OK", r#"{"state":1}"#),
            "SSH-2.0\r\n".to_owned(),
        ] {
            assert_eq!(state(&other), None, "{other}");
        }
    }
}
