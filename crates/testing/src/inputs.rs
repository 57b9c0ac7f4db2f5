//! Runs checks of what must hold for every input, over the seeds of the fuzz targets and over
//! random input.
//!
//! Each crate has its checks in `fuzzing.rs`; the targets in `fuzz/` call the same ones with what
//! libFuzzer thinks up.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;

/// A check: it takes any bytes, and panics if a promise is broken.
pub type Check = fn(&[u8]);

/// Runs checks on their seeds in `fuzz/seeds`, and on random bytes and texts.
pub fn check_all(checks: &[(&str, Check)]) {
    for (name, check) in checks {
        check_seeds(name, *check);
        check_random(*check);
    }
}

fn check_seeds(name: &str, check: Check) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut count = 0;
    for seed in std::fs::read_dir(root.join(name)).unwrap() {
        check(&std::fs::read(seed.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "{name} has no seeds");
}

fn check_random(check: Check) {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new(config);
    let checked = runner.run(&input(), |data| {
        check(&data);
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

/// Any bytes at all, and texts with the characters that mean something to parsers.
fn input() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..512),
        "[\\[\\]{}\"':,.0-9a-z\\\\/%&=;#$<>!?*+~ \r\n\t\u{e9}-]{0,256}"
            .prop_map(String::into_bytes),
    ]
}
