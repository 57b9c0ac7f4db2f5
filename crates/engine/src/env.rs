//! Environment variables of nodes as the engine evaluates them: those of the process, and
//! expressions (docs/reference/node-red-engine.md §2.5). The scopes are those of `flows`.

pub use flows::running::{Entry, Env, reference};

use super::expression::eval_context::EvalContext;
use super::expression::jsonata::Jsonata;
use flows::HiddenVariables;
use flows::running::Evaluator;
use formats::mustache::Lookup;
use serde_json::{Map, Value as Json};
use std::fmt::Display;
use std::rc::Rc;
use value::{Object, Path, Value};

/// Evaluates variables in this process.
#[derive(Debug)]
struct Process {
    /// Variables of the process that nodes do not see.
    hidden: HiddenVariables,
}

/// The evaluator of nodes that do not see these variables of the process.
pub(super) fn evaluator(hidden: &HiddenVariables) -> Rc<dyn Evaluator> {
    Rc::new(Process {
        hidden: hidden.clone(),
    })
}

impl Evaluator for Process {
    fn process_variable(&self, name: &str) -> Value {
        if self.hidden.hides(name) {
            return Value::Undefined;
        }
        std::env::var(name).map_or(Value::Undefined, Value::from)
    }

    fn entry(
        &self,
        entry: &Entry,
        _credentials: Option<&Map<String, Json>>,
        scope: &Rc<Env>,
    ) -> Option<Value> {
        let text = entry.value.as_str().unwrap_or_default();
        (entry.kind == "jsonata").then(|| computed(&entry.name, text, scope))
    }

    fn malformed_entry(&self, name: &str, error: &dyn Display) {
        tracing::error!(target: "flow", variable = name, %error, "an environment variable has no value");
    }

    fn malformed_element(&self, id: &str, error: &dyn Display) {
        tracing::warn!(node = id, %error, "the element's name or env is malformed and is ignored");
    }
}

/// The value of an expression, which sees only the variables outside of its scope.
fn computed(name: &str, text: &str, outside: &Rc<Env>) -> Value {
    let result = Jsonata::compile(text).and_then(|expression| {
        let nothing = Value::object(Object::default());
        expression.evaluate_on(&Variables(Rc::clone(outside)), &nothing)
    });
    result.unwrap_or_else(|failure| {
        tracing::error!(target: "flow", variable = name, %failure, "an environment variable has no value");
        Value::Undefined
    })
}

/// The context in which the expression of a variable is evaluated: other variables, without context
/// stores and time.
#[derive(Clone)]
struct Variables(Rc<Env>);

impl Lookup for Variables {
    fn env(&self, name: &str) -> Value {
        self.0.lookup(name)
    }

    fn flow(&self, _key: &Path) -> Value {
        Value::Undefined
    }

    fn global(&self, _key: &Path) -> Value {
        Value::Undefined
    }
}

impl EvalContext for Variables {
    fn now(&self) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(hidden: &HiddenVariables) -> Rc<Env> {
        Env::root(&evaluator(hidden))
    }

    fn entry(name: &str, kind: &str, value: &str) -> Entry {
        Entry {
            name: name.into(),
            kind: kind.into(),
            value: Json::from(value),
        }
    }

    fn scopes() -> (Rc<Env>, Rc<Env>) {
        let tab = Env::inside(
            &process(&HiddenVariables::default()),
            &[],
            &[(
                &[
                    entry("A", "str", "tab"),
                    entry("N", "num", "7"),
                    entry("E", "env", "${A}-x"),
                    entry("H", "num", "0x10"),
                    entry("J", "jsonata", "1 + 1"),
                    entry("K", "jsonata", "$env('A') & '!'"),
                    entry("C", "cred", ""),
                ],
                None,
            )],
        );
        let group = Env::inside(
            &tab,
            &[],
            &[(
                &[
                    entry("A", "str", "group"),
                    entry("N", "env", "N"),
                    entry("K", "jsonata", "$env('A') & '!'"),
                    entry("L", "env", "M"),
                    entry("M", "env", "${M}2"),
                ],
                None,
            )],
        );
        (tab, group)
    }

