//! Records for a syslog server: messages of RFC 5424, framed with their length (RFC 5425 §4.3, RFC
//! 6587 §3.4.1), over TLS or TCP.
//!
//! Syslog has no acknowledgement, and what was written to a connection may be lost with it: a proxy
//! in front of a server that is gone takes everything and ends the connection. So records are only
//! *sent*. Each batch has a connection of its own, which is closed for writing after the last
//! message, and which the server may close only then; and records are kept until a later connection
//! was open for some time ([`probe`]), as one to a server that is gone is not.

use super::Origin;
use crate::audit::{Batch, Record};
use crate::upstream::Outbound;
use std::fmt::Write;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Facility 13, "log audit", and the severities informational and warning (RFC 5424 §6.2.1).
const INFORMATIONAL: u8 = 13 * 8 + 6;
const WARNING: u8 = 13 * 8 + 4;
/// The largest `sequenceId`; 1 follows it (RFC 5424 §7.3.1).
const MAX_SEQUENCE: u64 = 2_147_483_647;
/// The most that is read of what a server says. It should say nothing.
const LIMIT: u64 = 4096;

/// The time in which a proxy whose server refuses connections closes that of a batch.
const SETTLE: Duration = Duration::from_millis(100);
/// The time for which a connection is open that shows a server: a proxy tries to reach one for some
/// 3 s.
pub(super) const PROBE: Duration = Duration::from_secs(5);

/// Sends a batch; an error: some of it may not have arrived.
pub(super) async fn send(
    server: &Outbound,
    from: &Origin<'_>,
    batch: &Batch,
) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut text = String::new();
    for record in &batch.records {
        frame(&mut text, from, record);
    }
    let mut stream = server.connect().await.map_err(failed)?;
    stream.write_all(text.as_bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    stays_open(&mut stream, SETTLE).await?;
    stream.shutdown().await.map_err(failed)?;
    let mut said = Vec::new();
    stream
        .take(LIMIT)
        .read_to_end(&mut said)
        .await
        .map_err(failed)?;
    Ok(())
}

/// Shows that a server keeps a connection open; an error: what was sent before may not have
/// arrived.
pub(super) async fn probe(server: &Outbound) -> Result<(), String> {
    let mut stream = server.connect().await.map_err(|error| error.to_string())?;
    stays_open(&mut stream, PROBE).await?;
    // It is over in any case.
    let _ = timeout(SETTLE, stream.shutdown()).await;
    Ok(())
}

/// An error: the server closes the connection within this time.
async fn stays_open(
    stream: &mut (impl AsyncReadExt + Unpin),
    time: Duration,
) -> Result<(), String> {
    let mut said = [0; 64];
    let until_closed = async {
        while stream.read(&mut said).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    match timeout(time, until_closed).await {
        Err(_) => Ok(()),
        Ok(Ok(())) => Err(
            "the connection was closed by the server, or by a proxy in front of it, before its end"
                .to_owned(),
        ),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

/// A message with its length in bytes.
fn frame(text: &mut String, from: &Origin<'_>, record: &Record) {
    let message = message(from, record);
    // Writing to a string does not fail.
    let _ = write!(text, "{} {message}", message.len());
}

/// `PROCID` is the identity of the log: another one is a discontinuity (RFC 5424 §6.2.6). `MSGID`
/// is the event, `sequenceId` the number of the record, the message the record itself as JSON.
fn message(from: &Origin<'_>, record: &Record) -> String {
    let Record {
        seq,
        event,
        time,
        line,
    } = record;
    let refused = ["fail", "denied", "lockout", "guessing", "full", "repaired"];
    let priority = if event.split('.').any(|word| refused.contains(&word)) {
        WARNING
    } else {
        INFORMATIONAL
    };
    let sequence = (seq.saturating_sub(1)) % MAX_SEQUENCE + 1;
    let (host, log, event) = (name(from.host, 255), name(from.log, 128), name(event, 32));
    format!(
        "<{priority}>1 {time} {host} flowgate {log} {event} [meta sequenceId=\"{sequence}\"] {line}"
    )
}

/// A field of the head: printable ASCII without spaces, of a limited length; `-` without any (RFC
/// 5424 §6).
fn name(text: &str, length: usize) -> String {
    let printable = text.chars().filter(char::is_ascii_graphic);
    let name: String = printable.take(length).collect();
    if name.is_empty() {
        "-".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: &str, seq: u64) -> Record {
        Record {
            seq,
            event: event.to_owned(),
            time: "2023-11-14T22:13:20Z".to_owned(),
            line: "{\"user\":\"ä\"}".to_owned(),
        }
    }

    #[test]
    fn messages_have_the_form_of_rfc_5424_and_the_length_in_bytes() {
        let mut text = String::new();
        let from = Origin {
            host: "gate",
            log: "0a1b",
        };
        frame(&mut text, &from, &record("auth.login", 7));
        let message = "<110>1 2023-11-14T22:13:20Z gate flowgate 0a1b auth.login [meta sequenceId=\"7\"] {\"user\":\"ä\"}";
        assert_eq!(text, format!("{} {message}", message.len()));
        let failed = super::message(
            &Origin { host: "", log: "" },
            &record("auth.login.fail.credentials", MAX_SEQUENCE + 1),
        );
        assert!(failed.starts_with("<108>1 2023-11-14T22:13:20Z - flowgate - auth.login.fail.credentials [meta sequenceId=\"1\"] {"), "{failed}");
    }
}
