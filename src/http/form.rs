//! The fields of `/auth/token` and `/auth/revoke`: a form or JSON, strings only, each once, no NUL
//! (docs/reference/admin-api.md §5).
//!
//! Independent of the fields' names. Errors never quote a value: it may be a password.

use super::error::Error;
use super::request_body;
use flows::json::{self, Members};
use hyper::HeaderMap;

/// The media type of browsers' forms.
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns whether a body is a form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    request_body::media_type(headers).is_some_and(|kind| kind.name.eq_ignore_ascii_case(FORM))
}

/// Reads these fields from a body; `None` where one is missing. Others are ignored.
pub(super) fn fields<const N: usize>(
    headers: &HeaderMap,
    content: &[u8],
    names: [&str; N],
) -> Result<[Option<String>; N], Error> {
    request_body::plain(headers)?;
    let refuse = |reason: &str| Error::Form(reason.into());
    let pairs = match request_body::media_type(headers) {
        Some(kind) if !kind.utf8 => return Err(refuse("the body must be UTF-8")),
        Some(kind) if kind.name.eq_ignore_ascii_case(FORM) => form(content),
        Some(kind) if kind.name.eq_ignore_ascii_case("application/json") => json(content)?,
        Some(_) | None => return Err(refuse("the body must be a form or JSON")),
    };
    let mut found = [const { None }; N];
    for (name, value) in pairs {
        let Some(i) = names.iter().position(|n| *n == name) else {
            continue;
        };
        let Some(value) = value else {
            return Err(Error::Form(format!("{name} must be a string")));
        };
        // A form that is not UTF-8 has been read with replacement characters.
        if value.contains(['\0', char::REPLACEMENT_CHARACTER]) {
            return Err(Error::Form(format!(
                "{name} has a character that is not allowed"
            )));
        }
        match found.get_mut(i) {
            Some(slot @ None) => *slot = Some(value),
            Some(Some(_)) | None => return Err(Error::Form(format!("{name} is there twice"))),
        }
    }
    Ok(found)
}

/// Names and values in the order received, doubled ones too; a value that is no string is none.
type Pairs = Vec<(String, Option<String>)>;

fn form(content: &[u8]) -> Pairs {
    form_urlencoded::parse(content)
        .map(|(name, value)| (name.into_owned(), Some(value.into_owned())))
        .collect()
}

fn json(content: &[u8]) -> Result<Pairs, Error> {
    let text = json::text(content).map_err(|invalid| Error::Form(invalid.to_string()))?;
    let Ok(Members(members)) = serde_json::from_str(text) else {
        return Err(Error::Form("the body must be a JSON object".into()));
    };
    let pairs = members
        .into_iter()
        .map(|(name, value)| (name.into_owned(), value.get()));
    // A text that is known to be good: only what is no string is not read.
    let read = |raw| serde_json::from_str(raw).unwrap_or_default();
    Ok(pairs.map(|(name, value)| (name, read(value))).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use hyper::header::{CONTENT_TYPE, HeaderValue};

    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = "application/json";

    fn read(kind: &'static str, content: &str) -> Result<[Option<String>; 2], Error> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        fields(&headers, content.as_bytes(), ["user", "scope"])
    }

    #[test]
    fn forms_and_json_give_the_same_fields() {
        let wanted = [Some("a b+".to_owned()), Some(String::new())];
        assert_eq!(read(FORM, "x=1&user=a+b%2B&scope=").unwrap(), wanted);
        assert_eq!(
            read(JSON, r#"{"x":1,"user":"a b+","scope":""}"#).unwrap(),
            wanted
        );
        assert_eq!(read(FORM, "").unwrap(), [None, None]);
        assert_eq!(read(JSON, "{}").unwrap(), [None, None]);
    }

    #[test]
    fn fields_that_are_not_one_string_each_are_refused() {
        for (kind, content) in [
            (FORM, "user=a&user=a"),
            (FORM, "user=a&%75ser=b"),
            (FORM, "user=a%00"),
            (FORM, "user=%ff"),
            (JSON, r#"{"user":"a","user":"a"}"#),
            (JSON, r#"{"user":1}"#),
            (JSON, r#"{"user":null}"#),
            (JSON, r#"{"user":{"toString":"x"}}"#),
            (JSON, r#"{"user":["a"]}"#),
            (JSON, r#"{"user":"a\u0000"}"#),
            (JSON, r#"["a","b"]"#),
            (JSON, r#""a""#),
            (JSON, "null"),
            (JSON, ""),
            (JSON, "{"),
            (JSON, r#"{"user":"a"} x"#),
            ("text/plain", "user=a"),
            ("multipart/form-data", "user=a"),
            ("application/json; charset=utf-16", "{}"),
        ] {
            assert!(
                matches!(read(kind, content), Err(Error::Form(_))),
                "{kind} {content}"
            );
        }
    }

    #[test]
    fn an_error_quotes_no_submitted_value() {
        let Err(error) = read(FORM, "user=hunter2&user=hunter3") else {
            panic!("accepted")
        };
        assert!(!error.to_string().contains("hunter"));
    }
}
