//! Modules that functions ask for: those that are built in, and those of `node_modules`.

use super::*;
use crate::engine::script::Import;

/// What a function with modules does at start and on a message.
fn with(data: &Path, modules: &[&str], source: &str) -> (Vec<Effect>, Vec<Effect>) {
    let imports = modules.iter().map(|module| Import {
        var: module
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
            .into(),
        module: (*module).into(),
    });
    let code = Code {
        function: format!("msg.payload = {source}; return msg").into(),
        imports: imports.collect(),
        limit: Some(Duration::from_secs(
            std::env::var("LIMIT").map_or(5, |s| s.parse().unwrap()),
        )),
        ..Code::default()
    };
    let mut sandbox = sandbox_of(&scripts_in(data), code);
    let started = sandbox.start();
    (started, sandbox.call(message(1.0)))
}

#[test]
fn scratch() {
    let dir = std::env::var("SCRATCH").unwrap();
    for line in std::env::var("CASES").unwrap().lines() {
        let (m, s) = line.split_once("|").unwrap();
        let t = std::time::Instant::now();
        let (a, b) = with(
            Path::new(&dir),
            &m.split_whitespace().collect::<Vec<_>>(),
            s,
        );
        eprintln!("{m}: {:?} {:?}", t.elapsed(), a);
        match b.first() {
            Some(Effect::Pass(m)) => eprintln!("   {:?}", m.get("payload")),
            o => eprintln!("   {o:?}"),
        }
    }
}
