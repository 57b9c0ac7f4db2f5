//! The difference of a flow set to an earlier one, as it is stored, and the way back.
//!
//! A patch is the JSON array of the set's elements in their order, in which `[position,count]`
//! stands for that many elements of the earlier set from this position, unchanged:
//! `[[0,17],{"id":"a",…},[18,3]]`.

use super::{FlowSet, Malformed};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The elements that differ between two flow sets, by id. An element that only moved in the list is
/// in none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Elements in the new set: tabs, nodes, groups, and all else.
    pub nodes: usize,
    /// Elements in the new set only.
    pub added: usize,
    /// Elements in both whose text differs, were it only their position in the editor.
    pub changed: usize,
    /// Elements in the old set only.
    pub removed: usize,
}

/// The difference of a flow set to an earlier one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// As it is stored.
    pub text: String,
    /// How many elements it changes.
    pub counts: Counts,
}

impl Patch {
    /// The difference of `new` to `old`. Elements that both share are not compared.
    pub fn between(old: &FlowSet, new: &FlowSet) -> Self {
        let mut runs = Runs::default();
        let mut counts = Counts {
            nodes: new.nodes().len(),
            ..Counts::default()
        };
        for node in new.nodes() {
            if let Some(next) = old.nodes().get(runs.next)
                && Arc::ptr_eq(next, node)
            {
                runs.keep(runs.next);
                continue;
            }
            match old.position(&node.id).map(|at| (at, &old.nodes()[at])) {
                Some((at, was)) if Arc::ptr_eq(was, node) || was.text == node.text => runs.keep(at),
                Some((at, _)) => {
                    counts.changed += 1;
                    runs.insert(&node.text, at + 1);
                }
                None => {
                    counts.added += 1;
                    runs.insert(&node.text, runs.next);
                }
            }
        }
        counts.removed = old.nodes().len() + counts.added - new.nodes().len();
        Self {
            text: runs.finish(),
            counts,
        }
    }

    /// Returns whether both sets have the same elements in the same order.
    pub fn is_empty(&self, old: &FlowSet) -> bool {
        self.counts.nodes == old.nodes().len()
            && (self.counts.nodes == 0 || self.text == format!("[[0,{}]]", self.counts.nodes))
    }
}

/// The text of a patch while it is written.
#[derive(Default)]
struct Runs {
    text: String,
    /// The run that is not written yet: its first position, and its length.
    run: (usize, usize),
    /// The position in the earlier set that probably follows.
    next: usize,
}

impl Runs {
    fn keep(&mut self, at: usize) {
        if self.run.0 + self.run.1 != at {
            self.end_run();
            self.run = (at, 0);
        }
        self.run.1 += 1;
        self.next = at + 1;
    }

    fn insert(&mut self, element: &str, next: usize) {
        self.end_run();
        self.item(element);
        self.run = (next, 0);
        self.next = next;
    }

    fn end_run(&mut self) {
        if self.run.1 > 0 {
            self.item(&format!("[{},{}]", self.run.0, self.run.1));
            self.run.1 = 0;
        }
    }

    fn item(&mut self, item: &str) {
        self.text.push(if self.text.is_empty() { '[' } else { ',' });
        self.text.push_str(item);
    }

    fn finish(mut self) -> String {
        self.end_run();
        if self.text.is_empty() {
            self.text.push('[');
        }
        self.text + "]"
    }
}

/// The JSON text of a flow set, made of an earlier one and the patches from there, the oldest
/// first.
pub fn patched(earlier: &str, patches: &[String]) -> Result<String, Malformed> {
    let mut elements = items(earlier)?;
    for patch in patches {
        let mut next = Vec::with_capacity(elements.len());
        for item in items(patch)? {
            if item.starts_with('[') {
                let (at, count): (usize, usize) = serde_json::from_str(item).map_err(damaged)?;
                let run = at
                    .checked_add(count)
                    .and_then(|end| elements.get(at..end))
                    .ok_or_else(|| Malformed(format!("a patch refers to no elements: {item}")))?;
                next.extend_from_slice(run);
            } else {
                next.push(item);
            }
        }
        elements = next;
    }
    Ok(format!("[{}]", elements.join(",")))
}

/// The element of this id in a flow set, or in a patch, as it stands there.
pub fn element<'t>(array: &'t str, id: &str) -> Result<Option<&'t str>, Malformed> {
    #[derive(Deserialize)]
    struct Element<'t> {
        #[serde(borrow)]
        id: Cow<'t, str>,
    }
    let mut elements = items(array)?
        .into_iter()
        .filter(|item| item.starts_with('{'));
    let is_it = |item: &&str| {
        let parsed = serde_json::from_str::<Element<'_>>(item);
        parsed.is_ok_and(|element| element.id == id)
    };
    Ok(elements.find(is_it))
}

