//! Tests that nodes are isolated from one another.

use super::*;

/// The result of a second node after a first one has run.
fn after(first: &str, second: &str) -> String {
    let scripts = scripts();
    let code = |source: &str| Code {
        function: source.into(),
        ..Code::default()
    };
    let effects = sandbox_of(&scripts, code(first)).call(message(1.0));
    assert!(!effects.is_empty());
    match sandbox_of(&scripts, code(second))
        .call(message(1.0))
        .first()
    {
        Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_node_cannot_change_the_library_of_another_node() {
    let patch = "
        const evil = () => 'evil';
        Buffer.from = evil; Buffer.mine = 1; Buffer.prototype.toString = evil; Buffer.prototype.mine = 1;
        URL.prototype.toString = evil; URLSearchParams.prototype.get = evil; util.format = evil; util.types.isDate = evil;
        Object.getPrototypeOf(Buffer).from = evil; Object.getPrototypeOf(Buffer.prototype).fill = evil;
        const theirs = Buffer.constructor('return this')();
        theirs.mine = 1; theirs.Object.keys = evil; theirs.Object.prototype.mine = 1; theirs.Array.prototype.map = evil;
        theirs.Error.prototype.toString = evil; theirs.Error.prepareStackTrace = evil; theirs.Map.prototype.get = evil;
        theirs.eval('var mine = 1; let ours = 1'); delete Buffer.alloc; Object.setPrototypeOf(util, { mine: 1 });
        return msg";
    let look = "
        const theirs = Buffer.constructor('return this')();
        msg.payload = [
            Buffer.from('a').toString('hex'), Buffer.mine, Buffer.alloc(1).mine, new URL('http://a/').toString(),
            new URLSearchParams('b=c').get('b'), util.format('%s', 'd'), util.types.isDate(1), util.mine,
            theirs.mine, theirs.ours, Object.keys(theirs.Object.keys({ e: 1 })), theirs.eval('typeof mine + typeof ours'),
            String(theirs.Error('f')), typeof theirs.Error('g').stack, theirs.Error.prepareStackTrace];
        return msg";
    assert_eq!(after(patch, look), after("return msg", look));
    assert!(
        after("return msg", look)
            .starts_with(r#"["61", undefined, undefined, "http://a/", "c", "d", false"#)
    );
}

#[test]
fn everything_reachable_from_the_library_is_frozen() {
    let walk = "
        const seen = new Set(), open = [];
        const is = v => typeof v === 'object' && v !== null || typeof v === 'function';
        const left = [Buffer, URL, URLSearchParams, util, Buffer.constructor('return this')(), new URL('http://a/').searchParams.keys()];
        while (left.length) {
            const at = left.pop();
            if (!is(at) || seen.has(at)) continue;
            seen.add(at);
            if (!Object.isFrozen(at)) open.push(util.inspect(at));
            left.push(Object.getPrototypeOf(at));
            for (const key of Reflect.ownKeys(at)) {
                const own = Object.getOwnPropertyDescriptor(at, key);
                left.push(own.value, own.get, own.set);
            }
        }
        msg.payload = [seen.size > 500, open];
        return msg";
    // The iterator is the node's own.
    assert_eq!(payload(walk, 1.0), r#"[true, ["Object [Generator] {}"]]"#);
}

#[test]
fn assignments_to_the_library_are_ignored_or_throw_in_strict_code() {
    assert_eq!(
        payload("Buffer.x = 1; msg.payload = Buffer.x; return msg", 1.0),
        "undefined"
    );
    let strict = |source: &str| error(&format!("(function () {{ 'use strict'; {source} }})()"));
    assert!(strict("Buffer.x = 1").starts_with("TypeError"));
    assert!(strict("Buffer.prototype.x = 1").starts_with("TypeError"));
    // As in Node-RED, the code itself cannot be strict.
    assert_eq!(
        payload(
            "'use strict'; undeclared = 1; msg.payload = undeclared; return msg",
            1.0
        ),
        "1"
    );
}

#[test]
fn objects_that_a_node_makes_from_the_library_are_mutable() {
    let made = |source: &str| payload(&format!("{source}; return msg"), 1.0);
    assert_eq!(
        made(
            "class X extends Buffer { toString() { return 'x' + this.length } get two() { return 2 } }; const x = new X(3); x.own = 1; X.all = 4; msg.payload = [String(x), x.two, x.own, X.all, Buffer.isBuffer(x), x instanceof X]"
        ),
        r#"["x3", 2, 1, 4, true, true]"#
    );
    assert_eq!(
        made(
            "const b = Buffer.from('ab'); b.name = 'n'; b[0] = 99; msg.payload = [b.name, b.toString()]"
        ),
        r#"["n", "cb"]"#
    );
    assert_eq!(
        made(
            "class U extends URL { get href() { return 'mine' } }; msg.payload = new U('http://a/').href"
        ),
        r#""mine""#
    );
    assert_eq!(
        made(
            "let e; try { Buffer.alloc('x') } catch (caught) { e = caught }; e.name = 'Mine'; e.toString = () => 'told'; msg.payload = [e.name, String(e)]"
        ),
        r#"["Mine", "told"]"#
    );
    assert_eq!(
        made(
            "RED.util.own = 1; node.own = 2; console.own = 3; flow.own = 4; msg.payload = [RED.util.own, node.own, console.own, flow.own]"
        ),
        "[1, 2, 3, 4]"
    );
    assert_eq!(
        made(
            "const o = util.promisify(f => f(null, 1)); o.own = 1; msg.payload = [await o(), o.own]"
        ),
        "[1, 1]"
    );
}

#[test]
fn an_unhandled_rejection_is_a_node_error_without_a_message() {
    let errors = |source: &str| -> Vec<String> {
        run(source, 1.0)
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Error(failure, None) => Some(failure.to_string()),
                Effect::Error(_, Some(_)) => Some("of the message".into()),
                _ => None,
            })
            .collect()
    };
    assert_eq!(
        errors("(async () => { throw new Error('lost') })(); return msg"),
        ["Error: lost"]
    );
    assert_eq!(
        errors("Promise.resolve().then(() => {\n  nowhere() }); return msg"),
        ["ReferenceError: ReferenceError: nowhere is not defined (line 2, col 3)"]
    );
    assert_eq!(
        errors("Promise.reject('text'); throw new Error('x')").len(),
        2
    );
    assert_eq!(errors("await Promise.reject(1)"), ["of the message"]);
    assert_eq!(
        errors("for (let i = 0; i < 1000; i++) Promise.reject(i); return msg").len(),
        100
    );
}

#[test]
fn a_rejection_handled_later_in_the_invocation_is_no_error() {
    for source in [
        "Promise.reject(1).catch(() => {}); return msg",
        "const p = Promise.reject(1); await null; await null; p.catch(() => {}); return msg",
        "await Promise.allSettled([1, 2, 3].map(async x => { throw x })); return msg",
        "try { await (async () => { throw 1 })() } catch (e) {} return msg",
    ] {
        let effects = run(source, 1.0);
        assert!(
            matches!(effects[..], [Effect::Pass(_)]),
            "{source}: {effects:?}"
        );
    }
}

#[test]
fn pending_jobs_of_a_node_never_run_in_another_nodes_invocation() {
    for left in [
        "Promise.resolve().then(() => { node.warn('left') }); for (;;) {}",
        "(async () => { await null; node.warn('left') })(); for (;;) {}",
        "for (let i = 0; i < 50; i++) (async () => { for (;;) { try { await null } catch (e) {} } })(); return null",
        "(async () => { try { await null; for (;;) {} } finally { node.warn('left') } })(); for (;;) {}",
        "for (let i = 0; i < 5; i++) Promise.resolve().then(function again() { return Promise.resolve().then(again) }); for (;;) {}",
        "const p = Promise.reject(1); for (;;) {}",
    ] {
        let scripts = scripts();
        let code = |source: &str| Code {
            function: source.into(),
            ..Code::default()
        };
        let mut one = sandbox_of(&scripts, code(left));
        let effects = one.call(message(1.0));
        assert!(
            matches!(effects.last(), Some(Effect::Error(f, _)) if f.code == "ERR_SCRIPT_EXECUTION_TIMEOUT"),
            "{left}: {effects:?}"
        );
        assert!(!scripts.runtime.is_job_pending(), "{left}");
        let mut other = sandbox_of(&scripts, code("msg.payload = await 2; return msg"));
        for _ in 0..2 {
            let effects = other.call(message(1.0));
            assert!(
                matches!(effects[..], [Effect::Pass(_)]),
                "{left}: {effects:?}"
            );
        }
    }
}

#[test]
fn jobs_left_pending_by_the_code_check_never_run() {
    let scripts = scripts();
    let code = Code {
        function: "}); Promise.resolve().then(() => { for (;;) {} }); (function () { return msg"
            .into(),
        ..Code::default()
    };
    sandbox_of(&scripts, code).start();
    assert!(!scripts.runtime.is_job_pending());
}

#[test]
fn no_finalizer_of_a_node_can_run_in_another_nodes_invocation() {
    assert_eq!(
        payload(
            "msg.payload = [typeof FinalizationRegistry, Buffer.constructor('return typeof FinalizationRegistry')()]; return msg",
            1.0
        ),
        r#"["undefined", "undefined"]"#
    );
}
