//! Whether every line of the log is vouched for: by a checkpoint, by a copy that was received
//! elsewhere, or by the operator.

use super::anchor::Anchor;
use super::checkpoint::{PublicKey, RECORDS, Seal};
use super::verify::{Line, LineRef, Report, Signed, VerifyError, lines, part, whole};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What vouches for lines.
#[derive(Debug, Default)]
pub struct Trust {
    /// The keys that have signed the log.
    pub keys: Vec<PublicKey>,
    /// Numbers of lines that are accepted unsigned.
    pub accepted: Vec<RangeInclusive<u64>>,
    /// Files with lines that were received elsewhere; each must be in the log as it is there.
    pub seen: Vec<PathBuf>,
    /// The line that is kept next to the log.
    pub anchor: Option<Anchor>,
}

/// Verifies the whole log of a data directory, and whether what is trusted vouches for every line;
/// lines after the last checkpoint may wait for the next.
pub fn verify_signed(directory: &Path, trust: &Trust) -> Result<Report, VerifyError> {
    let (lines, mut report) = whole(directory, trust.anchor.as_ref())?;
    vouched(&lines, &mut report, trust)?;
    Ok(report)
}

/// Verifies some files of a log, oldest first, and whether what is trusted vouches for every line.
pub fn verify_files_signed(paths: &[PathBuf], trust: &Trust) -> Result<Report, VerifyError> {
    let (lines, mut report) = part(paths)?;
    vouched(&lines, &mut report, trust)?;
    Ok(report)
}

/// Whether every line is vouched for: by a checkpoint, by a copy that was received elsewhere, or by
/// the operator. Lines after the last checkpoint may wait for the next one.
fn vouched(lines: &[Line], report: &mut Report, trust: &Trust) -> Result<(), VerifyError> {
    let seen = seen(lines, &trust.seen)?;
    let accepted = |seq: u64| trust.accepted.iter().any(|range| range.contains(&seq));
    let known = |seq: u64| accepted(seq) || seen.contains(&seq);
    let mut signed = Signed::default();
    // The first line that no checkpoint has covered yet.
    let mut open = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(seal) = &line.seal else { continue };
        check(seal, &line.position, &trust.keys)?;
        let uncovered = lines[open..at]
            .iter()
            .filter(|line| line.link.seq < seal.from);
        unsigned(uncovered.filter(|line| !known(line.link.seq)))?;
        open = at + 1;
        if !seal.log.is_empty() && !signed.log.is_empty() && seal.log != signed.log {
            return Err(VerifyError::OtherLog(line.position.clone()));
        }
        signed.log.clone_from(&seal.log);
        signed.checkpoints += 1;
        signed.last = line.link.seq;
        (signed.time, signed.gateway) = (seal.time.clone(), seal.gateway.clone());
    }
    let rest = lines[open..].iter().filter(|line| !known(line.link.seq));
    let rest: Vec<_> = rest.collect();
    if signed.checkpoints == 0 || rest.len() as u64 > RECORDS {
        unsigned(rest.iter().copied())?;
    }
    signed.waiting = rest.len() as u64;
    report.signed = Some(signed);
    Ok(())
}

fn check(seal: &Seal, position: &LineRef, keys: &[PublicKey]) -> Result<(), VerifyError> {
    let Some(key) = keys.iter().find(|key| key.id() == seal.key) else {
        return Err(VerifyError::UnknownKey {
            position: position.clone(),
            key: seal.key.chars().take(64).collect(),
        });
    };
    if key.verifies(seal) {
        Ok(())
    } else {
        Err(VerifyError::Signature(position.clone()))
    }
}

/// An error if there are any: the first of them, to the last that follows it without a gap.
fn unsigned<'l>(mut lines: impl Iterator<Item = &'l Line>) -> Result<(), VerifyError> {
    let Some(first) = lines.next() else {
        return Ok(());
    };
    let from = first.link.seq;
    let mut to = from;
    for line in lines {
        if line.link.seq != to + 1 {
            break;
        }
        to = line.link.seq;
    }
    Err(VerifyError::Unsigned {
        position: first.position.clone(),
        from,
        to,
    })
}

/// The numbers of the lines that were received elsewhere; each must be in the log as it was
/// received, or before its beginning.
fn seen(log: &[Line], files: &[PathBuf]) -> Result<BTreeSet<u64>, VerifyError> {
    let mut numbers = BTreeSet::new();
    for seen in lines(files)? {
        let seq = seen.link.seq;
        match log.binary_search_by_key(&seq, |line| line.link.seq) {
            Ok(at) if log[at].link == seen.link => drop(numbers.insert(seq)),
            Ok(at) => {
                return Err(VerifyError::Differs {
                    position: log[at].position.clone(),
                    seen: seen.position,
                });
            }
            Err(at) if at == log.len() => {
                return Err(VerifyError::Cut {
                    seen: seen.position,
                    seq,
                });
            }
            // Rotation has removed it.
            Err(_) => {}
        }
    }
    Ok(numbers)
}