fn items(array: &str) -> Result<Vec<&str>, Malformed> {
    let items: Vec<&RawValue> = serde_json::from_str(array).map_err(damaged)?;
    Ok(items.into_iter().map(RawValue::get).collect())
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn damaged(error: serde_json::Error) -> Malformed {
    Malformed(format!("it is no list of elements: {error}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A set of elements given as `id` or `id:version`.
    fn set(elements: &[String]) -> FlowSet {
        let element = |name: &String| {
            let (id, version) = name.split_once(':').unwrap_or((name, ""));
            format!(r#"{{"id":"{id}","type":"x","v":"{version}"}}"#)
        };
        let elements: Vec<_> = elements.iter().map(element).collect();
        FlowSet::parse(format!("[{}]", elements.join(",")).as_bytes()).unwrap()
    }

    fn between(old: &str, new: &str) -> Patch {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        Patch::between(&set(&words(old)), &set(&words(new)))
    }

    #[test]
    fn a_patch_has_runs_of_shared_elements_and_the_texts_of_the_others() {
        let patch = between("a b c d", "a b c:2 d e");
        let expected =
            r#"[[0,2],{"id":"c","type":"x","v":"2"},[3,1],{"id":"e","type":"x","v":""}]"#;
        assert_eq!(patch.text, expected);
        assert_eq!(between("a b c d", "c d a").text, "[[2,2],[0,1]]");
        assert_eq!(between("a b", "").text, "[]");
    }

    #[test]
    fn added_changed_and_removed_elements_are_counted_by_id() {
        let expected = Counts {
            nodes: 4,
            added: 2,
            changed: 1,
            removed: 1,
        };
        assert_eq!(between("a b c", "d b:2 a e").counts, expected);
    }

    #[test]
    fn only_the_same_elements_in_the_same_order_are_no_difference() {
        let old = |text: &str| set(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(between("a b", "a b").is_empty(&old("a b")));
        assert!(between("", "").is_empty(&set(&[])));
        for other in ["b a", "a", "a b c", "a b:2", ""] {
            assert!(!between("a b", other).is_empty(&old("a b")), "{other}");
        }
    }

    #[test]
    fn one_element_is_found_in_a_flow_set_and_in_a_patch() {
        let whole = r#"[{"id":"a","o":{"id":"b"}},{"type":"x","id":"\u0062"}]"#;
        let second = r#"{"type":"x","id":"\u0062"}"#;
        assert_eq!(element(whole, "b").unwrap(), Some(second));
        let patch = format!("[[0,1],{second}]");
        assert_eq!(element(&patch, "b").unwrap(), Some(second));
        assert_eq!(element(&patch, "a").unwrap(), None);
        assert!(element("[", "a").is_err());
    }

    #[test]
    fn a_damaged_patch_is_an_error() {
        let earlier = set(&["a".into(), "b".into()]).to_json();
        for patch in [
            "",
            "[",
            "{}",
            "[[0]]",
            "[[1,2]]",
            "[[18446744073709551615,2]]",
            "[[0,-1]]",
        ] {
            assert!(patched(&earlier, &[patch.into()]).is_err(), "{patch}");
        }
        assert!(patched("[", &[]).is_err());
    }

    fn sets() -> impl Strategy<Value = Vec<Vec<String>>> {
        let element = ("[a-h]", 0..3u8);
        vec(vec(element, 0..8), 1..6).prop_map(|sets| {
            let unique = |set: Vec<(String, u8)>| {
                let mut seen = BTreeSet::new();
                set.into_iter()
                    .filter(|(id, _)| seen.insert(id.clone()))
                    .map(|(id, version)| format!("{id}:{version}"))
                    .collect()
            };
            sets.into_iter().map(unique).collect()
        })
    }

    proptest! {
        /// Whatever happens to a flow set from deployment to deployment, each one is made again
        /// byte for byte.
        #[test]
        fn every_set_is_made_again_of_the_first_one_and_the_patches(sets in sets()) {
            let sets: Vec<_> = sets.iter().map(|elements| set(elements)).collect();
            let mut patches = Vec::new();
            for pair in sets.windows(2) {
                patches.push(Patch::between(&pair[0], &pair[1]).text);
                prop_assert_eq!(patched(&sets[0].to_json(), &patches).unwrap(), pair[1].to_json());
            }
        }
    }
}
