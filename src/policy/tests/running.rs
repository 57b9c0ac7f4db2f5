//! What runs: cases by hand, and for random flow sets, users and submissions that are accepted,
//! that nothing outside the user's flows runs in another way, and that the user's flows use nothing
//! that is hidden.
//!
//! The test resolves variables as a runtime does, with values for those of the process, for
//! expressions and for credentials, which the policy does not know.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::config::Approval;
use crate::policy::*;
use flows::running::{Entry, Env, Evaluator, Graph, build, check_elements, each_key, resolved};
use flows::{Credentials, FlowSet};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Random numbers (xorshift64*): fast, and the same for a seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn hits(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

const TABS: [&str; 3] = ["t0", "t1", "t2"];
const SUBFLOWS: [&str; 3] = ["s0", "s1", "s2"];
const NODES: [&str; 12] = [
    "a", "b", "c", "d", "e", "f", "a-b", "b-c", "a-c", "a-b-c", "d-e", "a:t1",
];
const CONFIGS: [&str; 7] = ["k", "m", "km", "12", "true", "a-k", "b-m"];
const VARIABLES: [&str; 4] = ["P", "Q", "R", "NR_FLOW_ID"];
/// What the process has.
const PROCESS: [(&str, &str); 2] = [("Q", "k"), ("R", "m")];

/// An id, or a text by which a variable becomes one.
fn text(random: &mut Random) -> String {
    match random.below(8) {
        0 | 1 => format!("${{{}}}", random.one(&VARIABLES)),
        2 => format!("$({})", random.one(&VARIABLES)),
        3 => random.one(&NODES).to_owned(),
        _ => random.one(&CONFIGS).to_owned(),
    }
}

fn property(random: &mut Random) -> Json {
    match random.below(10) {
        0 => json!([text(random)]),
        1 => json!(12),
        2 => json!(true),
        3 => json!({ "deep": text(random) }),
        _ => json!(text(random)),
    }
}

fn variables(random: &mut Random) -> Json {
    let count = random.below(3);
    let entry = |random: &mut Random| {
        let kind = random.one(&[
            "str",
            "json",
            "jsonata",
            "bin",
            "num",
            "env",
            "env",
            "cred",
            "conf-type",
            "global",
            "bool",
        ]);
        let config = random.one(&CONFIGS);
        let value = match kind {
            "json" => json!([config]).to_string(),
            "jsonata" => match random.below(3) {
                0 => format!("$env(\"{}\")", random.one(&VARIABLES)),
                1 => "\"k\"&\"m\"".to_owned(),
                _ => format!("\"{config}\""),
            },
            "bin" => json!(config.as_bytes()).to_string(),
            "num" => "12".to_owned(),
            "bool" => "true".to_owned(),
            "env" => match random.below(4) {
                0 => random.one(&VARIABLES).to_owned(),
                1 => format!("k${{{}}}", random.one(&VARIABLES)),
                2 => format!("$parent.{}", random.one(&VARIABLES)),
                _ => format!("${{{}}}", random.one(&VARIABLES)),
            },
            "conf-type" if random.hits(2) => format!("${{{}}}", random.one(&VARIABLES)),
            _ => config.to_owned(),
        };
        json!({ "name": random.one(&["P", "Q", "R"]), "type": kind, "value": value })
    };
    (0..count).map(|_| entry(random)).collect()
}

fn place(random: &mut Random, own: bool) -> &'static str {
    if own && !random.hits(6) {
        return "t0";
    }
    random.one(&["t0", "t1", "t2", "t1", "s0", "s1", "s2", "lost", ""])
}

/// An element of this id. `own`: mostly on the first tab.
fn element(id: &str, random: &mut Random, own: bool) -> Json {
    let mut one = json!({ "id": id });
    if TABS.contains(&id) {
        one["type"] = "tab".into();
        if random.hits(2) {
            one["env"] = variables(random);
        }
        if random.hits(12) {
            one["disabled"] = true.into();
        }
        return one;
    }
    if SUBFLOWS.contains(&id) {
        one["type"] = "subflow".into();
        one["env"] = variables(random);
        one["in"] = json!([{ "wires": [{ "id": random.one(&NODES) }] }]);
        one["out"] = json!([{ "wires": [{ "id": random.one(&NODES), "port": 0 }] }]);
        if random.hits(4) {
            one["status"] = json!({ "wires": [{ "id": random.one(&NODES), "port": 0 }] });
        }
        return one;
    }
    let z = place(random, own);
    placed(one, random, z)
}

