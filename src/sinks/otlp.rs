//! Records for a collector of OpenTelemetry: logs of OTLP/HTTP 1.x, as JSON.

use super::Origin;
use crate::audit::{Batch, Record, from_rfc3339};
use crate::otlp::{attribute, headers, number, resource, scope};
use bytes::Bytes;
use crypto::Secret;
use hyper::HeaderMap;
use serde_json::{Value, json};

/// Severity numbers of the logs data model: INFO and WARN.
const INFO: (u8, &str) = (9, "INFO");

/// The head and the body of the request for a batch.
pub(super) fn request(
    from: &Origin<'_>,
    token: Option<&Secret>,
    batch: &Batch,
) -> Result<(HeaderMap, Bytes), String> {
    let records = batch.records.iter();
    let records: Vec<Value> = records.map(|record| log_record(from.log, record)).collect();
    let logs = json!({ "resourceLogs": [{
        "resource": resource(from.host),
        "scopeLogs": [{ "scope": scope("flowgate.audit"), "logRecords": records }],
    }] });
    Ok((headers(token)?, logs.to_string().into()))
}

/// The body is the line as it is in the log, so that its place in the chain can be checked.
fn log_record(log: &str, record: &Record) -> Value {
    let nanos = from_rfc3339(&record.time).unwrap_or_default() * 1_000_000_000;
    let mut attributes = vec![
        attribute("event.name", &record.event),
        number("flowgate.audit.seq", record.seq),
        attribute("flowgate.audit.log", log),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::AUTHORIZATION;

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
        let from = Origin {
            host: "gate",
            log: "0a1b",
        };
        let (headers, body) = request(&from, Some(&Secret::new("abc".into())), &batch).unwrap();
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
                "flowgate.audit.log",
                "user.name",
                "client.address"
            ]
        );
    }
}
