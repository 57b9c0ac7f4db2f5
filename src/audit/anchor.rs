//! The end of the log as it is kept next to its files, in the database: without it, a log that was
//! cut or deleted together with `audit.head` would begin again as if there had been none.

use super::files;
use super::record::{ChainHash, Read};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// A durable line of the log, and the log that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    pub(super) line: ChainHash,
    /// The identity of the log.
    pub(super) log: String,
}

impl Anchor {
    /// Parses the text that the database has; `None`: it is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let (line, log) = text.rsplit_once(' ')?;
        Some(Self {
            line: files::parse_head(&format!("{line}\n"))?,
            log: files::parse_id(log)?,
        })
    }

    /// The text for the database.
    pub fn text(&self) -> String {
        format!("{} {}", files::head_text(&self.line).trim_end(), self.log)
    }

    /// The fault of a log that ends after this line, and has another one in its place.
    pub(super) fn fault(&self, directory: &Path) -> io::Result<Option<Value>> {
        let found = line(directory, self.line.seq)?;
        let is_other = found.is_some_and(|found| found != self.line);
        let fault =
            || json!({ "reason": "a line before the end was changed", "line": self.line.seq });
        Ok(is_other.then(fault))
    }
}

/// The last line known to be durable, by `audit.head` and by the anchor; adds what is wrong with
/// the former.
pub(super) fn known_end(
    directory: &Path,
    anchor: Option<&Anchor>,
    faults: &mut Vec<Value>,
) -> io::Result<Option<ChainHash>> {
    let head = files::head(directory)?;
    let Some(anchor) = anchor else {
        return Ok(head);
    };
    if head.is_none() {
        let line = anchor.line.seq;
        faults.push(json!({ "reason": "audit.head is missing or damaged", "line": line }));
    }
    Ok(match head {
        Some(head) if head.seq > anchor.line.seq => Some(head),
        _ => Some(anchor.line),
    })
}

/// The identity of the log, which a log that begins now gets.
pub(super) fn identity(directory: &Path, anchor: Option<&Anchor>) -> io::Result<String> {
    let kept = files::id(directory)?;
    let known = anchor.map(|anchor| anchor.log.clone());
    let id = known.or_else(|| kept.clone()).unwrap_or_else(files::new_id);
    if kept.as_ref() != Some(&id) {
        files::write_id(directory, &id)?;
    }
    Ok(id)
}

/// Finds a line of the log; `None`: it is not there.
fn line(directory: &Path, seq: u64) -> io::Result<Option<ChainHash>> {
    for path in files::all(directory)?.iter().rev() {
        if files::beginning(path)?.is_none_or(|beginning| beginning.seq > seq) {
            continue;
        }
        let mut file = BufReader::new(File::open(path)?);
        let mut bytes = Vec::new();
        while file.read_until(b'\n', &mut bytes)? > 0 {
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            if Read::parse(text).is_some_and(|read| read.seq == seq) {
                return Ok(Some(ChainHash::after(seq, text)));
            }
            bytes.clear();
        }
        return Ok(None);
    }
    Ok(None)
}
