//! Permissions: whether a scope covers what an endpoint needs (facts admin API §1.4).

use smol_str::SmolStr;

/// Whether one of the scope's entries covers `need`: `*`, the same name, `read`/`*.read`, `write`/`*.write`.
pub fn covers(_scope: &[SmolStr], _need: &str) -> bool {
    todo!()
}
