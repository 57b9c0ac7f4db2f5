//! Tests that functions and native code share the objects of the context stores.

use super::*;
use crate::context::Contexts;
use crate::context::Scope;
use crate::settings::{ContextFiles, ContextStore};
use value::Path as Key;

/// Nodes of one flow, with the contexts that they share.
struct Flow {
    scripts: Rc<Scripts>,
    context: NodeContext,
}

impl Flow {
    fn new() -> Self {
        Self {
            scripts: scripts(),
            context: node_context(),
        }
    }

    fn node(&self, source: &str) -> Sandbox {
        let code = Code {
            function: source.into(),
            ..Code::default()
        };
        Sandbox::new(Rc::clone(&self.scripts), code, self.context.clone())
    }

    /// Runs code in a node of its own, which stays; returns the payload.
    fn run(&self, source: &str) -> (String, Sandbox) {
        let mut node = self.node(source);
        let effects = node.call(message(1.0));
        let payload = match effects.first() {
            Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
            other => format!("{other:?}"),
        };
        (payload, node)
    }

    /// What a switch node reads.
    fn read(&self, key: &str) -> String {
        let key = Key::parse(key).unwrap();
        let mut contexts = self.context.contexts.borrow_mut();
        format!("{:?}", contexts.read(Scope::Flow, &self.context.info, &key))
    }

    /// Writes as a change node does.
    fn write(&self, key: &str, value: impl Into<Value>) -> bool {
        let key = Key::parse(key).unwrap();
        let mut contexts = self.context.contexts.borrow_mut();
        contexts
            .write(Scope::Flow, &self.context.info, &key, value.into())
            .unwrap()
    }

    /// Returns whether the value of a key lives in JavaScript.
    fn is_kept(&self, key: &str) -> bool {
        let key = Key::parse(key).unwrap();
        let mut contexts = self.context.contexts.borrow_mut();
        let slot = contexts
            .slot(Scope::Flow, &self.context.info, &key)
            .unwrap();
        contexts.object(&slot, false).is_some()
    }
}

