//! What must hold for every input, room by room: each function takes any bytes and panics if a promise is broken.
//!
//! The targets in `fuzz/` call these with what libFuzzer thinks up (`tests/fuzz`), and the tests here with the seeds of
//! `fuzz/seeds` and with what proptest makes. No part of the program.

pub use crate::audit::fuzzing::suppression;
pub use crate::comms::fuzzing::frame;
pub use crate::config::fuzzing::config;
#[cfg(feature = "engine")]
pub use crate::engine::fuzzing::{deep, expression, json, jsonata, mustache, regex};
#[cfg(feature = "engine")]
pub use crate::engine::nodes::fuzzing::{csv, html, xml, yaml};
pub use crate::flows::fuzzing::{deployment, single, submission};
pub use crate::http::fuzzing::{path, sign_in, upstream_request};
pub use crate::server::fuzzing::{heads, proxy_protocol};
pub use crate::store::fuzzing::credentials;
pub use crate::upstream::fuzzing::tunnel;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::path::Path;

    type Target = (&'static str, fn(&[u8]));

    /// Every target, by the name of its file in `fuzz/targets` and of its directory in `fuzz/seeds`.
    const TARGETS: &[Target] = &[
        ("config", config),
        ("credentials", credentials),
        ("deployment", deployment),
        ("frame", frame),
        ("heads", heads),
        ("path", path),
        ("proxy_protocol", proxy_protocol),
        ("sign_in", sign_in),
        ("single", single),
        ("submission", submission),
        ("suppression", suppression),
        ("tunnel", tunnel),
        ("upstream_request", upstream_request),
        #[cfg(feature = "engine")]
        ("csv", csv),
        #[cfg(feature = "engine")]
        ("deep", deep),
        #[cfg(feature = "engine")]
        ("expression", expression),
        #[cfg(feature = "engine")]
        ("html", html),
        #[cfg(feature = "engine")]
        ("json", json),
        #[cfg(feature = "engine")]
        ("jsonata", jsonata),
        #[cfg(feature = "engine")]
        ("mustache", mustache),
        #[cfg(feature = "engine")]
        ("regex", regex),
        #[cfg(feature = "engine")]
        ("xml", xml),
        #[cfg(feature = "engine")]
        ("yaml", yaml),
    ];

    #[cfg(feature = "engine")]
    fn names(directory: &str) -> Vec<String> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let names = std::fs::read_dir(directory).unwrap().map(|entry| {
            let path = entry.unwrap().path();
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[cfg(feature = "engine")]
    #[test]
    fn every_target_has_a_file_and_seeds() {
        let mut known: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        assert_eq!(names("fuzz/targets"), known);
        assert_eq!(names("fuzz/seeds"), known);
    }

    #[test]
    fn what_must_hold_for_every_input_holds_for_the_seeds() {
        for (name, check) in TARGETS {
            let seeds = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("fuzz/seeds")
                .join(name);
            let mut count = 0;
            for seed in std::fs::read_dir(seeds).unwrap() {
                check(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(count > 0, "{name} has no seeds");
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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_must_hold_for_every_input_holds_for_any(data in input()) {
            for (_, check) in TARGETS {
                check(&data);
            }
        }

        /// Two random flow sets with tabs, groups, config nodes, subflows, instances and links.
        #[test]
        fn a_plan_makes_the_new_flow_set_of_the_old_and_touches_nothing_else(data in vec(any::<u8>(), 0..400)) {
            deployment(&data);
        }
    }
}
