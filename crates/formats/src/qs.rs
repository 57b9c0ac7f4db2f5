//! Forms and query strings with brackets: `a=1&b[]=2&c[d]=3` becomes `{a:"1", b:["2"], c:{d:"3"}}`,
//! as the `qs` library of Express reads them. A key `__proto__` is dropped with what is below it.

use indexmap::IndexMap;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use value::{PROTO, Value};

/// Pairs that are read at most (Express' `parameterLimit`).
const MAX_PAIRS: usize = 1000;

/// The limits on brackets; beyond them, text is a literal key.
struct Limits {
    /// Brackets of one key.
    depth: usize,
    /// Indexes are below it.
    indexes: usize,
}

/// The tree of keys before it becomes a value: lists may have holes.
enum Tree {
    Text(Value),
    List(BTreeMap<usize, Tree>),
    Object(IndexMap<SmolStr, Tree>),
}

/// Parses the query of a URL.
pub fn parse_query(text: &[u8]) -> Value {
    read(text, |_| Limits {
        depth: 5,
        indexes: 1000,
    })
}

/// Parses `application/x-www-form-urlencoded` text.
pub fn parse(text: &[u8]) -> Value {
    read(text, |pairs| Limits {
        depth: 32,
        indexes: pairs.max(100),
    })
}

fn read(text: &[u8], limits: impl Fn(usize) -> Limits) -> Value {
    let mut pairs: IndexMap<String, Vec<Tree>> = IndexMap::new();
    for (key, value) in form_urlencoded::parse(text).take(MAX_PAIRS) {
        let values = pairs.entry(key.into_owned()).or_default();
        values.push(Tree::Text(Value::from(&*value)));
    }
    let limits = limits(pairs.len());
    let mut root = Tree::Object(IndexMap::new());
    for (key, mut values) in pairs.into_iter().filter(|(key, _)| !key.is_empty()) {
        // The same key several times is a list.
        let leaf = match values.pop() {
            Some(only) if values.is_empty() => only,
            last => Tree::list(values.into_iter().chain(last)),
        };
        let steps = steps(&key, limits.depth);
        let grown = steps
            .into_iter()
            .rev()
            .fold(leaf, |leaf, step| Tree::around(leaf, step, limits.indexes));
        root.merge(grown);
    }
    root.value()
}

/// A step into what a key leads to, and whether it stood in brackets.
type Step<'k> = (&'k str, bool);

/// `a[b][]` as `a`, `b` and an empty step, which appends.
fn steps(key: &str, depth: usize) -> Vec<Step<'_>> {
    let (first, mut rest) = key.split_at(key.find('[').unwrap_or(key.len()));
    let mut steps = Vec::new();
    if !first.is_empty() {
        steps.push((first, false));
    }
    let mut brackets = 0;
    while let Some(open) = rest.find('[') {
        rest = &rest[open..];
        let close = closing(rest).filter(|_| brackets < depth);
        let Some(close) = close else {
            steps.push((rest, false));
            break;
        };
        steps.push((&rest[1..close], true));
        rest = &rest[close + 1..];
        brackets += 1;
    }
    steps
}

/// The end of the bracket that a text begins with.
fn closing(text: &str) -> Option<usize> {
    let mut level = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => level += 1,
            b']' if level == 1 => return Some(at),
            b']' => level -= 1,
            _ => {}
        }
    }
    None
}

impl Tree {
    fn list(elements: impl IntoIterator<Item = Self>) -> Self {
        Self::List(elements.into_iter().enumerate().collect())
    }

    /// A tree that holds this one at the step.
    fn around(self, (step, bracketed): Step<'_>, indexes: usize) -> Self {
        if bracketed && step.is_empty() {
            return match self {
                list @ Self::List(_) => list,
                single => Self::list([single]),
            };
        }
        if step == PROTO {
            return Self::Object(IndexMap::new());
        }
        let index = step.parse().ok().filter(|_| bracketed);
        match index.filter(|i: &usize| *i < indexes && i.to_string() == step) {
            Some(index) => Self::List(BTreeMap::from([(index, self)])),
            None => Self::Object(IndexMap::from([(step.into(), self)])),
        }
    }

    fn push(&mut self, element: Self) {
        if let Self::List(elements) = self {
            let next = elements.last_key_value().map_or(0, |(last, _)| last + 1);
            elements.insert(next, element);
        }
    }

    /// Adds what another key leads to.
    fn merge(&mut self, other: Self) {
        let own = std::mem::replace(self, Self::List(BTreeMap::new()));
        *self = match (own, other) {
            (Self::List(own), Self::List(others)) => {
                let mut all = Self::List(own);
                for (index, element) in others {
                    all.add(index, element);
                }
                all
            }
            (own @ Self::List(_), other @ Self::Text(_)) => {
                let mut all = own;
                all.push(other);
                all
            }
            (own @ Self::Text(_), Self::List(others)) => {
                Self::list(std::iter::once(own).chain(others.into_values()))
            }
            (own @ Self::Text(_), other) | (own, other @ Self::Text(_)) => Self::list([own, other]),
            (own, other) => {
                let mut members = own.members();
                for (key, value) in other.members() {
                    match members.get_mut(&key) {
                        Some(known) => known.merge(value),
                        None => drop(members.insert(key, value)),
                    }
                }
                Self::Object(members)
            }
        };
    }

