//! Records for a syslog server: messages of RFC 5424, framed with their length (RFC 5425 §4.3, RFC 6587 §3.4.1), over TLS or
//! TCP.
//!
//! Syslog has no acknowledgement, and what was written to a connection may be lost with it. So each batch has a connection of its
//! own, which is closed for writing after the last message: a server that closes its side without an error has read them all.

use crate::audit::{Batch, Record};
use crate::upstream::Outbound;
use std::fmt::Write;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Facility 13, "log audit", and the severities informational and warning (RFC 5424 §6.2.1).
const INFORMATIONAL: u8 = 13 * 8 + 6;
const WARNING: u8 = 13 * 8 + 4;
/// The largest `sequenceId`; 1 follows it (RFC 5424 §7.3.1).
const MAX_SEQUENCE: u64 = 2_147_483_647;
/// The most that is read of what a server says. It should say nothing.
const LIMIT: u64 = 4096;

/// Sends a batch; an error: some of it may not have arrived.
pub(super) async fn send(server: &Outbound, host: &str, batch: &Batch) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut text = String::new();
    for record in &batch.records {
        frame(&mut text, host, record);
    }
    let mut stream = server.connect().await.map_err(failed)?;
    stream.write_all(text.as_bytes()).await.map_err(failed)?;
    stream.shutdown().await.map_err(failed)?;
    let mut said = Vec::new();
    stream
        .take(LIMIT)
        .read_to_end(&mut said)
        .await
        .map_err(failed)?;
    Ok(())
}

/// A message with its length in bytes.
fn frame(text: &mut String, host: &str, record: &Record) {
    let message = message(host, record);
    // Writing to a string does not fail.
    let _ = write!(text, "{} {message}", message.len());
}

/// `MSGID` is the event, `sequenceId` the number of the record, the message the record itself as JSON.
fn message(host: &str, record: &Record) -> String {
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
    let (host, event) = (name(host, 255), name(event, 32));
    format!(
        "<{priority}>1 {time} {host} flowgate - {event} [meta sequenceId=\"{sequence}\"] {line}"
    )
}

/// A field of the head: printable ASCII without spaces, of a limited length; `-` without any (RFC 5424 §6).
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
        frame(&mut text, "gate", &record("auth.login", 7));
        let message = "<110>1 2023-11-14T22:13:20Z gate flowgate - auth.login [meta sequenceId=\"7\"] {\"user\":\"ä\"}";
        assert_eq!(text, format!("{} {message}", message.len()));
        let failed = super::message("", &record("auth.login.fail.credentials", MAX_SEQUENCE + 1));
        assert!(failed.starts_with("<108>1 2023-11-14T22:13:20Z - flowgate - auth.login.fail.credentials [meta sequenceId=\"1\"] {"), "{failed}");
    }
}
