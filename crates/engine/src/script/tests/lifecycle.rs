//! Tests lasting state: globals, timers, promises, contexts, limits, setup and close.

use super::*;
use crate::log_level::Level;

#[test]
fn undeclared_variables_live_from_message_to_message_but_not_from_node_to_node() {
    let scripts = scripts();
    let code = Code { function: "count = (typeof count === 'undefined' ? 0 : count) + 1; msg.payload = count; return msg".into(), ..Code::default() };
    let (mut one, mut other) = (
        sandbox_of(&scripts, code.clone()),
        sandbox_of(&scripts, code),
    );
    let count = |sandbox: &mut Sandbox| match sandbox.call(message(0.0)).pop() {
        Some(Effect::Pass(message)) => message.get("payload").as_number(),
        _ => None,
    };
    assert_eq!(
        (count(&mut one), count(&mut one), count(&mut other)),
        (Some(1.0), Some(2.0), Some(1.0))
    );
}

#[test]
fn endless_code_is_stopped_and_the_next_message_runs() {
    let mut sandbox =
        function("if (msg.payload === 1) { try { while (true) {} } catch (e) {} } return msg");
    let effects = sandbox.call(message(1.0));
    let [Effect::Error(failure, Some(_))] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(
        failure.to_string(),
        "Error: Script execution timed out after 200ms"
    );
    assert!(matches!(sandbox.call(message(2.0))[..], [Effect::Pass(_)]));
    assert!(matches!(
        run("(async () => { for (;;) await null })(); return null", 1.0).last(),
        Some(Effect::Error(..))
    ));
}

#[test]
fn exhausted_memory_is_an_error_of_that_node_only() {
    let scripts = scripts();
    let code = |source: &str| Code {
        function: source.into(),
        limit: Some(Duration::from_secs(20)),
        ..Code::default()
    };
    let mut greedy = sandbox_of(
        &scripts,
        code("let a = []; for (;;) a.push(new Array(10000).fill(1));"),
    );
    assert!(matches!(greedy.call(message(1.0))[..], [Effect::Error(..)]));
    let mut modest = sandbox_of(&scripts, code("return msg"));
    assert!(matches!(modest.call(message(1.0))[..], [Effect::Pass(_)]));
}

#[test]
fn endless_recursion_is_an_error() {
    assert!(error("function f() { return f() + 1 } f()").contains("RangeError"));
}

