//! Tests that nodes in the shared realm are isolated from one another, and that each of them is
//! itself there.

use super::*;
use crate::context::Contexts;
use std::cell::RefCell;

/// Nodes of one engine thread, all in one flow.
struct Nodes {
    scripts: Rc<Scripts>,
    contexts: Rc<RefCell<Contexts>>,
}

impl Nodes {
    fn new() -> Self {
        Self {
            scripts: scripts(),
            contexts: Rc::default(),
        }
    }

    fn node(&self, id: &str, code: Code) -> Sandbox {
        let info = NodeInfo {
            name: Some(format!("name of {id}").into()),
            container: Rc::clone(&node_context().info.container),
            ..NodeInfo::of(id, "function", Container::default())
        };
        let context = NodeContext {
            info: Rc::new(info),
            contexts: Rc::clone(&self.contexts),
            now: 0.0,
        };
        Sandbox::new(Rc::clone(&self.scripts), code, context)
    }

    fn function(&self, id: &str, source: &str) -> Sandbox {
        let function = source.into();
        self.node(
            id,
            Code {
                function,
                ..Code::default()
            },
        )
    }

    /// Evaluates text in the shared realm.
    fn inside(&self, text: &str) -> String {
        let shared = self.scripts.shared.get().unwrap();
        shared.context.with(|ctx| ctx.eval(text).unwrap())
    }
}

fn payload_of(effects: &[Effect]) -> String {
    match effects.last() {
        Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
        other => format!("{other:?}"),
    }
}

/// What a second node finds after a first one has run; both share the realm.
fn after(first: &str, second: &str) -> String {
    let nodes = Nodes::new();
    let shared = "if (!Object.isFrozen(Math.max)) { node.error('not shared') }";
    let mut one = nodes.function(
        "one",
        &format!("{shared}\ntry {{ {first} }} catch (e) {{}}\nreturn msg"),
    );
    let effects = one.call(message(1.0));
    assert!(
        matches!(effects[..], [Effect::Pass(_)]),
        "{first}: {effects:?}"
    );
    let mut other = nodes.function("other", &format!("{shared}\n{second}\nreturn msg"));
    payload_of(&other.call(message(1.0)))
}

#[test]
fn nodes_share_a_realm_if_their_code_cannot_tell() {
    let is_shared = |code: &str| {
        payload(
            &format!("msg.payload = Object.isFrozen(Math.max); {code}"),
            1.0,
        )
    };
    assert_eq!(is_shared("return msg"), "true");
    assert_eq!(is_shared("node.send(msg)"), "true");
    assert_eq!(is_shared("leaked = 1; return msg"), "false");
    assert_eq!(
        is_shared("(function () { this.x = 1 })(); return msg"),
        "false"
    );
    let nodes = Nodes::new();
    let code = |initialize: &str| Code {
        function: "msg.payload = Object.isFrozen(Math.max); return msg".into(),
        initialize: initialize.into(),
        ..Code::default()
    };
    for (initialize, shares) in [("flow.set('a', 1)", "true"), ("a = 1", "false")] {
        let mut node = nodes.node("n", code(initialize));
        node.start();
        assert_eq!(payload_of(&node.call(message(1.0))), shares);
    }
    // Text that ends the function early is no body of one.
    assert_eq!(
        is_shared(
            "return msg; }), (function (msg) { msg.payload = Object.isFrozen(Math.max); return msg"
        ),
        "false"
    );
}

