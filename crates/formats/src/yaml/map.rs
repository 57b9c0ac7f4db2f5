//! A mapping of YAML on its way: keys become texts, `<<` merges, no key comes twice.

use super::error::Mark;
use super::scan::Scan;
use super::types::MERGE;
use smol_str::SmolStr;
use std::collections::HashSet;
use value::{Failure, Object, Value, budget, coerce};

/// The bytes of a key and a value that are merged, about.
const ENTRY: usize = 96;

#[derive(Default)]
pub(super) struct Mapping {
    object: Object,
    /// Keys that were merged: explicit ones may still replace them.
    merged: HashSet<SmolStr>,
}

impl Mapping {
    pub(super) fn value(self) -> Value {
        Value::object(self.object)
    }

    /// Adds a pair; `place` is where its key is.
    pub(super) fn put(
        &mut self,
        key: &Value,
        tag: Option<&str>,
        value: Value,
        scan: &Scan,
        place: Mark,
    ) -> Result<(), Failure> {
        if tag == Some(MERGE) {
            return self.merge(&value, scan);
        }
        let key =
            name(key).ok_or_else(|| scan.wrong("nested arrays are not supported inside keys"))?;
        if !self.merged.remove(&key) && self.object.contains_key(&key) {
            return Err(scan.wrong_at("duplicated mapping key", place));
        }
        self.object.insert(key, value);
        Ok(())
    }

    fn merge(&mut self, value: &Value, scan: &Scan) -> Result<(), Failure> {
        let sources = match value {
            Value::Array(sources) => &sources[..],
            other => std::slice::from_ref(other),
        };
        for source in sources {
            let Some(source) = source.as_object() else {
                let reason = "cannot merge mappings; the provided source object is unacceptable";
                return Err(scan.wrong(reason));
            };
            for (key, value) in source {
                // A short text merges a large mapping into many.
                budget::made(ENTRY)?;
                if !self.object.contains_key(key) {
                    self.object.insert(key.clone(), value.clone());
                    self.merged.insert(key.clone());
                }
            }
        }
        Ok(())
    }
}

/// A key as a text; `None`: there are arrays in its array.
fn name(key: &Value) -> Option<SmolStr> {
    if let Value::Array(elements) = key
        && elements.iter().any(|e| matches!(e, Value::Array(_)))
    {
        return None;
    }
    Some(coerce::to_text(key))
}
