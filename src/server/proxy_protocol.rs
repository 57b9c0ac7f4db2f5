//! The PROXY protocol, versions 1 and 2: the header that a proxy sends first, with the address of
//! the client whose connection it passes on
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>).
//!
//! Ours, as the crate `ppp` accepts ports with a sign, refuses LOCAL with an unknown family, and
//! leaves the reading to us.
//!
//! Reads not one byte beyond the header. Whether the proxy may be believed, who calls has asked
//! before.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The signature of version 2 (proxy-protocol.txt §2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, its end included (proxy-protocol.txt §2.1).
const LINE: usize = 107;
/// The longest header of version 2 that we take, its TLVs included: as nginx.
const HEADER: usize = 4096;
/// Signature, version and command, family, length (proxy-protocol.txt §2.2).
const HEAD: usize = 16;

/// Why a connection does not begin as it must.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Neither version, or broken.
    #[error("no PROXY header, or a malformed one")]
    Malformed,
    /// It ended, or the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads the header. `None`: the connection is the proxy's own, or no client is named.
pub(super) async fn read(tcp: &mut TcpStream) -> Result<Option<SocketAddr>, Error> {
    // Both versions are longer than this.
    let mut start = [0; SIGNATURE.len()];
    tcp.read_exact(&mut start).await?;
    if start == SIGNATURE {
        return version_2(tcp).await;
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\n") {
        if !b"PROXY ".iter().eq(line.iter().take(6)) || line.len() >= LINE {
            return Err(Error::Malformed);
        }
        read_line(tcp, &mut line).await?;
    }
    source_in(&line)
}

/// Takes what has come, up to the end of the line or the longest that one may be.
async fn read_line(tcp: &mut TcpStream, line: &mut Vec<u8>) -> Result<(), Error> {
    let mut ahead = [0; LINE];
    let room = LINE - line.len();
    let count = tcp.peek(ahead.get_mut(..room).unwrap_or_default()).await?;
    let come = ahead.get(..count).unwrap_or_default();
    let taken = come
        .iter()
        .position(|&b| b == b'\n')
        .map_or(count, |at| at + 1);
    if taken == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let before = line.len();
    line.resize(before + taken, 0);
    tcp.read_exact(line.get_mut(before..).unwrap_or_default())
        .await?;
    Ok(())
}

/// The client in a line of version 1, its end included.
pub(super) fn source_in(line: &[u8]) -> Result<Option<SocketAddr>, Error> {
    let line = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_suffix("\r\n"));
    let line = line.ok_or(Error::Malformed)?;
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        // Whatever else stands there is to be ignored (proxy-protocol.txt §2.1).
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", "TCP4", ref ends @ ..] => ends_in::<Ipv4Addr>(ends),
        ["PROXY", "TCP6", ref ends @ ..] => ends_in::<Ipv6Addr>(ends),
        _ => Err(Error::Malformed),
    }
}

/// Source and destination, and their ports; the destination must be right too.
fn ends_in<A: FromStr + Into<IpAddr>>(words: &[&str]) -> Result<Option<SocketAddr>, Error> {
    let &[source, destination, from, to] = words else {
        return Err(Error::Malformed);
    };
    let address = |text: &str| text.parse::<A>().map_err(|_| Error::Malformed);
    address(destination)?;
    port(to)?;
    Ok(Some(SocketAddr::new(address(source)?.into(), port(from)?)))
}

/// A port as version 1 writes it: no sign, no leading zero.
fn port(text: &str) -> Result<u16, Error> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let port = text.parse().ok().filter(|_| plain);
    port.ok_or(Error::Malformed)
}

/// Reads the rest of a version 2 header, after the signature.
async fn version_2(tcp: &mut TcpStream) -> Result<Option<SocketAddr>, Error> {
    let mut head = [0; HEAD - SIGNATURE.len()];
    tcp.read_exact(&mut head).await?;
    let [command, family, length @ ..] = head;
    let length = usize::from(u16::from_be_bytes(length));
    if length > HEADER - HEAD {
        return Err(Error::Malformed);
    }
    let mut rest = vec![0; length];
    tcp.read_exact(&mut rest).await?;
    match command {
        // LOCAL: the proxy's own connection, whatever else the header contains (proxy-protocol.txt
        // §2.2).
        0x20 => Ok(None),
        0x21 => source_of(family, &rest),
        _ => Err(Error::Malformed),
    }
}