#[test]
fn everything_in_the_shared_realm_is_frozen() {
    let nodes = Nodes::new();
    nodes.function("n", "return msg").call(message(1.0));
    let walk = "(() => {
        const generator = function* () {}, asynchronous = async function* () {};
        const made = [function () {}, () => {}, async () => {}, function* () {}, async function* () {}, class {}, /a/, [], {}, new Date(), ''[Symbol.iterator](),
            [].values(), new Map().keys(), new Set().keys(), 'a'.matchAll(/a/g), [].values().map(x => x), Iterator.from({ next() {} }), Iterator.concat([]), Promise.resolve(),
            generator, asynchronous, generator(), asynchronous(), (function () { return arguments })(), (function () { 'use strict'; return arguments })(),
            new Uint8Array(1), new ArrayBuffer(1), new DataView(new ArrayBuffer(1)), new WeakMap(), new WeakRef({}), new Proxy({}, {}), Symbol(), 1n, new Error(),
            ((a) => a)``, ...['EvalError', 'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError'].map(name => new globalThis[name]())];
        const seen = new Set(), open = [], fresh = new Set(made);
        const is = v => typeof v === 'object' && v !== null || typeof v === 'function';
        const left = [globalThis, Object.getPrototypeOf(Iterator.zip([])), ...made.map(value => Object(value))];
        for (const value of made) if (typeof value === 'function') fresh.add(value.prototype);
        while (left.length) {
            const at = left.pop();
            if (!is(at) || seen.has(at)) continue;
            seen.add(at);
            if (!Object.isFrozen(at) && !fresh.has(at)) open.push(Object.prototype.toString.call(at) + String(Reflect.ownKeys(at).map(String)));
            left.push(Object.getPrototypeOf(at));
            for (const key of Reflect.ownKeys(at)) {
                const own = Object.getOwnPropertyDescriptor(at, key);
                left.push(own.value, own.get, own.set);
            }
        }
        return (seen.size > 1000) + ' ' + open.filter(text => !text.startsWith('[object Symbol]') && !text.startsWith('[object BigInt]'));
    })()";
    assert_eq!(nodes.inside(walk), "true ");
}

