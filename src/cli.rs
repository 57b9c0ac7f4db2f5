//! The command line: run, check, hash-password.
