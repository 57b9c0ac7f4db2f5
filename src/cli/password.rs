//! A new password from the operator: typed twice without echo, or one line of standard input.

use crypto::{Secret, constant_time_eq};
use std::io::{self, BufRead, IsTerminal};

/// Longer lines are a mistake, such as a whole file.
const MAX_LENGTH: u64 = 4096;

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Nothing was given.
    #[error("the password is empty")]
    Empty,
    /// The second one is another.
    #[error("the two passwords differ")]
    Differ,
    /// More than [`MAX_LENGTH`] bytes.
    #[error("the password is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// Terminal or standard input cannot be read.
    #[error("cannot read the password: {0}")]
    Io(#[from] io::Error),
}

/// Asks for it on a terminal, reads one line otherwise.
pub(super) fn read() -> Result<Secret, Error> {
    let input = io::stdin();
    if !input.is_terminal() {
        return one_line(input.lock());
    }
    let password = Secret::new(rpassword::prompt_password("Password: ")?);
    if password.reveal().is_empty() {
        return Err(Error::Empty);
    }
    let again = Secret::new(rpassword::prompt_password("Once more: ")?);
    if constant_time_eq(password.reveal().as_bytes(), again.reveal().as_bytes()) {
        Ok(password)
    } else {
        Err(Error::Differ)
    }
}

/// The first line, without its end.
fn one_line(input: impl BufRead) -> Result<Secret, Error> {
    let mut line = String::new();
    let length = input.take(MAX_LENGTH + 1).read_line(&mut line)?;
    let line = Secret::new(line);
    let text = line.reveal().trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(Error::Empty);
    }
    if length as u64 > MAX_LENGTH {
        return Err(Error::TooLong);
    }
    Ok(Secret::new(text.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_counts_without_its_line_end() {
        for input in ["a b ", "a b \n", "a b \r\n", "a b \nsecond\n"] {
            assert_eq!(one_line(input.as_bytes()).unwrap().reveal(), "a b ");
        }
    }

    #[test]
    fn empty_and_overlong_passwords_are_refused() {
        assert!(matches!(one_line("".as_bytes()), Err(Error::Empty)));
        assert!(matches!(one_line("\nx".as_bytes()), Err(Error::Empty)));
        assert!(matches!(
            one_line("x".repeat(5000).as_bytes()),
            Err(Error::TooLong)
        ));
    }
}