#[test]
fn no_node_changes_what_another_finds() {
    let look = "
        const list = [3, 1].map(x => x), o = { a: 1 };
        msg.payload = [list, list.mine, o.mine, `${o}`, Object.keys(o), JSON.stringify(o), Math.max(1, 2), 'a'.padStart(2, 'b'), typeof leaked,
            Buffer.from('a').toString('hex'), new Date(0).toISOString(), (() => 1).mine, new Map([[1, 2]]).size, new Error('e').message, /a/.test('a')];";
    let untouched = after("", look);
    assert!(
        untouched.starts_with(r#"[[3, 1], undefined, undefined, "[object Object]", ["a"]"#),
        "{untouched}"
    );
    for attack in [
        "const c = 'const' + 'ructor', p = 'proto' + 'type'; const o = ({})[c]; o[p]['mine'] = 1; o['keys'] = () => 1; o[p]['toString'] = () => 'evil'",
        "const c = 'const' + 'ructor', p = 'proto' + 'type'; const a = [][c]; a[p]['map'] = () => 1; a[p]['mine'] = 1; a[p][0] = 1; a[p]['length'] = 7",
        "const p = '__pro' + 'to_' + '_'; ([])[p]['mine'] = 1; ({})[p]['mine'] = 1; msg[p]['mine'] = 1".replace("'__pro' + 'to_' + '_'", "['_', '_proto_', '_'].join('')").as_str(),
        "for (const v of [[], '', 1, () => 1, /a/, msg]) { let at = v['const' + 'ructor']; try { at['mine'] = 1; at['proto' + 'type']['mine'] = 1; at['proto' + 'type']['test'] = () => 1 } catch (e) {} }",
        "const f = (() => 1)['const' + 'ructor']; try { f('leaked = 1')(); f('}); let leaked = 1; (function () {')() } catch (e) { if (e.name !== 'EvalError') { node.error(e) } }",
        "for (const f of [function* () {}, async () => {}, async function* () {}]) { try { f['const' + 'ructor']('}); let leaked = 1; (function () {') } catch (e) {} }",
        "const f = Buffer.from; const b = f['const' + 'ructor']; try { b('leaked = 1')() } catch (e) {}",
        "const u = ['x'].map(util.format); RED.util['mine'] = 1; console['log'] = 1; env['get'] = 1; flow['get'] = 1; global['set'] = 1; context['get'] = 1",
        "const set = ({})['const' + 'ructor']['setProto' + 'typeOf']; try { set([]['const' + 'ructor'], null) } catch (e) {}",
        "const define = ({})['const' + 'ructor']['define' + 'Property']; for (const v of [[], '', {}]) { try { define(v['const' + 'ructor']['proto' + 'type'], 'mine', { value: 1 }) } catch (e) {} }",
        "const e = new Error('x')['const' + 'ructor']; e['prepareStack' + 'Trace'] = () => 1; e['stackTrace' + 'Limit'] = 0",
    ] {
        assert_eq!(after(attack, look), untouched, "{attack}");
    }
}

#[test]
fn what_a_node_has_for_itself_is_its_own() {
    assert_eq!(
        after(
            "RED.util.own = 1; node.own = 2; console.own = 3; flow.own = 4; context.own = 5; env.own = 6; global.own = 7; setTimeout.own = 8",
            "msg.payload = [RED.util.own, node.own, console.own, flow.own, context.own, env.own, global.own, setTimeout.own, context.flow === flow, context.global === global]"
        ),
        "[undefined, undefined, undefined, undefined, undefined, undefined, undefined, undefined, true, true]"
    );
    // It lasts from the setup on, as the global object of an own realm does.
    let nodes = Nodes::new();
    let mut node = nodes.node(
        "n",
        Code {
            initialize: "flow.own = node.id".into(),
            function: "msg.payload = [flow.own, Object.isFrozen(Math.max)]; flow.own = 'again'; return msg".into(),
            ..Code::default()
        },
    );
    assert!(node.start().is_empty());
    assert_eq!(payload_of(&node.call(message(1.0))), r#"["n", true]"#);
    assert_eq!(payload_of(&node.call(message(1.0))), r#"["again", true]"#);
}

#[test]
fn each_node_is_itself_in_closures_timers_and_contexts() {
    let nodes = Nodes::new();
    let source = "
        const about = () => [node.id, node.name, node.path, context.get('k'), flow.get('f'), env.get('NR_NODE_ID')];
        context.set('k', node.id);
        flow.set('f', (flow.get('f') || 0) + 1);
        setTimeout(() => { node.warn(about()) }, 5);
        const later = await Promise.resolve(about());
        msg.payload = later;
        return msg";
    let mut one = nodes.function("one", source);
    let mut two = nodes.function("two", source);
    let shown = |id: &str, count: u32| {
        format!(r#"["{id}", "name of {id}", "t1/{id}", "{id}", {count}, "{id}"]"#)
    };
    assert_eq!(payload_of(&one.call(message(1.0))), shown("one", 1));
    assert_eq!(payload_of(&two.call(message(1.0))), shown("two", 2));
    let logged = |effects: &[Effect]| match effects {
        [Effect::Log(_, value)] => format!("{value:?}"),
        other => format!("{other:?}"),
    };
    assert_eq!(logged(&one.timer(1)), shown("one", 2));
    assert_eq!(logged(&two.timer(2)), shown("two", 2));
    // A timer of another node is none of its own.
    assert!(matches!(one.timer(2)[..], []));
}

#[test]
fn each_node_closes_with_its_own_listeners_and_timers() {
    let nodes = Nodes::new();
    let source =
        "node.on('close', () => { node.log(node.id) }); setInterval(() => {}, 5); return msg";
    let mut one = nodes.function("one", source);
    let mut two = nodes.node(
        "two",
        Code {
            function: source.into(),
            finalize: "node.log('closed ' + node.id + Object.isFrozen(Math.max))".into(),
            ..Code::default()
        },
    );
    one.call(message(1.0));
    two.call(message(1.0));
    let effects = one.close();
    assert!(
        matches!(&effects[..], [Effect::Log(_, id), Effect::ClearTimer(1)] if id.as_str() == Some("one")),
        "{effects:?}"
    );
    let effects = two.close();
    assert!(
        matches!(&effects[..], [Effect::Log(_, id), Effect::ClearTimer(2), Effect::Log(_, text)]
            if id.as_str() == Some("two") && text.as_str() == Some("closed twotrue")),
        "{effects:?}"
    );
    drop(two);
    assert_eq!(
        payload_of(
            &nodes
                .function("three", "msg.payload = { a: [1] }; return msg")
                .call(message(1.0))
        ),
        r#"{"a": [1]}"#
    );
}

#[test]
fn errors_name_the_line_of_the_nodes_own_code() {
    let nodes = Nodes::new();
    let mut one = nodes.function("one", "flow.get('x');\n  nowhere();");
    let mut two = nodes.function("two", "const f = () => {\n\n  nowhere2();\n};\nf();");
    let failure = |effects: Vec<Effect>| match effects.into_iter().next() {
        Some(Effect::Error(failure, _)) => failure,
        other => panic!("{other:?}"),
    };
    let first = failure(one.call(message(1.0)));
    assert_eq!(
        first.to_string(),
        "ReferenceError: ReferenceError: nowhere is not defined (line 2, col 3)"
    );
    let second = failure(two.call(message(1.0)));
    assert_eq!(
        second.to_string(),
        "ReferenceError: ReferenceError: nowhere2 is not defined (line 3, col 3)"
    );
    assert!(
        second.stack.contains("at f (Function node:3:"),
        "{}",
        second.stack
    );
}

#[test]
fn limits_end_one_node_alone() {
    let nodes = Nodes::new();
    let mut other = nodes.function("other", "msg.payload += 1; return msg");
    for source in [
        "for (;;) {}",
        "const all = []; for (;;) { all.push(new Array(1000).fill(1)) }",
        "const f = () => f(); f()",
        "Promise.resolve().then(() => { for (;;) {} }); return null",
        "(async () => { for (;;) { await null } })(); return null",
    ] {
        let effects = nodes.function("one", source).call(message(1.0));
        assert!(
            effects.iter().any(|e| matches!(e, Effect::Error(..))),
            "{source}: {effects:?}"
        );
        assert_eq!(payload_of(&other.call(message(1.0))), "2");
    }
}

#[test]
fn objects_get_properties_of_their_own_that_frozen_prototypes_have() {
    let made = |source: &str| {
        let source =
            format!("{source}; if (!Object.isFrozen(Math.max)) {{ return null }} return msg");
        payload(&source, 1.0)
    };
    assert_eq!(
        made(
            "const o = {}; o.toString = () => 'mine'; o.hasOwnProperty = 1; o.valueOf = 2; msg.payload = [`${o}`, o.hasOwnProperty, o.valueOf, Object.keys(o)]"
        ),
        r#"["mine", 1, 2, ["toString", "hasOwnProperty", "valueOf"]]"#
    );
    assert_eq!(
        made(
            "const e = new TypeError('a'); e.name = 'Mine'; e.message = 'b'; msg.payload = String(e) + ({}).hasOwnProperty('x')"
        ),
        r#""Mine: bfalse""#
    );
    assert_eq!(
        made(
            "const o = { a: 1 }; msg.payload = [`${o}`, o.hasOwnProperty('a'), util.inspect(o), util.inspect(new Map([[1, o]])), (12.5).toLocaleString('de')]"
        ),
        r#"["[object Object]", true, "{ a: 1 }", "Map(1) { 1 => { a: 1 } }", "12,5"]"#
    );
    // Names that come from outside.
    let mut odd = message(1.0);
    for name in [
        "constructor",
        "toString",
        "hasOwnProperty",
        "__proto__",
        "length",
    ] {
        odd.set(name, "own");
    }
    let nodes = Nodes::new();
    let mut node = nodes.function("n", "const all = msg; return all");
    match &node.call(odd.clone())[..] {
        [Effect::Pass(message)] => {
            assert_eq!(
                format!("{:?}", message.to_value()),
                format!("{:?}", odd.to_value())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn objects_of_shared_and_own_realms_meet_in_contexts() {
    let nodes = Nodes::new();
    let mut own = nodes.function("own", "const o = flow.get('o'); Object.getPrototypeOf(o).evil = 1; o.constructor.keys = 1; o.f.constructor.x = 1; o.seen = true; return msg");
    let mut shared = nodes.function(
        "shared",
        "flow.set('o', { f: x => x }); msg.payload = Object.isFrozen(Math.max); return msg",
    );
    assert_eq!(payload_of(&shared.call(message(1.0))), "true");
    assert!(matches!(own.call(message(1.0))[..], [Effect::Pass(_)]));
    let mut look = nodes.function("look", "msg.payload = [({}).evil, Object.keys({ a: 1 }), flow.get('o').seen, flow.get('o').f(2)]; return msg");
    assert_eq!(
        payload_of(&look.call(message(1.0))),
        r#"[undefined, ["a"], true, 2]"#
    );
}
