//! Standard output and standard error, each of which may be a pipe that was closed or a file on a
//! full disk: the macros of the standard library panic then.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Prints a line to standard output; ends the program if that fails, see [`print()`].
pub(crate) fn print_line(line: impl Display) {
    print(format_args!("{line}\n"));
}

/// Prints text to standard output. If that fails, the program ends as a failed one: without a word
/// if a reader has closed the pipe, which wants no more.
pub(crate) fn print(text: impl Display) {
    let mut stdout = io::stdout().lock();
    let printed = write!(stdout, "{text}").and_then(|()| stdout.flush());
    if let Err(error) = printed {
        if error.kind() != ErrorKind::BrokenPipe {
            report(format_args!("flowgate: standard output: {error}"));
        }
        process::exit(1);
    }
}

/// Writes a line to standard error. A line that cannot be written is lost: no other place is left
/// for it.
pub(crate) fn report(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
