//! Benchmarks of a function node without the engine around it: the cost of a message, and of a
//! node.
//!
//! Times are CPU time as Linux counts it (`/proc/self/schedstat`), so that other work on the
//! machine does not show. `cargo bench --package engine --bench function_call` prints nanoseconds
//! per message, and bytes and microseconds per node.

use engine::node_info::{Container, NodeInfo};
use engine::script::{Code, Effect, NodeContext, Sandbox, Scripts};
use engine::settings::Settings;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;
use value::{Message, Value};

const NODES: usize = 2_000;
const MESSAGES: u32 = 200_000;
/// Functions that flows share.
const HELPERS: usize = 60;

fn main() -> Result<(), value::Failure> {
    let config = Settings {
        script_timeout: Duration::from_secs(10),
        ..Settings::default()
    };
    for (what, source) in [
        (
            "msg.k=(msg.k||0)+1; return msg;",
            "msg.k=(msg.k||0)+1;\nreturn msg;",
        ),
        ("return null;", "return null;"),
        ("node.send(msg);", "node.send(msg);"),
        ("await", "await null; return msg;"),
        ("all of msg", "const all = msg;\nreturn all;"),
        (
            "context.get and set",
            "let c=(context.get('c')||0)+1;\ncontext.set('c',c);\nreturn msg;",
        ),
    ] {
        let scripts = Scripts::new(&config)?;
        let mut sandbox = sandbox(&scripts, source);
        report(what, || pass(&mut sandbox));
    }
    let scripts = Scripts::new(&config)?;
    let mut first = sandbox(&scripts, "return msg;");
    black_box(first.call(message()));
    let (before, started) = (scripts.memory(), cpu_nanoseconds());
    let mut nodes: Vec<Sandbox> = (0..NODES)
        .map(|_| sandbox(&scripts, "msg.k=(msg.k||0)+1;\nreturn msg;"))
        .collect();
    for node in &mut nodes {
        black_box(node.call(message()));
    }
    let micros = (cpu_nanoseconds() - started) / 1e3 / NODES as f64;
    println!(
        "one node, made and called once: {micros:.1} µs, {} bytes",
        (scripts.memory() - before) / NODES
    );
    let before = scripts.memory();
    let mut helpers = sandbox(&scripts, &helpers());
    black_box(helpers.call(message()));
    println!(
        "{HELPERS} functions in the global context, and their node: {} bytes",
        scripts.memory() - before
    );
    let started = cpu_nanoseconds();
    drop(nodes);
    println!(
        "one node, dropped: {:.1} µs",
        (cpu_nanoseconds() - started) / 1e3 / NODES as f64
    );
    Ok(())
}

/// A function that puts functions of some lines into the global context, as `functionGlobalContext`
/// does.
fn helpers() -> String {
    let helper = |n: usize| {
        format!(
            "global.set('helper{n}', (value, unit) => {{
                const scaled = Math.round(value * {n} * 10) / 10;
                if (Number.isNaN(scaled)) throw new Error('no number: ' + value);
                return {{ text: `${{scaled}} ${{unit}}`, scaled, isHigh: scaled > {n} }};
            }});\n"
        )
    };
    (0..HELPERS).map(helper).collect()
}

fn report(what: &str, mut pass: impl FnMut()) {
    for _ in 0..MESSAGES / 10 {
        pass();
    }
    let started = cpu_nanoseconds();
    for _ in 0..MESSAGES {
        pass();
    }
    println!(
        "{what:40} {:8.0} ns",
        (cpu_nanoseconds() - started) / f64::from(MESSAGES)
    );
}

fn pass(sandbox: &mut Sandbox) {
    let effects: Vec<Effect> = sandbox.call(message());
    black_box(&effects);
}

/// Six properties, as an inject or http-in node makes them.
fn message() -> Message {
    let mut message = Message::with_payload("hello");
    message.set("_msgid", "0123456789abcdef");
    message.set("topic", "sensors/kitchen");
    message.set("k", 1.0);
    message.set("retain", false);
    message.set("qos", Value::Number(2.0));
    message
}

fn sandbox(scripts: &Rc<Scripts>, source: &str) -> Sandbox {
    let container = Container {
        z: "t1".into(),
        path: "t1".into(),
        ..Container::default()
    };
    let info = NodeInfo::of("n1", "function", container);
    let code = Code {
        function: source.into(),
        outputs: 1,
        ..Code::default()
    };
    let mut sandbox = Sandbox::new(
        Rc::clone(scripts),
        code,
        NodeContext {
            info: Rc::new(info),
            contexts: Rc::default(),
            now: 0.0,
        },
    );
    sandbox.start();
    sandbox
}

fn cpu_nanoseconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    statistics
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0.0)
}
