//! Finds what a runtime accepts and an author hardly means: wires and links that lead nowhere,
//! endpoints that are there twice, secrets in clear. Each finding is about elements of one flow
//! set.

mod endpoints;
mod secrets;
mod types;
mod wiring;

pub use types::type_is_known;

use crate::FlowSet;
use smol_str::SmolStr;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lint {
    /// A node whose type the runtime lacks.
    MissingType,
    /// A wire to an element that does not exist.
    DanglingWire,
    /// A link to a `link in` node that does not exist.
    DanglingLink,
    /// Several enabled nodes with one endpoint; only the first gets its requests.
    DuplicateEndpoint,
    /// A secret in a property or in code, and not in the credentials.
    ClearSecret,
}

impl Lint {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::MissingType,
        Self::DanglingWire,
        Self::DanglingLink,
        Self::DuplicateEndpoint,
        Self::ClearSecret,
    ];

    /// The name for clients.
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingType => "missing_type",
            Self::DanglingWire => "dangling_wire",
            Self::DanglingLink => "dangling_link",
            Self::DuplicateEndpoint => "duplicate_endpoint",
            Self::ClearSecret => "clear_secret",
        }
    }

    /// What it means, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::MissingType => "The runtime lacks the type of a node.",
            Self::DanglingWire => "A wire leads to a node that does not exist.",
            Self::DanglingLink => "A link leads to a link in node that does not exist.",
            Self::DuplicateEndpoint => "Several nodes have the same endpoint.",
            Self::ClearSecret => {
                "A secret stands in a property or in code instead of the credentials."
            }
        }
    }
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub lint: Lint,
    /// The ids of the elements that it is about, in the order of the flow set.
    pub nodes: Vec<SmolStr>,
    /// A sentence, without the secret that it is about.
    pub message: String,
}

/// All findings, by kind, each kind in the order of the flow set. `types`: whether the runtime has
/// a type, if that is known.
pub fn lint(flows: &FlowSet, types: Option<&dyn Fn(&str) -> bool>) -> Vec<Finding> {
    let mut found = types.map_or_else(Vec::new, |types| types::missing(flows, types));
    found.extend(wiring::wires(flows));
    found.extend(wiring::links(flows));
    found.extend(endpoints::duplicates(flows));
    found.extend(secrets::in_clear(flows));
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The names and ids of what is found.
    fn found(elements: &str) -> Vec<String> {
        let flows = FlowSet::parse(format!("[{elements}]").as_bytes()).unwrap();
        let shown =
            |finding: &Finding| format!("{} {}", finding.lint.name(), finding.nodes.join(" "));
        lint(&flows, None).iter().map(shown).collect()
    }

    #[test]
    fn types_that_the_runtime_lacks_are_found_and_subflows_are_types() {
        let flows = FlowSet::parse(
            br#"[{"id":"t","type":"tab"},{"id":"S","type":"subflow"},{"id":"a","type":"x"},{"id":"b","type":"subflow:S"},
            {"id":"c","type":"subflow:N"},{"id":"d","type":"y"}]"#,
        );
        let missing = lint(&flows.unwrap(), Some(&|kind| kind == "x"));
        let ids: Vec<_> = missing.iter().flat_map(|found| &found.nodes).collect();
        assert_eq!(ids, ["c", "d"]);
    }

    #[test]
    fn wires_and_links_to_missing_nodes_are_found() {
        let nodes = concat!(
            r#"{"id":"t","type":"tab"},{"id":"a","type":"x","z":"t","x":1,"y":1,"wires":[["b"],["gone","b"]]},"#,
            r#"{"id":"b","type":"link in","z":"t","links":["elsewhere"],"x":1,"y":1,"wires":[]},"#,
            r#"{"id":"c","type":"link out","z":"t","mode":"link","links":["b","a"],"x":1,"y":1},"#,
            r#"{"id":"d","type":"link out","z":"t","mode":"return","links":["gone"],"x":1,"y":1},"#,
            r#"{"id":"e","type":"link call","z":"t","links":["gone"],"x":1,"y":1,"wires":[[]]},"#,
            r#"{"id":"f","type":"link call","z":"t","linkType":"dynamic","links":["gone"],"x":1,"y":1,"wires":[[]]}"#
        );
        assert_eq!(
            found(nodes),
            ["dangling_wire a", "dangling_link c", "dangling_link e"]
        );
    }

    #[test]
    fn enabled_nodes_with_one_method_and_path_are_duplicate_endpoints() {
        let node = |id: &str, more: &str| {
            format!(r#"{{"id":"{id}","type":"http in","z":"t","x":1,"y":1,{more}}}"#)
        };
        let nodes = [
            r#"{"id":"t","type":"tab"}"#.to_owned(),
            node("a", r#""method":"get","url":"/x/:id""#),
            node("b", r#""method":"get","url":"X/:id/""#),
            node("c", r#""method":"post","url":"/x/:id""#),
            node("d", r#""method":"get","url":"/x/:id","d":true"#),
            node("e", r#""method":"get","url":"""#),
            node("f", r#""method":"get","url":"""#),
            r#"{"id":"w","type":"websocket-listener","path":"/ws"},{"id":"v","type":"websocket-listener","path":"/ws"}"#.to_owned(),
        ];
        assert_eq!(
            found(&nodes.join(",")),
            ["duplicate_endpoint a b", "duplicate_endpoint w v"]
        );
    }

    #[test]
    fn secrets_in_properties_environments_and_code_are_found_and_not_shown() {
        let secret = "hunter2hunter2";
        let clear = [
            format!(r#"{{"id":"a","type":"x","apiKey":"{secret}"}}"#),
            format!(
                r#"{{"id":"b","type":"tab","env":[{{"name":"DB_PASSWORD","value":"{secret}","type":"str"}}]}}"#
            ),
            format!(r#"{{"id":"c","type":"function","func":"const token = '{secret}';"}}"#),
            format!(
                r#"{{"id":"d","type":"function","initialize":"x({{\"password\": \"{secret}\"}})"}}"#
            ),
            format!(
                r#"{{"id":"e","type":"x","list":[{{"deep":{{"client_secret":"{secret}"}}}}]}}"#
            ),
        ];
        assert_eq!(
            found(&clear.join(",")),
            ["a", "b", "c", "d", "e"].map(|id| format!("clear_secret {id}"))
        );
        let flows = FlowSet::parse(format!("[{}]", clear.join(",")).as_bytes()).unwrap();
        assert!(
            lint(&flows, None)
                .iter()
                .all(|finding| !finding.message.contains(secret))
        );
    }

    #[test]
    fn variables_empty_values_and_other_names_are_no_secrets() {
        let clear = concat!(
            r#"{"id":"a","type":"x","password":"","token":"${TOKEN}","tokenType":"bearer","secret":7},"#,
            r#"{"id":"b","type":"tab","env":[{"name":"PASSWORD","value":"x","type":"env"},{"name":"TOKEN","type":"cred"}]},"#,
            r#"{"id":"c","type":"function","func":"const token = env.get('TOKEN'); msg.password = ''; tokens = ['a']"},"#,
            r#"{"id":"d","type":"comment","info":"password = 'hunter2'"}"#
        );
        assert_eq!(found(clear), [""; 0]);
    }
}
