//! `/library/:library/:type/…`: flows, functions and templates kept for later (`local`), and the
//! flows that come with the core nodes (`examples`). Shapes as in Node-RED's `editor/library.js`.

use crate::editor::Example;
use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::store::{self, Entry, KINDS, LibraryPath};
use hyper::{Response, StatusCode};
use serde_json::{Map, Value as Json};
use std::io::ErrorKind;

/// `GET /library/:library/:type/…`
pub(super) async fn read(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let kind = kind(path)?;
    match path.parameter(1).as_str() {
        "local" => {
            let place = LibraryPath::new(kind, path.rest(3)).ok_or(AdminError::LibraryName)?;
            match ctx.gateway.store.library(place).await? {
                Some(Entry::Folder { folders, items }) => {
                    let items = items.into_iter().map(|item| (item.name, item.facts));
                    Ok(folder(folders, items))
                }
                Some(Entry::Text(text)) => Ok(text_of(kind, text)),
                None => Err(Error::NotFound),
            }
        }
        "examples" => {
            let editor = ctx.gateway.editor.clone().ok_or(Error::NotFound)?;
            let names = path.rest(3);
            let found = ctx.blocking(move || editor.example(&names)).await?;
            match found.filter(|_| kind == "flows").ok_or(Error::NotFound)? {
                Example::Folder { folders, flows } => Ok(folder(
                    folders,
                    flows.into_iter().map(|name| (name, vec![])),
                )),
                Example::Flow(flow) => Ok(text_of(kind, flow)),
            }
        }
        other => Err(AdminError::NoSuchLibrary(other.to_owned()).into()),
    }
}

/// `POST /library/local/:type/…`
pub(super) async fn save(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let kind = kind(path)?;
    if path.parameter(1) != "local" {
        return Err(AdminError::NoSuchLibrary(path.parameter(1)).into());
    }
    let names = Some(path.rest(3)).filter(|names| !names.is_empty());
    let place = names.and_then(|names| LibraryPath::new(kind, names));
    let place = place.ok_or(AdminError::LibraryName)?;
    let body = ctx.read_json_value().await?;
    let (facts, text) = content(kind, body.unwrap_or_default())?;
    let store = ctx.gateway.store.clone();
    let task = async move { store.save_in_library(place, facts, text).await };
    ctx.control(task).await?.map_err(|error| match error {
        store::Error::Io { source, .. } if is_taken(source.kind()) => {
            Error::from(AdminError::LibraryTaken)
        }
        error => Error::Store(error),
    })?;
    Ok(response::empty(StatusCode::NO_CONTENT))
}

/// Returns whether a file could not be there because of what is.
fn is_taken(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::IsADirectory | ErrorKind::NotADirectory)
}

fn kind(path: &Path<'_>) -> Result<&'static str, Error> {
    let asked = path.parameter(2);
    let kind = KINDS.into_iter().find(|kind| *kind == asked);
    Ok(kind.ok_or(AdminError::NoSuchLibrary(asked))?)
}

/// Folders, then files with what is known of them.
fn folder(
    folders: Vec<String>,
    files: impl Iterator<Item = (String, Vec<(String, String)>)>,
) -> Response<Body> {
    let files = files.map(|(name, facts)| {
        let facts = facts.into_iter().map(|(name, value)| (name, value.into()));
        let mut file: Map<String, Json> = facts.collect();
        file.insert("fn".to_owned(), name.into());
        Json::Object(file)
    });
    let listed: Vec<Json> = folders.into_iter().map(Json::String).chain(files).collect();
    response::uncached(response::json(
        StatusCode::OK,
        Json::from(listed).to_string(),
    ))
}

fn text_of(kind: &str, text: String) -> Response<Body> {
    response::uncached(match kind {
        "flows" => response::json(StatusCode::OK, text),
        _ => response::their_text(text),
    })
}

/// The content to store: flows as they are; of everything else the text, and its other fields.
fn content(kind: &str, body: Json) -> Result<(Vec<(String, String)>, String), Error> {
    if kind == "flows" {
        return match body {
            Json::Array(_) | Json::Object(_) => Ok((Vec::new(), body.to_string())),
            _ => Err(Error::Body("the body must be flows in JSON".into())),
        };
    }
    let Json::Object(mut facts) = body else {
        return Err(Error::Body("the body must be a JSON object".into()));
    };
    let Some(Json::String(text)) = facts.shift_remove("text") else {
        return Err(Error::Body("text must be a string".into()));
    };
    let facts: Option<Vec<_>> = facts
        .into_iter()
        .map(|(name, value)| fact(name, value))
        .collect();
    let sentence = "names have letters, digits and _; values are strings, numbers or booleans";
    Ok((facts.ok_or_else(|| Error::Body(sentence.into()))?, text))
}

fn fact(name: String, value: Json) -> Option<(String, String)> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let value = match value {
        Json::String(text) => text,
        Json::Number(_) | Json::Bool(_) => value.to_string(),
        _ => return None,
    };
    (!name.is_empty() && name.bytes().all(word)).then_some((name, value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flows_are_stored_unchanged_and_texts_with_their_metadata() {
        let flows = json!([{ "id": "a", "type": "tab" }]);
        assert_eq!(
            content("flows", flows.clone()).unwrap(),
            (vec![], flows.to_string())
        );
        let function = json!({ "name": "f", "outputs": 2, "text": "return msg;" });
        let facts = [("name", "f"), ("outputs", "2")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(
            content("functions", function).unwrap(),
            (facts.to_vec(), "return msg;".to_owned())
        );
        for body in [
            json!(1),
            json!({}),
            json!({ "text": 1 }),
            json!({ "text": "", "a b": "" }),
            json!({ "text": "", "a": {} }),
        ] {
            assert!(content("templates", body).is_err());
        }
        assert!(content("flows", json!("x")).is_err());
    }
}