#[test]
fn promises_and_timers_finish_later() {
    assert_eq!(
        payload("msg.payload = await Promise.resolve(5); return msg", 1.0),
        "5"
    );
    assert_eq!(
        payload("return new Promise(r => r({ payload: 6 }))", 1.0),
        "6"
    );
    let mut sandbox = function(
        "setTimeout(x => { msg.payload = x; node.send(msg); node.done() }, 50, 'late'); return null",
    );
    let effects = sandbox.call(message(1.0));
    let [Effect::SetTimer(number, delay)] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(delay, Duration::from_millis(50));
    let effects = sandbox.timer(number);
    let [Effect::Send(sent), Effect::Done(_)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(sent[0].1.get("payload").as_str(), Some("late"));
    assert!(sandbox.timer(number).is_empty());
}

#[test]
fn intervals_repeat_until_they_are_cleared() {
    let mut sandbox = function(
        "let n = 0; const t = setInterval(() => { if (++n === 2) clearInterval(t) }, 10); return null",
    );
    let effects = sandbox.call(message(1.0));
    let [Effect::SetTimer(number, _), Effect::Done(_)] = effects[..] else {
        panic!("{effects:?}")
    };
    assert!(matches!(sandbox.timer(number)[..], [Effect::SetTimer(..)]));
    assert!(matches!(
        sandbox.timer(number)[..],
        [Effect::SetTimer(..), Effect::ClearTimer(_)]
    ));
    assert!(sandbox.timer(number).is_empty());
}

#[test]
fn contexts_are_read_and_written_in_all_ways() {
    let made = |source: &str| payload(&format!("{source}; return msg"), 1.0);
    assert_eq!(
        made("flow.set('a', { b: [1, 2] }); msg.payload = flow.get('a')"),
        r#"{"b": [1, 2]}"#
    );
    assert_eq!(
        made("flow.set('a', { b: [1, 2] }); msg.payload = flow.get('a.b[1]')"),
        "2"
    );
    assert_eq!(
        made("global.set(['x', 'y'], [1, 2]); msg.payload = global.get(['x', 'y', 'z'])"),
        "[1, 2, undefined]"
    );
    assert_eq!(
        made("context.set('a', 1); context.set('b', 2); msg.payload = context.keys()"),
        r#"["a", "b"]"#
    );
    assert_eq!(
        made("context.flow.set('a', 7, 'default'); msg.payload = flow.get('a', 'default')"),
        "7"
    );
    assert_eq!(
        made("flow.set('a', 1, e => { flow.get('a', (e, v) => { msg.payload = [e, v] }) })"),
        "[undefined, 1]"
    );
    assert_eq!(
        made("flow.set('a', 1); flow.set('a', undefined); msg.payload = flow.keys()"),
        "[]"
    );
    assert_eq!(
        made("msg.payload = env.get('NO_SUCH_VARIABLE_HERE') === undefined"),
        "true"
    );
}

/// As observed on Node-RED 4.1.15: a value read from a store, or put there, is the stored object
/// itself.
#[test]
fn changes_to_a_stored_object_take_effect_without_set() {
    let made = |source: &str| payload(&format!("{source}; return msg"), 1.0);
    assert_eq!(
        made(
            "const o = { n: 0 }; flow.set('o', o); o.n++; msg.payload = [flow.get('o'), flow.get('o') === o]"
        ),
        r#"[{"n": 1}, true]"#
    );
    assert_eq!(
        made(
            "flow.set('a', { b: {} }); const a = flow.get('a'); flow.set('a.b.c', 1); msg.payload = [a, flow.get('a.b.c')]"
        ),
        r#"[{"b": {"c": 1}}, 1]"#
    );
    let code = Code {
        function: "if (!flow.get('o')) flow.set('o', { n: 0 }); flow.get('o').n++; msg.payload = flow.get('o').n; return msg".into(),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(&scripts(), code);
    for expected in 1..4 {
        let effects = sandbox.call(message(1.0));
        assert!(
            matches!(&effects[..], [Effect::Pass(m)] if m.get("payload").as_number() == Some(f64::from(expected))),
            "{effects:?}"
        );
    }
}

#[test]
fn numbers_dates_and_texts_default_to_en_us() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    for (source, expected) in [
        ("(1234567.891).toLocaleString()", r#""1,234,567.891""#),
        (
            "(1234.5).toLocaleString('en-US', { style: 'currency', currency: 'USD' })",
            r#""$1,234.50""#,
        ),
        (
            "(0.256).toLocaleString(undefined, { style: 'percent' })",
            r#""26%""#,
        ),
        ("(1234.5).toLocaleString('de-DE')", r#""1.234,5""#),
        (
            "(5).toLocaleString('en-US', { minimumFractionDigits: 2 })",
            r#""5.00""#,
        ),
        (
            "new Date(0).toLocaleString('en-US', { timeZone: 'UTC' })",
            r#""1/1/1970, 12:00:00 AM""#,
        ),
        (
            "new Date(0).toLocaleDateString('en-US', { timeZone: 'UTC', weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' })",
            r#""Thursday, January 1, 1970""#,
        ),
        (
            "new Date(0).toLocaleString('sv-SE', { timeZone: 'UTC' })",
            r#""1970-01-01 00:00:00""#,
        ),
        (
            "new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC' }).format(0)",
            r#""01/01/1970""#,
        ),
        (
            "['b', 'a', 'C', 'A', 'ä', '_', '10', '2'].sort((x, y) => x.localeCompare(y)).join(' ')",
            r#""_ 10 2 a A ä b C""#,
        ),
        (
            "'a10'.localeCompare('a2', undefined, { numeric: true })",
            "1",
        ),
        ("new Intl.PluralRules('en-US').select(1)", r#""one""#),
        (
            "new Intl.ListFormat('en').format(['a', 'b', 'c'])",
            r#""a, b, and c""#,
        ),
    ] {
        assert_eq!(made(source), expected, "{source}");
    }
}

#[test]
fn time_zones_have_names_and_dates_have_parts() {
    let made = |source: &str| payload(&format!("msg.payload = {source}; return msg"), 1.0);
    for (source, expected) in [
        (
            "[1e12, 11e11].map(at => new Date(at).toLocaleString('en-GB', { timeZone: 'Europe/London' })).join(' ')",
            r#""09/09/2001, 02:46:40 09/11/2004, 11:33:20""#,
        ),
        (
            "['America/New_York', 'europe/berlin', 'Asia/Kolkata'].map(timeZone => new Date(1e12).toLocaleTimeString('en-US', { timeZone, timeZoneName: 'short' })).join(' ')",
            r#""9:46:40 PM EDT 3:46:40 AM GMT+2 7:16:40 AM GMT+5:30""#,
        ),
        (
            "(() => { try { new Intl.DateTimeFormat('en-US', { timeZone: 'Mars/Base' }) } catch (error) { return String(error) } })()",
            r#""RangeError: Invalid time zone specified: Mars/Base""#,
        ),
        (
            "new Intl.DateTimeFormat('en-US', { timeZone: 'Europe/Berlin', weekday: 'short', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).formatToParts(1e12).map(part => `${part.type}=${part.value}`).join('|')",
            r#""weekday=Sun|literal=, |month=09|literal=/|day=09|literal=/|year=2001|literal=, |hour=03|literal=:|minute=46""#,
        ),
    ] {
        assert_eq!(made(source), expected, "{source}");
    }
}

#[test]
fn messages_wait_for_the_setup_code() {
    let code = |initialize: &str| Code {
        function: "msg.payload = ready; return msg".into(),
        initialize: initialize.into(),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(
        &scripts(),
        code("await new Promise(r => setTimeout(r, 5)); ready = 'yes'"),
    );
    let effects = sandbox.start();
    let [Effect::SetTimer(number, _)] = effects[..] else {
        panic!("{effects:?}")
    };
    assert!(sandbox.call(message(1.0)).is_empty());
    let effects = sandbox.timer(number);
    assert!(
        matches!(&effects[..], [Effect::Pass(m)] if m.get("payload").as_str() == Some("yes")),
        "{effects:?}"
    );
    let mut failing = sandbox_of(&scripts(), code("throw new Error('no')"));
    assert!(
        matches!(&failing.start()[..], [Effect::Error(f, None)] if f.to_string() == "Error: no")
    );
    assert!(failing.call(message(1.0)).is_empty());
}

#[test]
fn closing_runs_the_close_code_clears_timers_and_status() {
    let code = Code {
        function: "node.status({ text: 'x' }); setInterval(() => {}, 10); node.on('close', () => { flow.set('closed', 1) }); return null".into(),
        finalize: "node.warn(flow.get('closed')); node.send({ payload: 1 })".into(),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(&scripts(), code);
    sandbox.call(message(1.0));
    let effects = sandbox.close();
    assert!(
        matches!(
            &effects[..],
            [
                Effect::ClearTimer(_),
                Effect::Log(Level::Warn, Value::Number(_)),
                Effect::Error(_, None),
                Effect::Status(_)
            ]
        ),
        "{effects:?}"
    );
}

#[test]
fn a_late_result_that_cannot_be_sent_is_an_error() {
    let source =
        "await null; let a = {}; for (let i = 0; i < 1000; i++) a = { a }; return { payload: a }";
    assert!(
        error(source).contains("nested too deeply"),
        "{}",
        error(source)
    );
}

#[test]
fn a_node_in_the_shared_realm_takes_less_than_2_kilobytes() {
    let scripts = scripts();
    let code = Code {
        function: "msg.payload = 1; return msg".into(),
        ..Code::default()
    };
    let mut nodes: Vec<Sandbox> = (0..11)
        .map(|_| sandbox_of(&scripts, code.clone()))
        .collect();
    nodes[0].call(message(1.0));
    let before = scripts.memory();
    for node in &mut nodes[1..] {
        node.call(message(1.0));
    }
    let each = (scripts.memory() - before) / 10;
    assert!(each < 2_000, "{each} bytes");
}

#[test]
fn sixty_helpers_in_the_global_context_take_less_than_40_kilobytes() {
    let scripts = scripts();
    sandbox_of(&scripts, Code::default()).call(message(1.0));
    let why = "why it is so; ".repeat(30);
    let helper =
        |n| format!("global.set('h{n}', (value) => {{ /* {why} */ return value * {n} }});\n");
    let code = Code {
        function: (0..60).map(helper).collect::<String>().into(),
        ..Code::default()
    };
    let before = scripts.memory();
    let mut node = sandbox_of(&scripts, code);
    node.call(message(1.0));
    let taken = scripts.memory() - before;
    assert!(taken < 40_000, "{taken} bytes");
}

#[test]
fn code_that_may_ask_for_the_text_of_its_functions_gets_it() {
    let function = "function twice(a) {\n  return a * 2;\n}\n";
    for asks in ["twice.toString()", "String(twice)"] {
        let source = format!("{function}msg.payload = {asks};\nreturn msg;");
        let text = serde_json::to_string(function.trim_end()).unwrap();
        assert_eq!(payload(&source, 1.0), text);
    }
    let class = "class A {}\nmsg.payload = util.inspect(A);\nreturn msg;";
    assert_eq!(payload(class, 1.0), "\"[class A]\"");
    let source = format!("{function}msg.payload = `${{twice}}, ${{twice(2)}}`;\nreturn msg;");
    let text = payload(&source, 1.0);
    assert!(
        text.contains("[native code]") && text.ends_with(", 4\""),
        "{text}"
    );
}

#[test]
fn objects_of_the_library_are_formatted_with_a_text_function_of_theirs() {
    let source = "msg.payload = util.format('%s', new URL('http://a/b')); return msg";
    assert_eq!(payload(source, 1.0), "\"http://a/b\"");
}

#[test]
fn failures_in_code_whose_text_is_not_kept_name_their_function_and_line() {
    let source = "function fails() {\n  throw new Error('here');\n}\n\
                  try { fails() } catch (error) { msg.payload = error.stack }\nreturn msg;";
    let stack = payload(source, 1.0);
    assert!(stack.contains("at fails (Function node:3:"), "{stack}");
}

#[test]
fn messages_that_the_setup_sends_are_sent() {
    // Node-RED loses those to nodes that start later.
    let code = Code {
        initialize: "node.send({ payload: 'from setup' })".into(),
        outputs: 1,
        ..Code::default()
    };
    let effects = sandbox_of(&scripts(), code).start();
    let Some(Effect::Send(messages)) = effects.first() else {
        panic!("{effects:?}");
    };
    assert_eq!(messages[0].1.get("payload").as_str(), Some("from setup"));
}