/// An element on a tab, in a subflow or on neither.
fn placed(mut one: Json, random: &mut Random, z: &str) -> Json {
    if !z.is_empty() {
        one["z"] = z.into();
    }
    if random.hits(6) {
        one["g"] = random.one(&NODES).into();
    }
    if random.hits(12) {
        one["d"] = true.into();
    }
    if CONFIGS.iter().any(|id| one["id"] == *id) {
        if random.hits(2) {
            one.as_object_mut().unwrap().remove("z");
        }
        one["type"] = random
            .one(&["mqtt-broker", "mqtt-broker", "pkg-config", "tls-config"])
            .into();
        one["host"] = random.one(&["h1", "h2", "${P}"]).into();
        one["tls"] = property(random);
        return one;
    }
    if random.hits(12) {
        one["type"] = "global-config".into();
        one["env"] = variables(random);
        if random.hits(2) {
            one.as_object_mut().unwrap().remove("z");
        }
        return one;
    }
    if random.hits(10) {
        one["type"] = "group".into();
        one["env"] = variables(random);
        return one;
    }
    node(one, random, z)
}

/// A node with a position.
fn node(mut one: Json, random: &mut Random, z: &str) -> Json {
    (one["x"], one["y"]) = (1.into(), 1.into());
    one["wires"] = json!([[random.one(&NODES)]]);
    match random.below(12) {
        0..3 => {
            // No subflow contains itself.
            let deeper = SUBFLOWS
                .iter()
                .filter(|sub| !SUBFLOWS.contains(&z) || **sub > z);
            let deeper: Vec<&str> = deeper.copied().collect();
            one["type"] = "comment".into();
            if !deeper.is_empty() {
                one["type"] = format!("subflow:{}", random.one(&deeper)).into();
                one["env"] = variables(random);
            }
        }
        3..7 => {
            one["type"] = "mqtt in".into();
            one["broker"] = property(random);
        }
        7..9 => {
            one["type"] = "pkg".into();
            one["any"] = property(random);
        }
        9 => {
            one["type"] = "link out".into();
            one["links"] = json!([text(random)]);
        }
        10 if random.hits(3) => one["type"] = "nope".into(),
        _ => {
            one["type"] = "function".into();
            one["func"] = random
                .one(&["return 1", "env.get('P')", "env.get(x)"])
                .into();
        }
    }
    one
}

fn elements(random: &mut Random) -> Vec<Json> {
    let mut all: Vec<Json> = Vec::new();
    for id in TABS.iter().chain(&SUBFLOWS) {
        if !random.hits(10) {
            all.push(element(id, random, false));
        }
    }
    for id in NODES.iter().chain(&CONFIGS) {
        if random.hits(2) {
            all.push(element(id, random, false));
        }
    }
    all
}

/// A change of what a user sees: elements that are added, other or gone.
fn changed(shown: &FlowSet, random: &mut Random) -> Vec<Json> {
    let mut all: Vec<Json> = shown
        .nodes()
        .iter()
        .map(|node| node.object().into())
        .collect();
    for _ in 0..=random.below(3) {
        let pools = [&TABS[..], &SUBFLOWS, &NODES, &NODES, &CONFIGS];
        let pool = pools[random.below(pools.len())];
        let id = random.one(pool);
        let at = all.iter().position(|one| one["id"] == id);
        match at {
            Some(at) if random.hits(5) => drop(all.remove(at)),
            Some(at) if random.hits(3) && !all[at]["env"].is_null() => {
                all[at]["env"] = variables(random);
            }
            Some(at) => {
                let mut new = element(id, random, true);
                if random.hits(2) && !all[at]["z"].is_null() {
                    new["z"] = all[at]["z"].clone();
                }
                all[at] = new;
            }
            None => all.push(element(id, random, true)),
        }
    }
    all
}

fn set(elements: &[Json]) -> Option<FlowSet> {
    FlowSet::parse(Json::from(elements.to_vec()).to_string().as_bytes()).ok()
}

/// A runtime: it knows the variables of the process, and evaluates a few expressions.
#[derive(Debug)]
struct Concrete;

impl Evaluator for Concrete {
    fn process_variable(&self, name: &str) -> ::value::Value {
        let found = PROCESS.iter().find(|(known, _)| *known == name);
        found.map_or(::value::Value::Undefined, |(_, value)| {
            ::value::Value::from(*value)
        })
    }

    fn entry(
        &self,
        entry: &Entry,
        _: Option<&Map<String, Json>>,
        scope: &Rc<Env>,
    ) -> Option<::value::Value> {
        let text = entry.value.as_str().unwrap_or_default();
        match entry.kind.as_str() {
            "jsonata" => Some(match text.strip_prefix("$env(\"") {
                Some(name) => scope.lookup(name.trim_end_matches("\")")),
                None => ::value::Value::from(text.replace(['"', '&'], "")),
            }),
            // A value of a context.
            "global" => Some(::value::Value::from("k")),
            _ => None,
        }
    }
}

