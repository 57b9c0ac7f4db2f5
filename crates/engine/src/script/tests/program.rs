//! Tests that nodes of the same code share what is compiled of it, and nothing else.

use super::*;

/// A source with sixty functions.
fn with_helpers(last: &str) -> String {
    let helper =
        |n| format!("function h{n}(value) {{ return {{ text: value + {n}, is: value > {n} }} }}\n");
    (0..60).map(helper).collect::<String>() + last
}

fn node_of(scripts: &Rc<Scripts>, source: &str) -> Sandbox {
    let code = Code {
        function: source.into(),
        ..Code::default()
    };
    sandbox_of(scripts, code)
}

fn answer(node: &mut Sandbox) -> String {
    match node.call(message(1.0)).first() {
        Some(Effect::Pass(message)) => format!("{:?}", message.get("payload")),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_second_node_of_the_same_code_takes_less_than_2_kilobytes() {
    let scripts = scripts();
    for last in ["return msg", "flow.set('a', 1); return msg"] {
        let source = with_helpers(last);
        let mut first = node_of(&scripts, &source);
        first.call(message(1.0));
        let before = scripts.memory();
        let mut second = node_of(&scripts, &source);
        second.call(message(1.0));
        let taken = scripts.memory() - before;
        assert!(taken < 2_000, "{last}: {taken} bytes");
    }
}

#[test]
fn code_is_forgotten_with_its_last_node() {
    let scripts = scripts();
    node_of(&scripts, "return msg").call(message(1.0));
    let before = scripts.memory();
    for n in 0..20 {
        let source = with_helpers(&format!("msg.payload = {n}; return msg"));
        let mut nodes = [node_of(&scripts, &source), node_of(&scripts, &source)];
        assert_eq!(
            nodes.each_mut().map(answer),
            [(); 2].map(|()| n.to_string())
        );
    }
    let kept = scripts.memory() - before;
    assert!(kept < 10_000, "{kept} bytes");
}

#[test]
fn nodes_of_the_same_code_have_variables_and_contexts_of_their_own() {
    let scripts = scripts();
    let source = "let n = 0; n++; const here = (context.get('n') || 0) + 1; context.set('n', here);\n\
                  msg.payload = `${n} ${here}`; return msg";
    let mut nodes = [node_of(&scripts, source), node_of(&scripts, source)];
    assert_eq!(answer(&mut nodes[0]), "\"1 1\"");
    assert_eq!(answer(&mut nodes[0]), "\"1 2\"");
    assert_eq!(answer(&mut nodes[1]), "\"1 1\"");
    let [first, mut second] = nodes;
    drop(first);
    assert_eq!(answer(&mut second), "\"1 2\"");
}
