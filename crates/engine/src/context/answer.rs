//! Questions of the admin API about contexts, and their answers as Node-RED gives them
//! (`{store: {key: {msg, format}}}`; observed on 4.1.15).

use super::{Contexts, Place, Scope, Store};
use crate::Error;
use crate::debug_encode::encode;
use crate::node_info::NodeInfo;
use serde_json::{Map, Value as Json, json};
use smol_str::SmolStr;
use value::{Path, Value, json as values};

/// A question about contexts, or the wish to delete a value.
#[derive(Debug)]
pub struct Request {
    /// The scope of the context.
    pub scope: Scope,
    /// The node's or flow's id; empty for the global one.
    pub id: String,
    /// The key, a property expression; `None`: all of them.
    pub key: Option<String>,
    /// The store; `None`: the first one for a key, else all of them.
    pub store: Option<String>,
    /// Only names and kinds, no values.
    pub keys_only: bool,
    /// Delete the value instead of reading it.
    pub delete: bool,
    /// Longest text shown, characters.
    pub longest: usize,
}

impl Request {
    /// The answer. `info` is that of the running node, if a node is meant.
    pub(crate) fn answer(
        &self,
        contexts: &mut Contexts,
        info: Option<&NodeInfo>,
    ) -> Result<Json, Error> {
        let store = match &self.store {
            Some(name) => Some(contexts.named(name).ok_or(Error::NoSuchStore)?),
            None => None,
        };
        let Some(place) = self.place(info) else {
            return Ok(json!({}));
        };
        contexts.refresh(&place);
        let key = self.key.as_deref().map(Path::parse);
        match key {
            None => Ok(self.all(contexts, store, &place)),
            // A key that is no expression names nothing.
            Some(Err(_)) => Ok(encoded(&Value::Undefined, self.longest)),
            Some(Ok(key)) if self.delete => {
                let store = &mut contexts.stores[store.unwrap_or(0)];
                if store.at(&place).is_some() {
                    // Deleting cannot fail.
                    let _ = store.write(&place, &key, Value::Undefined);
                }
                Ok(Json::Null)
            }
            Some(Ok(key)) => Ok(self.one(contexts, store.unwrap_or(0), &place, &key)),
        }
    }

    /// The place of the context; that of a subflow instance is its flow's. `None`: no such node
    /// runs.
    fn place(&self, info: Option<&NodeInfo>) -> Option<Place> {
        let flow = |id: &str| Place {
            flow: id.into(),
            node: SmolStr::default(),
        };
        match self.scope {
            Scope::Global => Some(flow("")),
            Scope::Flow => Some(flow(&self.id)),
            Scope::Node => {
                let info = info?;
                Some(if info.kind().starts_with("subflow:") {
                    flow(&info.id)
                } else {
                    Place {
                        flow: info.container.z.clone(),
                        node: info.alias().clone(),
                    }
                })
            }
        }
    }

    fn all(&self, contexts: &Contexts, store: Option<usize>, place: &Place) -> Json {
        let stores = contexts.stores.iter().enumerate();
        let chosen = stores.filter(|(number, _)| store.is_none_or(|s| s == *number));
        let shown = chosen.map(|(_, store)| {
            let content = if self.keys_only {
                json!({ "keys": keys(store, place) })
            } else {
                Json::Object(self.content(store, place))
            };
            (store.name.to_string(), content)
        });
        Json::Object(shown.collect())
    }

    fn content(&self, store: &Store, place: &Place) -> Map<String, Json> {
        let root = store.at(place).and_then(|root| root.values().as_object());
        root.into_iter()
            .flat_map(values::entries)
            .map(|(key, value)| (key.to_string(), encoded(value, self.longest)))
            .collect()
    }

    fn one(&self, contexts: &Contexts, store: usize, place: &Place, key: &Path) -> Json {
        let named = &contexts.stores[store];
        let value = named
            .at(place)
            .map(|root| key.read(root.values()))
            .unwrap_or_default();
        if self.keys_only {
            return json!({ named.name.as_str(): parts(&value) });
        }
        let mut shown = encoded(&value, self.longest);
        if store > 0 {
            shown["store"] = named.name.as_str().into();
        }
        shown
    }
}

fn encoded(value: &Value, longest: usize) -> Json {
    let (msg, format) = encode(value, longest);
    json!({ "msg": msg, "format": format })
}

fn keys(store: &Store, place: &Place) -> Vec<Json> {
    let root = store.at(place).and_then(|root| root.values().as_object());
    root.into_iter()
        .flat_map(values::entries)
        .map(|(key, _)| json!({ "key": key.as_str() }))
        .collect()
}

/// The parts of a value, for the editor's completion.
fn parts(value: &Value) -> Json {
    match value {
        Value::Array(elements) => json!({ "format": format!("array[{}]", elements.len()) }),
        Value::Object(object) => {
            let parts: Vec<Json> = values::entries(object)
                .map(|(key, value)| match value {
                    Value::Array(a) => json!({
                        "key": key.as_str(), "format": format!("array[{}]", a.len()), "length": a.len(),
                    }),
                    value if is_object(value) => json!({ "key": key.as_str(), "format": "object" }),
                    _ => json!({ "key": key.as_str() }),
                })
                .collect();
            json!({ "keys": parts, "format": "object" })
        }
        value if is_object(value) => json!({ "keys": [], "format": "object" }),
        _ => json!({ "keys": [] }),
    }
}

/// Returns whether the value is an object in JavaScript's sense; `null` is one.
fn is_object(value: &Value) -> bool {
    !matches!(
        value,
        Value::Undefined | Value::Bool(_) | Value::Number(_) | Value::String(_)
    )
}