    /// Puts an element in its place, or behind all others if a text is in either.
    fn add(&mut self, index: usize, element: Self) {
        let Self::List(elements) = self else { return };
        match elements.get_mut(&index) {
            None => drop(elements.insert(index, element)),
            Some(Self::Text(_)) => self.push(element),
            Some(_) if matches!(element, Self::Text(_)) => self.push(element),
            Some(known) => known.merge(element),
        }
    }

    fn members(self) -> IndexMap<SmolStr, Self> {
        match self {
            Self::Object(members) => members,
            Self::List(elements) => {
                let named = elements.into_iter();
                named
                    .map(|(index, element)| (index.to_string().into(), element))
                    .collect()
            }
            Self::Text(_) => IndexMap::new(),
        }
    }

    /// The value; holes of lists are closed.
    fn value(self) -> Value {
        match self {
            Self::Text(value) => value,
            Self::List(elements) => Value::array(elements.into_values().map(Self::value).collect()),
            Self::Object(members) => {
                let members = members.into_iter();
                Value::object(members.map(|(key, tree)| (key, tree.value())).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Object, json};

    fn parsed(text: &str) -> String {
        json::stringify(&parse(text.as_bytes())).unwrap_or_default()
    }

    #[test]
    fn brackets_make_arrays_and_objects() {
        let table = [
            ("a=1&b[]=2", r#"{"a":"1","b":["2"]}"#),
            ("a=1&a=2&a=3", r#"{"a":["1","2","3"]}"#),
            ("a[b][c]=1&a[b][d]=2", r#"{"a":{"b":{"c":"1","d":"2"}}}"#),
            ("a[0]=x&a[1]=y", r#"{"a":["x","y"]}"#),
            ("a[0][n]=x&a[0][m]=y", r#"{"a":[{"n":"x","m":"y"}]}"#),
            ("a[]=1&a[b]=2", r#"{"a":{"0":"1","b":"2"}}"#),
            ("a+b=c%20d&e", r#"{"a b":"c d","e":""}"#),
            ("[x]=1", r#"{"x":"1"}"#),
            ("a[1]=x&a[0]=y", r#"{"a":["y","x"]}"#),
            ("a[2][x]=1&a[0]=t", r#"{"a":["t",{"x":"1"}]}"#),
            ("a[b]=1&a=2", r#"{"a":[{"b":"1"},"2"]}"#),
            ("a[b[c]]=1&d[e=2", r#"{"a":{"b[c]":"1"},"d":{"[e":"2"}}"#),
            ("", "{}"),
        ];
        for (text, expected) in table {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn no_key_is_proto_as_in_qs() {
        for (text, expected) in [
            ("__proto__=1&a=2", r#"{"a":"2"}"#),
            (
                "__proto__[x]=1&__proto__[]=2&[__proto__]=3&[__proto__][x]=4",
                "{}",
            ),
            ("%5F_proto__=1&__proto__=2", "{}"),
            ("a[__proto__]=1", r#"{"a":{}}"#),
            ("a[__proto__][x]=1&a[b]=1", r#"{"a":{"b":"1"}}"#),
            ("a[b][__proto__]=1", r#"{"a":{"b":{}}}"#),
            ("a=1&a[__proto__]=2", r#"{"a":["1",{}]}"#),
            ("a[0][__proto__]=1", r#"{"a":[{}]}"#),
            ("a[]=1&a[__proto__]=2", r#"{"a":{"0":"1"}}"#),
            ("a[[__proto__]]=1", r#"{"a":{"[__proto__]":"1"}}"#),
            (
                "a[constructor][prototype]=1",
                r#"{"a":{"constructor":{"prototype":"1"}}}"#,
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
            let query = json::stringify(&parse_query(text.as_bytes()));
            assert_eq!(query.unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn depth_and_number_of_pairs_are_limited() {
        let query = |text: &str| json::stringify(&parse_query(text.as_bytes())).unwrap_or_default();
        assert_eq!(
            query("a[b][c][d][e][f][g][h]=1"),
            r#"{"a":{"b":{"c":{"d":{"e":{"f":{"[g][h]":"1"}}}}}}}"#
        );
        assert_eq!(query("a[999]=x"), r#"{"a":["x"]}"#);
        let many: Vec<String> = (0..2000).map(|i| format!("k{i}=v")).collect();
        assert_eq!(
            parse(many.join("&").as_bytes())
                .as_object()
                .map(Object::len),
            Some(1000)
        );
        assert_eq!(parsed("a[100]=x"), r#"{"a":{"100":"x"}}"#);
    }
}