/// True if a config node does not count: by its tab and id.
type LeavesOut<'a> = &'a dyn Fn(&str, &str) -> bool;

/// What a runtime makes of a flow set.
struct World {
    graph: Graph,
    /// The properties of each node, by its running id.
    nodes: BTreeMap<SmolStr, (Option<SmolStr>, Json)>,
    /// Those of them that are config nodes.
    configs: BTreeSet<SmolStr>,
}

const MISSING: &str = "nope";

fn lacks_types(flows: &FlowSet) -> bool {
    let mut nodes = flows.nodes().iter();
    nodes.any(|node| !flows::type_is_known(node, flows, |kind| kind != MISSING))
}

impl World {
    /// A type that is not known stops all.
    fn of(flows: &FlowSet, credentials: &Credentials) -> Self {
        if lacks_types(flows) {
            Self::with_all_types(&FlowSet::default(), credentials)
        } else {
            Self::with_all_types(flows, credentials)
        }
    }

    fn with_all_types(flows: &FlowSet, credentials: &Credentials) -> Self {
        let evaluator: Rc<dyn Evaluator> = Rc::new(Concrete);
        let graph = build(flows, None, credentials, &evaluator);
        let nodes = graph.nodes.iter().map(|running| {
            let text = resolved(running, &|name| graph.variable(running, name));
            let mut properties: Json = serde_json::from_str(&text).unwrap();
            let wires = running
                .wires()
                .map(|ids| json!(ids.iter().map(SmolStr::as_str).collect::<Vec<_>>()));
            properties["all wires"] = wires.collect();
            (
                running.id.clone(),
                (graph.tab(running).cloned(), properties),
            )
        });
        let nodes = nodes.collect();
        let configs = graph.nodes.iter().filter(|running| !running.node.placed);
        let configs = configs.map(|running| running.id.clone()).collect();
        Self {
            graph,
            nodes,
            configs,
        }
    }

    /// The config nodes that a node uses itself.
    fn uses(&self, id: &str) -> BTreeSet<&SmolStr> {
        let mut found = BTreeSet::new();
        let Some((_, Json::Object(properties))) = self.nodes.get(id) else {
            return found;
        };
        // What these types look up is of one type.
        let wanted = match properties["type"].as_str().unwrap() {
            "mqtt in" => Some(("broker", "mqtt-broker")),
            "mqtt-broker" => Some(("tls", "tls-config")),
            "pkg" | "pkg-config" => None,
            _ => return found,
        };
        let is_of = |id: &SmolStr| {
            let kind = &self.nodes[id].1["type"];
            wanted.is_none_or(|(_, wanted)| wanted == kind)
        };
        for (name, value) in properties {
            let is_reference = match wanted {
                Some((wanted, _)) => name == wanted,
                None => matches!(name.as_str(), "any" | "tls" | "host"),
            };
            if is_reference {
                let mut see =
                    |key: &str| found.extend(self.configs.get(key).filter(|id| is_of(id)));
                each_key(value, &mut see);
            }
        }
        found
    }

    /// A node with all config nodes that it uses, directly or not, but for those that are left out.
    fn whole(&self, id: &str, leaves_out: LeavesOut<'_>) -> BTreeMap<SmolStr, Json> {
        let mut found = BTreeMap::new();
        let mut left = vec![SmolStr::new(id)];
        while let Some(id) = left.pop() {
            let Some((tab, properties)) = self.nodes.get(&id) else {
                continue;
            };
            let is_out = tab.as_ref().is_some_and(|tab| leaves_out(tab, &id));
            if !is_out && found.insert(id.clone(), properties.clone()).is_none() {
                left.extend(self.uses(&id).into_iter().cloned());
            }
        }
        found
    }

    /// Everything that runs on such tabs.
    fn on(&self, is: impl Fn(&str) -> bool, leaves_out: LeavesOut<'_>) -> Running {
        let nodes = self.nodes.iter();
        let there = nodes.filter(|(_, (tab, _))| tab.as_ref().is_some_and(|tab| is(tab)));
        there
            .map(|(id, _)| (id.clone(), self.whole(id, leaves_out)))
            .collect()
    }
}

/// A deployment that was accepted, and what it leads to.
struct Accepted {
    before: Arc<FlowSet>,
    after: Arc<FlowSet>,
    sight: Sight,
    permissions: Permissions,
}

