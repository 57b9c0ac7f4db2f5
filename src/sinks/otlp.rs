//! Records for a collector of OpenTelemetry: logs of OTLP/HTTP 1.x, as JSON.

use crate::audit::{Batch, Record, from_rfc3339};
use bytes::Bytes;
use crypto::Secret;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

/// Severity numbers of the logs data model: INFO and WARN.
const INFO: (u8, &str) = (9, "INFO");

/// The head and the body of the request for a batch.
pub(super) fn request(
    gateway: &str,
    token: Option<&Secret>,
    batch: &Batch,
) -> Result<(HeaderMap, Bytes), String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(token) = token {
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
        let mut bearer = bearer.map_err(|_| "the token has other characters than a token")?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    let records: Vec<Value> = batch.records.iter().map(log_record).collect();
    let attributes = [
        attribute("service.name", "flowgate"),
        attribute("service.instance.id", gateway),
        attribute("host.name", gateway),
    ];
    let scope = json!({ "name": "flowgate.audit", "version": env!("CARGO_PKG_VERSION") });
    let logs = json!({ "resourceLogs": [{
        "resource": { "attributes": attributes },
        "scopeLogs": [{ "scope": scope, "logRecords": records }],
    }] });
    Ok((headers, logs.to_string().into()))
}

/// The body is the line as it is in the log, so that its place in the chain can be checked.
fn log_record(record: &Record) -> Value {
    // Numbers of 64 bits are text in the JSON of protobuf.
    let nanos = from_rfc3339(&record.time).unwrap_or_default() * 1_000_000_000;
    let mut attributes = vec![
        attribute("event.name", &record.event),
        json!({ "key": "flowgate.audit.seq", "value": { "intValue": record.seq.to_string() } }),
    ];
    let fields: Value = serde_json::from_str(&record.line).unwrap_or_default();
    for (field, name) in [("user", "user.name"), ("address", "client.address")] {
        let text = fields[field].as_str().filter(|text| !text.is_empty());
        attributes.extend(text.map(|text| attribute(name, text)));
    }
    json!({
        "timeUnixNano": nanos.to_string(),
        "observedTimeUnixNano": nanos.to_string(),
        "severityNumber": INFO.0,
        "severityText": INFO.1,
        "eventName": record.event,
        "body": { "stringValue": record.line },
        "attributes": attributes,
    })
}

fn attribute(key: &str, text: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": text } })
}

/// The records that a collector has rejected for good, with its reason: the specification forbids to send them again.
pub(super) fn rejected(body: &[u8]) -> Option<(u64, String)> {
    let response: Value = serde_json::from_slice(body).ok()?;
    let partial = &response["partialSuccess"];
    let count = &partial["rejectedLogRecords"];
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    let reason = partial["errorMessage"].as_str().unwrap_or_default();
    (count > 0).then(|| (count, reason.chars().take(256).collect()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_line_its_event_its_number_and_its_user() {
        let record = Record {
            seq: 7,
            event: "auth.login".to_owned(),
            time: "2023-11-14T22:13:20Z".to_owned(),
            line: r#"{"seq":7,"user":"ann","address":"192.0.2.7"}"#.to_owned(),
        };
        let batch = Batch {
            records: vec![record.clone()],
            missing: 0,
        };
        let (headers, body) = request("gate", Some(&Secret::new("abc".into())), &batch).unwrap();
        assert_eq!(headers[AUTHORIZATION], "Bearer abc");
        let logs: Value = serde_json::from_slice(&body).unwrap();
        let found = &logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(found["timeUnixNano"], "1700000000000000000");
        assert_eq!(found["body"]["stringValue"], record.line.as_str());
        let keys: Vec<_> = found["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a["key"].clone())
            .collect();
        assert_eq!(
            keys,
            [
                "event.name",
                "flowgate.audit.seq",
                "user.name",
                "client.address"
            ]
        );
    }

    #[test]
    fn rejected_records_are_counted_in_both_spellings_of_numbers() {
        let partial = |count: &str| {
            let body = format!(
                r#"{{"partialSuccess":{{"rejectedLogRecords":{count},"errorMessage":"old"}}}}"#
            );
            rejected(body.as_bytes())
        };
        assert_eq!(partial("\"3\""), Some((3, "old".to_owned())));
        assert_eq!(partial("3"), Some((3, "old".to_owned())));
        assert_eq!(partial("0"), None);
        assert_eq!(rejected(b"{}"), None);
        assert_eq!(rejected(b""), None);
    }
}
