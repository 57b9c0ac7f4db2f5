//! Runs programs that must succeed.

use std::process::Command;

/// What a command wrote; it must succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{errors}");
    out
}