fn types(kind: &str) -> bool {
    kind != MISSING
}

/// A random deployment by a user of the first tab; `None`: it is refused.
fn deploy(random: &mut Random) -> Option<Accepted> {
    let before = Arc::new(set(&elements(random))?);
    check_elements(&before).ok()?;
    let names: &[&str] = if random.hits(2) {
        &["flows.write:t0"]
    } else {
        &["flows.read", "flows.write:t0"]
    };
    let permissions = Permissions::of(names.iter().map(SmolStr::new).collect());
    let sight = Sight::of(&permissions, &before);
    let submitted = set(&changed(&sight.shown(), random))?;
    let after = if sight.is_whole() {
        submitted
    } else {
        FlowSet::new(merged(&sight, &submitted).ok()?).ok()?
    };
    let after = Arc::new(after);
    widened(&sight, &Sight::of(&permissions, &after))
        .allowed()
        .ok()?;
    check_elements(&after).ok()?;
    let who = Who {
        user: "ann",
        permissions: &permissions,
    };
    let deployment = Deployment {
        before: &before,
        after: &after,
        sent: &HashSet::new(),
        types: Some(&types),
    };
    verdict(&Policy::default(), who, &deployment)
        .allowed()
        .ok()?;
    Some(Accepted {
        before,
        after,
        sight,
        permissions,
    })
}

type Running = BTreeMap<SmolStr, BTreeMap<SmolStr, Json>>;

/// What runs in another way, and the elements that differ.
fn different(before: &FlowSet, after: &FlowSet, [was, is]: [&Running; 2]) -> String {
    let ids: BTreeSet<&SmolStr> = was.keys().chain(is.keys()).collect();
    let differ = ids.into_iter().filter(|id| was.get(*id) != is.get(*id));
    let shown = differ.map(|id| format!("{id}: {:?}\n -> {:?}\n", was.get(id), is.get(id)));
    let texts = |one: &FlowSet| {
        let texts = one.nodes().iter().map(|node| format!("  {}\n", node.text));
        texts.collect::<String>()
    };
    shown.collect::<String>() + "before\n" + &texts(before) + "after\n" + &texts(after)
}

fn nothing() -> Credentials {
    Credentials::default()
}

/// The config nodes that the own flow used before, and those that an element names which the user
/// saw.
fn given(was: &World, sight: &Sight) -> BTreeSet<String> {
    let own = was
        .nodes
        .iter()
        .filter(|(_, (tab, _))| tab.as_deref() == Some("t0"));
    let used = own.flat_map(|(id, _)| was.uses(id));
    let mut given: BTreeSet<String> = used.map(ToString::to_string).collect();
    for node in sight.shown().nodes() {
        each_key(&node.object().into(), &mut |key| {
            given.insert(key.to_owned());
        });
    }
    given
}

/// Checks one random deployment; whether it was accepted.
fn check_rights(random: &mut Random) -> Result<bool, String> {
    let Some(accepted) = deploy(random) else {
        return Ok(false);
    };
    let Accepted { before, after, .. } = &accepted;
    let (was, is) = (World::of(before, &nothing()), World::of(after, &nothing()));
    let own = |tab: &str| tab == "t0";
    // A config node on the own tab is the user's, unless others have waited for it.
    let leaves_out = |tab: &str, id: &str| own(tab) && before.get(id).is_some();
    let others = |world: &World| world.on(|tab| !own(tab), &leaves_out);
    if !lacks_types(before) && others(&was) != others(&is) {
        return Err(different(before, after, [&others(&was), &others(&is)]));
    }
    if is.nodes.len() != is.graph.nodes.len() {
        return Err("an id runs twice".to_owned());
    }
    let sight = Sight::of(&accepted.permissions, after);
    let written = World::with_all_types(before, &nothing());
    let had = given(&written, &accepted.sight);
    let all_flows = |node: &Json| node["type"] == "global-config";
    for (id, (tab, _)) in is.nodes.iter().filter(|(_, (_, node))| !all_flows(node)) {
        let is_own = tab.as_deref().is_some_and(own);
        if tab.is_some() && !sight.is_whole() && sight.sees(id) != is_own {
            return Err(format!("{id} is seen, or is not: {}", after.to_json()));
        }
        if is_own && !accepted.sight.is_whole() {
            let is_hidden = |used: &&&SmolStr| accepted.sight.hides(used);
            let borrowed: Vec<_> = is.uses(id).into_iter().collect();
            let borrowed: Vec<_> = borrowed.iter().filter(is_hidden).collect();
            if !borrowed.iter().all(|used| had.contains(used.as_str())) {
                return Err(format!(
                    "{id} uses {borrowed:?}: {}\n{}",
                    before.to_json(),
                    after.to_json()
                ));
            }
        }
    }
    Ok(true)
}

