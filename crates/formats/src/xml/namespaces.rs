//! Resolves XML namespaces (Namespaces in XML 1.0) into the form that xml2js gives them. Pure.

use smol_str::SmolStr;
use value::{Failure, Object, Value, budget};

/// The namespaces of the prefixes that elements have declared, the innermost last.
pub(super) struct Spaces(Vec<Declared>);

struct Declared {
    /// The number of elements open around the declaring one.
    depth: usize,
    prefix: SmolStr,
    uri: SmolStr,
}

impl Default for Spaces {
    fn default() -> Self {
        let known = |prefix, uri| Declared {
            depth: 0,
            prefix: SmolStr::new_static(prefix),
            uri: SmolStr::new_static(uri),
        };
        Self(vec![
            known("xml", "http://www.w3.org/XML/1998/namespace"),
            known("xmlns", "http://www.w3.org/2000/xmlns/"),
        ])
    }
}

impl Spaces {
    /// Begins an element inside `depth` others; forgets the declarations of ended ones.
    pub(super) fn enter(&mut self, depth: usize) -> Result<(), Failure> {
        // The declarations of the elements around come first.
        while self.0.pop_if(|last| last.depth > depth).is_some() {}
        budget::work(1)
    }

    /// Takes an attribute of that element that may declare a prefix, or what there is without one.
    pub(super) fn declare(&mut self, attribute: &str, uri: &str, depth: usize) {
        let prefix = match attribute.split_once(':') {
            Some(("xmlns", prefix)) => prefix,
            None if attribute == "xmlns" => "",
            _ => return,
        };
        self.0.push(Declared {
            depth: depth + 1,
            prefix: prefix.into(),
            uri: uri.into(),
        });
    }

    /// The namespace of an element; `None`: its prefix is not declared.
    pub(super) fn of_element(&self, name: &str) -> Option<Value> {
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        let uri = self.uri(prefix);
        let known = prefix.is_empty() || !uri.is_empty();
        known.then(|| Value::record([("uri", uri.into()), ("local", local.into())]))
    }

    /// Attributes with their namespaces; otherwise the first prefix that is not declared.
    pub(super) fn of_attributes(&self, attributes: &Object) -> Result<Object, SmolStr> {
        let described = attributes.iter().map(|(name, value)| {
            let value = value.as_str().unwrap_or_default();
            Ok((name.clone(), self.of_attribute(name, value)?))
        });
        described.collect()
    }

    fn of_attribute(&self, name: &str, value: &str) -> Result<Value, SmolStr> {
        let (prefix, local) = match name.split_once(':') {
            Some(parts) => parts,
            None if name == "xmlns" => (name, ""),
            None => ("", name),
        };
        let uri = if prefix.is_empty() {
            SmolStr::default()
        } else {
            self.uri(prefix)
        };
        if !prefix.is_empty() && uri.is_empty() {
            return Err(prefix.into());
        }
        Ok(Value::record([
            ("name", name.into()),
            ("value", value.into()),
            ("prefix", prefix.into()),
            ("local", local.into()),
            ("uri", uri.into()),
        ]))
    }

    /// The namespace of a prefix; empty, too, once the budget is exceeded.
    fn uri(&self, prefix: &str) -> SmolStr {
        if budget::work(self.0.len()).is_err() {
            return SmolStr::default();
        }
        let declared = self.0.iter().rev().find(|d| d.prefix == prefix);
        declared.map_or(SmolStr::default(), |d| d.uri.clone())
    }
}