    #[test]
    fn hidden_process_variables_are_unset_but_flows_may_define_them() {
        let hidden = HiddenVariables::new(["PATH".to_owned(), "CARGO_*".to_owned()]);
        let root = process(&hidden);
        assert!(root.lookup("PATH").is_undefined());
        assert!(root.lookup("CARGO_MANIFEST_DIR").is_undefined());
        let tab = Env::inside(&root, &[], &[(&[entry("PATH", "str", "own")], None)]);
        assert_eq!(tab.lookup("PATH").as_str(), Some("own"));
        assert_eq!(tab.expand("<${CARGO_MANIFEST_DIR}>").as_str(), Some("<>"));
        assert!(tab.lookup("$parent.PATH").is_undefined());
        let open = process(&HiddenVariables::default());
        assert!(open.lookup("PATH").as_str().is_some());
    }

    #[test]
    fn an_inner_scope_hides_the_outer_one_and_parent_skips_it() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("A").as_str(), Some("group"));
        assert_eq!(group.lookup("$parent.A").as_str(), Some("tab"));
    }

    #[test]
    fn a_self_reference_takes_the_value_of_the_outer_scope() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("N").as_number(), Some(7.0));
    }

    #[test]
    fn expressions_can_read_variables_of_outer_scopes() {
        let (tab, group) = scopes();
        assert_eq!(tab.lookup("J").as_number(), Some(2.0));
        assert_eq!(tab.lookup("K").as_str(), Some("!"));
        assert_eq!(group.lookup("K").as_str(), Some("tab!"));
        assert_eq!(tab.lookup("H").as_number(), Some(16.0));
        assert_eq!(tab.lookup("C").as_str(), Some(""));
    }

    /// As observed on Node-RED 4.1.15.
    #[test]
    fn an_unevaluated_env_entry_reads_as_its_source_text() {
        let (_, group) = scopes();
        assert_eq!(group.lookup("L").as_str(), Some("${M}2"));
        assert_eq!(group.lookup("M").as_str(), Some("${M}22"));
    }

    #[test]
    fn a_later_layer_hides_an_earlier_one_and_parent_skips_both() {
        let (tab, _) = scopes();
        let under = [entry("A", "str", "under"), entry("B", "str", "under")];
        let over = [entry("A", "str", "over"), entry("P", "env", "$parent.A")];
        let scope = Env::inside(&tab, &[], &[(&under, None), (&over, None)]);
        assert_eq!(scope.lookup("A").as_str(), Some("over"));
        assert_eq!(scope.lookup("B").as_str(), Some("under"));
        assert_eq!(scope.lookup("P").as_str(), Some("tab"));
        assert_eq!(scope.lookup("$parent.A").as_str(), Some("tab"));
    }

    #[test]
    fn an_env_entry_is_interpolated() {
        let (tab, _) = scopes();
        assert_eq!(tab.lookup("E").as_str(), Some("tab-x"));
    }

    #[test]
    fn an_entry_that_cannot_be_read_has_no_value() {
        let root = process(&HiddenVariables::default());
        let entries = [entry("J", "json", "{bad"), entry("E", "jsonata", "1 +")];
        let scope = Env::inside(&root, &[], &[(&entries, None)]);
        assert!(scope.lookup("J").is_undefined() && scope.lookup("E").is_undefined());
    }

    #[test]
    fn only_a_whole_property_refers_to_a_variable() {
        assert_eq!(reference("${A}"), Some("A"));
        assert_eq!(reference("$(N)"), Some("N"));
        assert_eq!(reference("pre-${A}"), None);
        assert_eq!(reference("${A B}"), None);
        assert_eq!(reference("${}"), None);
        assert_eq!(reference("${A)"), None);
    }

    #[test]
    fn an_unknown_variable_expands_to_an_empty_text() {
        let (tab, _) = scopes();
        assert_eq!(tab.expand("NO_SUCH_VARIABLE").as_str(), Some(""));
        assert_eq!(tab.expand("<${A}>").as_str(), Some("<tab>"));
    }
}
