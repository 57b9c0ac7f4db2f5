//! Functions for fuzzing, by module: each takes any bytes and panics if an invariant is broken.
//!
//! The targets in `fuzz/` call these with what libFuzzer thinks up (`tests/fuzz`), and the tests
//! here with the seeds of `fuzz/seeds` and with what proptest makes. No part of the program. The
//! crates have theirs in their own `fuzzing.rs`.

pub use crate::audit::fuzzing::suppression;
pub use crate::auth::fuzzing::jwt;
pub use crate::comms::fuzzing::frame;
pub use crate::config::fuzzing::config;
#[cfg(feature = "engine")]
pub use crate::editor::fuzzing::package;
pub use crate::http::fuzzing::{path, sign_in, upstream_request};
#[cfg(feature = "engine")]
pub use crate::palette::fuzzing::lock_file;
pub use crate::server::fuzzing::{heads, proxy_protocol};
pub use crate::store::fuzzing::credentials;
pub use crate::upstream::fuzzing::{tunnel, upstream_response};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::path::Path;

    const CHECKS: &[(&str, testing::inputs::Check)] = &[
        ("config", config),
        ("credentials", credentials),
        ("frame", frame),
        ("heads", heads),
        ("jwt", jwt),
        #[cfg(feature = "engine")]
        ("lock_file", lock_file),
        #[cfg(feature = "engine")]
        ("package", package),
        ("path", path),
        ("proxy_protocol", proxy_protocol),
        ("sign_in", sign_in),
        ("suppression", suppression),
        ("tunnel", tunnel),
        ("upstream_request", upstream_request),
        ("upstream_response", upstream_response),
    ];

    #[test]
    fn fuzz_checks_pass_on_seeds_and_random_input() {
        testing::inputs::check_all(CHECKS);
    }

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

    /// And each seed directory belongs to a target, which a crate's own tests run.
    #[test]
    fn every_target_has_a_file_and_seeds() {
        let targets = names("fuzz/targets");
        assert_eq!(names("fuzz/seeds"), targets);
        for (name, _) in CHECKS {
            assert!(targets.iter().any(|target| target == name), "{name}");
        }
    }
}