#[test]
fn functions_of_a_flow_share_a_stored_object() {
    let flow = Flow::new();
    let (_, setter) = flow.run("kept = { n: 1, in: { a: [1] } }; flow.set('o', kept); return msg");
    let (seen, reader) =
        flow.run("flow.get('o').in.a.push(2); msg.payload = flow.get('o'); return msg");
    assert_eq!(seen, r#"{"n": 1, "in": {"a": [1, 2]}}"#);
    let (seen, _) = flow.run(
        "msg.payload = [flow.get('o.in.a'), flow.get('o.in') === flow.get('o').in]; return msg",
    );
    assert_eq!(seen, "[[1, 2], true]");
    drop((setter, reader));
    assert_eq!(flow.read("o.in.a[1]"), "2");
}

#[test]
fn native_code_reads_what_code_has_changed_since() {
    let flow = Flow::new();
    let (_, mut node) = flow.run("const o = flow.get('o') ?? { n: 0, list: [] }; flow.set('o', o); setTimeout(() => { o.n = 2; o.list.push('x') }, 5); return msg");
    assert_eq!(flow.read("o"), r#"{"n": 0, "list": []}"#);
    node.timer(1);
    assert_eq!(flow.read("o.n"), "2");
    assert_eq!(flow.read("o.list[0]"), r#""x""#);
    assert_eq!(flow.read("o.list.length"), "1");
    assert_eq!(flow.read("o"), r#"{"n": 2, "list": ["x"]}"#);
}

#[test]
fn native_writes_change_the_object_that_code_holds() {
    let flow = Flow::new();
    let (_, mut node) = flow.run("const o = flow.get('o') ?? { n: 0 }; flow.set('o', o); setInterval(() => node.warn(o), 5); return msg");
    assert!(flow.write("o.n", 7.0));
    assert!(flow.write("o.deep.er", "x"));
    assert!(!flow.write("o.n.x", 1.0));
    assert!(
        matches!(&node.timer(1)[..], [_, Effect::Log(_, o)] if format!("{o:?}") == r#"{"n": 7, "deep": {"er": "x"}}"#)
    );
    assert!(flow.write("o.deep", Value::Undefined));
    assert_eq!(flow.read("o"), r#"{"n": 7}"#);
    // A new value is another object.
    assert!(flow.write("o", 1.0));
    assert_eq!(flow.read("o"), "1");
    assert_eq!(flow.run("msg.payload = flow.get('o'); return msg").0, "1");
}

#[test]
fn an_object_to_which_no_code_refers_stays_converted_once_it_was_read() {
    let flow = Flow::new();
    let (_, holder) =
        flow.run("held = { a: 1 }; flow.set('held', held); flow.set('free', { a: 1 }); return msg");
    assert!(flow.is_kept("held") && flow.is_kept("free"));
    assert_eq!(flow.read("free.a"), "1");
    assert!(
        flow.is_kept("free"),
        "a leaf is read without converting the rest"
    );
    assert_eq!(flow.read("held"), flow.read("free"));
    assert!(flow.is_kept("held") && !flow.is_kept("free"));
    drop(holder);
    assert_eq!(flow.read("held"), r#"{"a": 1}"#);
    assert!(!flow.is_kept("held"));
    assert_eq!(
        flow.run("flow.get('free').a = 2; msg.payload = flow.get('free'); return msg")
            .0,
        r#"{"a": 2}"#
    );
}

#[test]
fn stored_functions_and_classes_stay_what_they_are() {
    let flow = Flow::new();
    let (_, maker) = flow.run("global.set('twice', x => 2 * x); global.set('lib', { add: (a, b) => a + b, seen: new Map([[1, 2]]) }); return msg");
    drop(maker);
    flow.context
        .contexts
        .borrow_mut()
        .clean(&flows::FlowSet::default());
    assert_eq!(flow.run("msg.payload = RED.util.evaluateJSONataExpression(RED.util.prepareJSONataExpression(\"$globalContext('lib')\"), msg); return msg").0, r#"{"seen": {"1": 2}}"#);
    assert_eq!(
        flow.run("const lib = global.get('lib'); msg.payload = [global.get('twice')(4), lib.add(1, 2), lib.seen.get(1)]; return msg").0,
        "[8, 3, 2]"
    );
}

#[test]
fn getters_of_a_stored_object_run_without_a_node_and_within_the_time_limit() {
    let flow = Flow::new();
    flow.run("flow.set('o', { get a() { for (;;); }, get b() { return flow.get('x') ?? 'none' }, c: 3 }); return msg");
    assert_eq!(flow.read("o.a"), "undefined");
    assert_eq!(flow.read("o.b"), "undefined");
    assert_eq!(flow.read("o"), "undefined");
    assert_eq!(flow.read("o.c"), "3");
    assert_eq!(
        flow.run("msg.payload = flow.get('o.b'); return msg").0,
        r#""none""#
    );
}

#[test]
fn an_expression_in_a_function_sees_changes_made_in_place() {
    let flow = Flow::new();
    let (seen, _) = flow.run(
        "flow.set('o', { n: 1 }); flow.get('o').n = 5;
         const e = RED.util.prepareJSONataExpression(\"$flowContext('o').n + $flowContext('o.n')\");
         RED.util.evaluateJSONataExpression(e, msg, (failed, value) => { msg.payload = value }); return msg",
    );
    assert_eq!(seen, "10");
}

#[test]
fn no_path_into_a_stored_object_leads_to_a_prototype() {
    let flow = Flow::new();
    let (_, mut node) = flow.run("flow.set('o', {}); flow.set('o.__proto__.x', 1); msg.payload = [({}).x, flow.get('o.__proto__')]; return msg");
    assert!(!flow.write("o.__proto__.x", 1.0));
    assert!(
        matches!(&node.call(message(1.0))[..], [Effect::Pass(m)] if format!("{:?}", m.get("payload")) == "[undefined, undefined]")
    );
}

#[test]
fn a_value_too_large_for_native_code_is_undefined_there() {
    let flow = Flow::new();
    flow.run("const o = { a: 1 }; let at = o; for (let n = 0; n < 600; n++) at = at.in = {}; flow.set('o', o); return msg");
    assert_eq!(flow.read("o.a"), "1");
    assert_eq!(flow.read("o"), "undefined");
    assert_eq!(
        flow.run("msg.payload = flow.get('o').in.in !== undefined; return msg")
            .0,
        "true"
    );
}

#[test]
fn objects_of_functions_that_have_ended_are_converted_by_a_deployment() {
    let flow = Flow::new();
    let (_, node) = flow.run("global.set('g', { a: [1] }); return msg");
    let key = Key::name("g");
    let slot = flow
        .context
        .contexts
        .borrow()
        .slot(Scope::Global, &flow.context.info, &key)
        .unwrap();
    let deploy = || {
        flow.context
            .contexts
            .borrow_mut()
            .clean(&flows::FlowSet::default());
    };
    deploy();
    assert!(
        flow.context
            .contexts
            .borrow_mut()
            .object(&slot, false)
            .is_some()
    );
    drop(node);
    deploy();
    assert!(
        flow.context
            .contexts
            .borrow_mut()
            .object(&slot, false)
            .is_none()
    );
    assert_eq!(
        flow.run("msg.payload = global.get('g'); return msg").0,
        r#"{"a": [1]}"#
    );
}

#[test]
fn a_change_in_place_reaches_the_file_of_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = ContextStore {
        name: "disk".into(),
        files: Some(ContextFiles {
            directory: directory.path().to_owned(),
            flush: Duration::from_secs(30),
            file_limit: 4096,
        }),
    };
    let mut flow = Flow::new();
    let open = || Rc::new(Contexts::open(std::slice::from_ref(&store)).into());
    flow.context.contexts = open();
    flow.run("flow.set('o', { n: 1 }); return msg");
    flow.context.contexts.borrow_mut().close();
    let file = directory.path().join("t1/flow.json");
    let written = || std::fs::metadata(&file).unwrap().modified().unwrap();
    let first = written();

    flow.context.contexts = open();
    flow.run("flow.get('o').n; return msg");
    flow.context.contexts.borrow_mut().close();
    assert_eq!(first, written(), "a read alone writes no file");

    flow.context.contexts = open();
    flow.run("flow.get('o').n = 2; return msg");
    flow.context.contexts.borrow_mut().close();
    flow.context.contexts = open();
    assert_eq!(flow.read("o"), r#"{"n": 2}"#);
}
