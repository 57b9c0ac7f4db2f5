//! `global-config` nodes: their variables are those of all flows, so their change concerns every
//! flow that may read one.

use super::Deployment;
use super::shared::{GLOBAL_CONFIG, Place, place};
use flows::running::is_root_config;
use flows::{FlowSet, Node};
use serde_json::Value as Json;
use smol_str::SmolStr;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The variables whose value differs, or may.
pub(super) struct Globals(Vec<String>);

/// What the value of a variable is made of.
#[derive(PartialEq)]
struct Definition {
    entry: Json,
    /// True if the engine leaves it out; Node-RED does not.
    is_disabled: bool,
    /// The node whose credentials it is.
    secret_of: Option<SmolStr>,
}

impl Globals {
    pub(super) fn differing(deployment: &Deployment<'_>) -> Self {
        let (before, after) = (variables(deployment.before), variables(deployment.after));
        let is_sent = |definitions: &Vec<Definition>| {
            let mut secret_of = definitions.iter().filter_map(|one| one.secret_of.as_ref());
            secret_of.any(|id| deployment.sent.contains(id))
        };
        let names: HashSet<&String> = before.keys().chain(after.keys()).collect();
        let differs = |name: &&&String| {
            let (was, is) = (before.get(**name), after.get(**name));
            was != is || is.is_some_and(is_sent)
        };
        let differing = names.iter().filter(differs);
        let mut found: Vec<String> = differing.map(|name| (*name).clone()).collect();
        // Those whose definitions read one of them.
        let reads = |of: &BTreeMap<String, Vec<Definition>>, name: &str, known: &Self| {
            let definitions = of.get(name).into_iter().flatten();
            let mut texts = definitions.map(|definition| definition.entry.to_string());
            texts.any(|text| known.are_named_in(&text))
        };
        loop {
            let known = Self(found.clone());
            let unknown = names.iter().filter(|name| !found.contains(name));
            let more =
                unknown.filter(|name| reads(&before, name, &known) || reads(&after, name, &known));
            let more: Vec<String> = more.map(|name| (*name).clone()).collect();
            if more.is_empty() {
                return known;
            }
            found.extend(more);
        }
    }

    /// Returns whether none differs.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an element on such flows, or among these shared elements, may read one of
    /// the variables.
    pub(super) fn are_read(
        &self,
        flows: &FlowSet,
        is: impl Fn(&SmolStr) -> bool,
        used: &HashSet<&SmolStr>,
    ) -> bool {
        let is_there = |node: &Node| match place(node, flows) {
            Place::Flow(flow) => is(flow) || used.contains(&node.id),
            Place::Shared(id) => used.contains(id),
        };
        let mut nodes = flows.nodes().iter();
        !self.is_empty() && nodes.any(|node| self.may_be_read_by(node) && is_there(node))
    }

    /// Returns whether a JSON text has the name of one of the variables, or code that may make it.
    fn are_named_in(&self, text: &str) -> bool {
        // Names as JSON has them, with the same characters escaped.
        let written = |name: &String| Json::from(name.as_str()).to_string();
        let mut names = self.0.iter().map(written);
        let is_named = names.any(|name| text.contains(name.trim_matches('"')));
        !self.is_empty() && (is_named || makes_names(text))
    }

    /// A variable is read by its name, in a property or in code, or by a name that code makes.
    fn may_be_read_by(&self, node: &Node) -> bool {
        let reads = |text: &str| self.are_named_in(text);
        reads(&node.text)
            || (node.text.contains('\\') && reads(&Json::Object(node.object()).to_string()))
    }
}

/// The `global-config` nodes of the flow set after a deployment, and those that it removes or makes
/// something else. Their order counts, too.
pub(super) fn global_configs<'a>(
    deployment: &Deployment<'a>,
) -> impl Iterator<Item = &'a Arc<Node>> + use<'a> {
    let (before, after) = (deployment.before, deployment.after);
    let is_one = |node: &&Arc<Node>| node.kind == GLOBAL_CONFIG;
    let ended = before.nodes().iter().filter(is_one);
    let ended = ended.filter(move |node| after.get(&node.id).is_none_or(|new| !is_one(&new)));
    after.nodes().iter().filter(is_one).chain(ended)
}

/// The variables of all flows, with their definitions in order: the last one counts.
fn variables(flows: &FlowSet) -> BTreeMap<String, Vec<Definition>> {
    let mut found: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    let nodes = flows.nodes().iter();
    for node in nodes.filter(|node| is_root_config(node, flows)) {
        let object = node.object();
        let entries = object.get("env").and_then(Json::as_array);
        for entry in entries.into_iter().flatten() {
            let Some(name) = entry.get("name").and_then(Json::as_str) else {
                continue;
            };
            let is_secret = entry.get("type").is_some_and(|kind| kind == "cred");
            found.entry(name.to_owned()).or_default().push(Definition {
                entry: entry.clone(),
                is_disabled: node.disabled,
                secret_of: is_secret.then(|| node.id.clone()),
            });
        }
    }
    found
}

/// Returns whether code reads a variable by a name that is not one text in it: it mentions what
/// reads variables in another form than a call with that text.
fn makes_names(text: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_any = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + "env".len()..).unwrap_or_default();
        let is_whole = !before.ends_with(in_word) && !after.starts_with(in_word);
        let is_key = before.ends_with('"') && !before.ends_with("\\\"") && after.starts_with('"');
        let call = if before.ends_with('$') { "(" } else { ".get(" };
        let reads_text = after.strip_prefix(call).is_some_and(begins_with_text);
        is_whole && !is_key && !reads_text
    };
    let mut mentions = text.match_indices("env");
    mentions.any(|(at, _)| is_any(at)) || text.contains("getSetting")
}

/// Returns whether the only argument is a quoted text; a double quote is escaped in JSON.
fn begins_with_text(arguments: &str) -> bool {
    let quoted = ["'", "\\\""].iter().find_map(|quote| {
        let inside = arguments.trim_start().strip_prefix(quote)?;
        inside.split_once(quote)
    });
    quoted.is_some_and(|(_, rest)| rest.trim_start().starts_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_code_makes_may_be_any() {
        for (code, is_made) in [
            ("env.get('A')", false),
            (r#"env.get( \"A\" )"#, false),
            ("env.get('A' + n)", true),
            ("env.get(name)", true),
            ("$env('A')", false),
            ("$env(name)", true),
            ("RED.util.getSetting(node, 'A')", true),
            ("environment.get", false),
            ("env.get (name)", true),
            ("env?.get(name)", true),
            ("env['get'](name)", true),
            ("const e = env; e.get(name)", true),
            ("$env (name)", true),
            (r#"{"type":"tab","env":[],"name":"environment"}"#, false),
            (r#"global[\"env\"]"#, true),
        ] {
            assert_eq!(makes_names(code), is_made, "{code}");
        }
    }
}