/// The client's address in a header of this family; the TLVs after the addresses are ignored.
pub(super) fn source_of(family: u8, rest: &[u8]) -> Result<Option<SocketAddr>, Error> {
    match family {
        // TCP over IPv4: source, destination, their ports.
        0x11 => ends_of::<4>(rest).map(Some),
        // TCP over IPv6
        0x21 => ends_of::<16>(rest).map(Some),
        // Unspecified. A Unix socket: two paths of 108 bytes.
        0x00 => Ok(None),
        0x31 if rest.len() >= 216 => Ok(None),
        // Datagrams, which this connection is not made of; and what no version has
        // (proxy-protocol.txt §2.2: drop it).
        _ => Err(Error::Malformed),
    }
}

fn ends_of<const N: usize>(rest: &[u8]) -> Result<SocketAddr, Error>
where
    [u8; N]: Into<IpAddr>,
{
    let (source, rest) = rest.split_first_chunk::<N>().ok_or(Error::Malformed)?;
    let (_, rest) = rest.split_first_chunk::<N>().ok_or(Error::Malformed)?;
    let (&[high, low, ..], _) = rest.split_first_chunk::<4>().ok_or(Error::Malformed)?;
    Ok(SocketAddr::new(
        (*source).into(),
        u16::from_be_bytes([high, low]),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// The address parsed from these bytes, sent in pieces of `at_a_time`; bytes after the header
    /// must remain unread.
    async fn client_address(bytes: &[u8], at_a_time: usize) -> Option<Option<String>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        proxy.set_nodelay(true).unwrap();
        let (mut tcp, _) = listener.accept().await.unwrap();
        let sending = async {
            for piece in bytes.chunks(at_a_time) {
                let _ = proxy.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            let _ = proxy.write_all(b"GET").await;
            drop(proxy);
        };
        let reading = async {
            let client_address = read(&mut tcp).await.ok()?;
            let mut after = String::new();
            tcp.read_to_string(&mut after).await.unwrap();
            assert_eq!(after, "GET");
            Some(client_address.map(|address| address.to_string()))
        };
        tokio::join!(sending, reading).1
    }

    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    fn tcp4() -> Vec<u8> {
        vec![192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb]
    }

    #[tokio::test]
    async fn both_versions_name_the_client_and_no_byte_after_them_is_read() {
        let known = |text: &str| Some(Some(text.to_owned()));
        let mut tcp6 = [0x20, 1, 0xd, 0xb8].to_vec();
        tcp6.extend([0; 28]);
        tcp6.extend([0, 80, 1, 187]);
        let tlvs = [&tcp4()[..], &[0x04, 0, 3, 1, 2, 3, 0x20, 0, 0]].concat();
        for (bytes, expected) in [
            (
                b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n".to_vec(),
                known("192.0.2.1:56324"),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n".to_vec(),
                known("[2001:db8::1]:1"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), Some(None)),
            (
                b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".to_vec(),
                Some(None),
            ),
            (version_2(0x21, 0x11, &tcp4()), known("192.0.2.1:56324")),
            (version_2(0x21, 0x11, &tlvs), known("192.0.2.1:56324")),
            (version_2(0x21, 0x21, &tcp6), known("[2001:db8::]:80")),
            (version_2(0x21, 0x31, &[b'/'; 216]), Some(None)),
            (version_2(0x21, 0x00, &[]), Some(None)),
            (version_2(0x21, 0x00, &[9; 4080]), Some(None)),
            (version_2(0x20, 0x00, &[]), Some(None)),
            (version_2(0x20, 0x77, &tcp4()), Some(None)),
        ] {
            for at_a_time in [1, 5, 5000] {
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                assert_eq!(
                    client_address(&bytes, at_a_time).await,
                    expected,
                    "{shown:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn everything_else_is_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(LINE - 15));
        let lines = [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY\tTCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 here 1 2\r\n",
            "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
            "PROXY TCP4 ::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UNKNOWN \u{e9}\n",
            "PROXY TCP4 192.0",
            long.as_str(),
        ];
        let mut cut = version_2(0x21, 0x11, &tcp4());
        cut.truncate(20);
        let mut other = version_2(0x21, 0x11, &tcp4());
        other[5] = b'Q';
        let blocks = [
            cut,
            other,
            version_2(0x21, 0x11, &tcp4()[..11]),
            version_2(0x21, 0x21, &tcp4()),
            version_2(0x21, 0x31, &[b'/'; 215]),
            version_2(0x21, 0x12, &tcp4()),
            version_2(0x21, 0x41, &tcp4()),
            version_2(0x22, 0x11, &tcp4()),
            version_2(0x11, 0x11, &tcp4()),
            version_2(0x21, 0x00, &[9; 4081]),
        ];
        let lines = lines.iter().map(|line| line.as_bytes().to_vec());
        for bytes in lines.chain(blocks) {
            for at_a_time in [3, 5000] {
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                assert_eq!(client_address(&bytes, at_a_time).await, None, "{shown:?}");
            }
        }
    }
}
