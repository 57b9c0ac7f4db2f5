//! OTLP/HTTP 1.x as JSON: the parts that logs and traces have in common.

use crypto::Secret;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

/// The most characters of a collector's reason. Our choice: one line of a log.
const MAX_REASON: usize = 256;

/// The head of a request to a collector; an error: the token cannot be sent.
pub fn headers(token: Option<&Secret>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(token) = token {
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
        let mut bearer = bearer.map_err(|_| "the token has other characters than a token")?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// The resource of everything that this gateway sends; `gateway` is the machine's name.
pub fn resource(gateway: &str) -> Value {
    json!({ "attributes": [
        attribute("service.name", "flowgate"),
        attribute("service.instance.id", gateway),
        attribute("host.name", gateway),
    ] })
}

/// The instrumentation scope of this name.
pub fn scope(name: &str) -> Value {
    json!({ "name": name, "version": env!("CARGO_PKG_VERSION") })
}

/// An attribute with a text.
pub fn attribute(key: &str, text: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": text } })
}

/// An attribute with a number. Numbers of 64 bits are text in the JSON of protobuf.
pub fn number(key: &str, number: u64) -> Value {
    json!({ "key": key, "value": { "intValue": number.to_string() } })
}

/// The items that a collector has rejected for good, of so many that were `sent`, with its reason:
/// the specification forbids to send them again. `field` has their number: `rejectedLogRecords` or
/// `rejectedSpans`. An error: it has rejected a number of them that cannot be.
pub fn rejected(body: &[u8], field: &str, sent: u64) -> Result<Option<(u64, String)>, String> {
    let response: Value = serde_json::from_slice(body).unwrap_or_default();
    let partial = &response["partialSuccess"];
    let count = match &partial[field] {
        Value::Null => 0,
        count => {
            let number = count.as_u64().or_else(|| count.as_str()?.parse().ok());
            let number = number.filter(|number| *number <= sent);
            number.ok_or("the number of records that it has rejected cannot be")?
        }
    };
    let reason = partial["errorMessage"].as_str().unwrap_or_default();
    Ok((count > 0).then(|| (count, reason.chars().take(MAX_REASON).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_items_are_counted_in_both_spellings_of_numbers() {
        let partial = |count: &str| {
            let body =
                format!(r#"{{"partialSuccess":{{"rejectedSpans":{count},"errorMessage":"old"}}}}"#);
            rejected(body.as_bytes(), "rejectedSpans", 3)
        };
        assert_eq!(partial("\"3\""), Ok(Some((3, "old".to_owned()))));
        assert_eq!(partial("3"), Ok(Some((3, "old".to_owned()))));
        assert_eq!(partial("0"), Ok(None));
        for number in [
            "4",
            "-5",
            "1.5",
            "\"99999999999999999999\"",
            "\"-1\"",
            "\"\"",
            "[]",
            "true",
        ] {
            assert!(partial(number).is_err(), "{number}");
        }
        assert_eq!(rejected(b"{}", "rejectedSpans", 3), Ok(None));
        assert_eq!(rejected(b"", "rejectedSpans", 3), Ok(None));
    }
}
