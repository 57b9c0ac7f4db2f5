//! Formats the errors of the operating system as Node.js does:
//! `ENOENT: no such file or directory, open '/x'`.

use std::io;
use value::Failure;

/// The failure of a system call on a path; an empty path is not named.
pub(in crate::nodes) fn failure(error: &io::Error, call: &str, path: &str) -> Failure {
    let Some((code, words)) = described(error) else {
        return Failure::error(format!("{error}, {call} '{path}'"));
    };
    let place = if path.is_empty() {
        String::new()
    } else {
        format!(" '{path}'")
    };
    Failure {
        code: code.into(),
        ..Failure::error(format!("{code}: {words}, {call}{place}"))
    }
}

/// The name and the words of the errors that files meet (libuv's `UV_ERRNO_MAP`).
fn described(error: &io::Error) -> Option<(&'static str, &'static str)> {
    use io::ErrorKind as Kind;
    Some(match error.kind() {
        Kind::NotFound => ("ENOENT", "no such file or directory"),
        // Linux: 1 is EPERM; both are "permission denied" to Rust.
        Kind::PermissionDenied if error.raw_os_error() == Some(1) => {
            ("EPERM", "operation not permitted")
        }
        Kind::PermissionDenied => ("EACCES", "permission denied"),
        Kind::AlreadyExists => ("EEXIST", "file already exists"),
        Kind::NotADirectory => ("ENOTDIR", "not a directory"),
        Kind::IsADirectory => ("EISDIR", "illegal operation on a directory"),
        Kind::ReadOnlyFilesystem => ("EROFS", "read-only file system"),
        Kind::StorageFull => ("ENOSPC", "no space left on device"),
        Kind::QuotaExceeded => ("EDQUOT", "disk quota exceeded"),
        Kind::FileTooLarge => ("EFBIG", "file too large"),
        Kind::InvalidFilename => ("ENAMETOOLONG", "name too long"),
        Kind::ExecutableFileBusy => ("ETXTBSY", "text file is busy"),
        Kind::ResourceBusy => ("EBUSY", "resource busy or locked"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_codes_and_messages_of_nodejs() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let failed = failure(&missing, "open", "/x");
        assert_eq!(failed.code, "ENOENT");
        assert_eq!(
            failed.to_string(),
            "Error: ENOENT: no such file or directory, open '/x'"
        );
        let directory = io::Error::from(io::ErrorKind::IsADirectory);
        assert_eq!(
            failure(&directory, "read", "").message,
            "EISDIR: illegal operation on a directory, read"
        );
    }
}