/// Returns whether a deployment by a user of all flows needs approval, when changes of the tab `t1`
/// do.
fn is_proposed(before: &FlowSet, after: &FlowSet) -> bool {
    let permissions = Permissions::of(["flows.write".into()].into());
    let approval = Approval {
        flows: vec!["t1".to_owned()],
        ..Approval::default()
    };
    let policy = Policy {
        approval,
        ..Policy::default()
    };
    let who = Who {
        user: "ann",
        permissions: &permissions,
    };
    let deployment = Deployment {
        before,
        after,
        sent: &HashSet::new(),
        types: Some(&types),
    };
    needs_approval(&policy, who, &deployment).is_some()
}

/// Checks that what needs no approval leaves what the guarded tab runs as it is; whether it needs
/// none.
fn check_approval(random: &mut Random) -> Result<bool, String> {
    let Some(before) = set(&elements(random)) else {
        return Ok(false);
    };
    let Some(after) = set(&changed(&before, random)) else {
        return Ok(false);
    };
    if check_elements(&before).is_err() || check_elements(&after).is_err() || lacks_types(&before) {
        return Ok(false);
    }
    if is_proposed(&before, &after) {
        return Ok(false);
    }
    let guarded =
        |flows: &FlowSet| World::of(flows, &nothing()).on(|tab| tab == "t1", &|_, _| false);
    if guarded(&before) == guarded(&after) {
        return Ok(true);
    }
    Err(different(
        &before,
        &after,
        [&guarded(&before), &guarded(&after)],
    ))
}

/// Checks as many random cases as `FLOWGATE_CASES` says, from the seed `FLOWGATE_SEED` on.
fn check_all(check: impl Fn(&mut Random) -> Result<bool, String>) {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok();
        given.map_or(default, |text| text.parse().unwrap())
    };
    let (first, cases) = (number("FLOWGATE_SEED", 0), number("FLOWGATE_CASES", 10_000));
    let (mut accepted, mut found) = (0, Vec::new());
    for seed in first..first + cases {
        match check(&mut Random::new(seed)) {
            Ok(is_accepted) => accepted += u64::from(is_accepted),
            Err(difference) => found.push(format!("seed {seed}: {difference}")),
        }
    }
    let shown = found.iter().take(3).map(|one| format!("{one}\n"));
    assert!(
        found.is_empty(),
        "{} findings\n{}",
        found.len(),
        shown.collect::<String>()
    );
    assert!(
        accepted >= cases / 50,
        "only {accepted} of {cases} cases are accepted"
    );
}

#[test]
fn an_accepted_deployment_changes_nothing_that_runs_outside_of_the_flows_of_its_user() {
    check_all(check_rights);
}

#[test]
fn a_deployment_without_approval_changes_nothing_that_runs_on_a_guarded_flow() {
    check_all(check_approval);
}

#[test]
fn a_global_config_that_becomes_another_node_ends_its_variables_and_needs_approval() {
    let elements = |kind: &str| {
        let one = json!({ "id": "g", "type": kind, "env": [{ "name": "P", "type": "str", "value": "h" }] });
        let broker = json!({ "id": "m", "z": "t1", "type": "mqtt-broker", "host": "${P}" });
        set(&[json!({ "id": "t1", "type": "tab" }), broker, one]).unwrap()
    };
    assert!(is_proposed(
        &elements("global-config"),
        &elements("comment")
    ));
    assert!(is_proposed(
        &elements("comment"),
        &elements("global-config")
    ));
}

#[test]
fn a_tab_that_is_enabled_starts_config_nodes_that_guarded_flows_may_use_and_needs_approval() {
    let elements = |reference: &str, is_disabled: bool| {
        let tab = json!({ "id": "t2", "type": "tab", "disabled": is_disabled });
        let broker = json!({ "id": "m", "z": "t2", "type": "mqtt-broker", "host": "h" });
        let user = json!({ "id": "a", "z": "t1", "type": "mqtt in", "broker": reference, "x": 1, "wires": [] });
        set(&[json!({ "id": "t1", "type": "tab" }), tab, broker, user]).unwrap()
    };
    let toggled = |reference: &str, enabled: bool| {
        is_proposed(
            &elements(reference, enabled),
            &elements(reference, !enabled),
        )
    };
    for enabled in [true, false] {
        assert!(toggled("${OF_THE_PROCESS}", enabled));
        assert!(!toggled("other", enabled));
    }
}
