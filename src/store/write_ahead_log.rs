//! The header of the database's write-ahead log (`SQLite`'s file format, §4.1).
//!
//! `SQLite` takes a log whose header it cannot read for an empty one, and resets it without a word. What is only in the
//! log would be gone, although it was acknowledged; so such a log is kept and reported first.

use super::database::DATABASE;
use super::directory::{Directory, failed};
use super::{Error, steps};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the header.
const HEADER: usize = 32;
/// The magic number; its last bit says that checksums are of big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// Moves the log aside, as `flowgate.db-wal.broken-TIME` with the time of its last change, if its header is broken. A
/// log that is shorter than its header holds nothing.
pub(super) fn keep_if_broken(directory: &Directory) -> Result<(), Error> {
    let name = format!("{DATABASE}-wal");
    let log = directory.path(&name);
    let Some((header, changed)) = read(&log).map_err(|source| failed(&log, source))? else {
        return Ok(());
    };
    if is_good(&header) {
        return Ok(());
    }
    let base = format!("{name}.broken-{changed}");
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    let kept = names.find(|kept| !directory.path(kept).exists());
    let kept = kept.unwrap_or(base);
    steps::rename(&log, &directory.path(&kept)).map_err(|source| failed(&log, source))?;
    directory.sync()?;
    tracing::error!(
        kept,
        "{name} is damaged: its header cannot be read. What was stored last and was only there is missing now: sessions, \
         revisions of the history, failed sign-ins. The flows are in flows.json and not affected. The file is kept; a \
         backup of the data directory has what is missing, if it is newer than the loss"
    );
    Ok(())
}

/// The header and when the file was changed, in seconds since 1970; `None`: there is no header.
fn read(log: &Path) -> std::io::Result<Option<([u8; HEADER], u64)>> {
    let mut header = [0; HEADER];
    let content = match File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|mut file| file.read_exact(&mut header)),
    };
    match content {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        content => content?,
    }
    let changed = fs::metadata(log)?
        .modified()
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Some((header, changed.as_secs())))
}

/// Whether `SQLite` reads what follows the header.
fn is_good(header: &[u8; HEADER]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let &[
        magic,
        _version,
        page,
        _sequence,
        _salt,
        _other_salt,
        first,
        second,
    ] = words
    else {
        return false;
    };
    let magic = u32::from_be_bytes(magic);
    let page = u32::from_be_bytes(page);
    let word = if magic & 1 == 1 {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    };
    let summed = words.get(..6).unwrap_or_default().chunks_exact(2);
    let sum = summed.fold((0_u32, 0_u32), |(a, b), pair| {
        let (x, y) = (pair.first(), pair.last());
        let a = a.wrapping_add(x.map_or(0, |x| word(*x))).wrapping_add(b);
        (a, b.wrapping_add(y.map_or(0, |y| word(*y))).wrapping_add(a))
    });
    magic & !1 == MAGIC
        && page.is_power_of_two()
        && (512..=65_536).contains(&page)
        && sum == (u32::from_be_bytes(first), u32::from_be_bytes(second))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A log of `SQLite`'s own, as it is while the database is open.
    fn log_of_sqlite() -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(DATABASE);
        let database = rusqlite::Connection::open(&path).unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.execute("CREATE TABLE t (x)", []).unwrap();
        fs::read(place.path().join(format!("{DATABASE}-wal"))).unwrap()
    }

    fn header(log: &[u8]) -> [u8; HEADER] {
        *log.first_chunk().unwrap()
    }

    #[test]
    fn a_header_of_sqlite_is_good_and_no_other_bit_may_differ() {
        let good = header(&log_of_sqlite());
        assert!(is_good(&good));
        for bit in 0..HEADER * 8 {
            let mut broken = good;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_good(&broken), "bit {bit}");
        }
        assert!(!is_good(&[0; HEADER]));
    }

    #[test]
    fn only_a_broken_log_is_moved_and_none_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let log = directory.path("flowgate.db-wal");
        let names = || {
            let names = fs::read_dir(place.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.filter(|name| name.contains("-wal")).collect();
            names.sort();
            names
        };
        keep_if_broken(&directory).unwrap();
        assert_eq!(names(), [""; 0]);
        let mut good = log_of_sqlite();
        // Another salt: frames of an earlier round, which SQLite knows how to read.
        for content in [
            &good.clone()[..],
            &good[..HEADER],
            &good[..HEADER - 1],
            b"x",
            b"",
        ] {
            fs::write(&log, content).unwrap();
            keep_if_broken(&directory).unwrap();
            assert_eq!(names(), ["flowgate.db-wal"]);
        }
        good[0] = b'x';
        for count in 1..=3 {
            fs::write(&log, &good).unwrap();
            let time = UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
            let file = File::options().write(true).open(&log).unwrap();
            file.set_modified(time).unwrap();
            keep_if_broken(&directory).unwrap();
            assert_eq!(names().len(), count);
        }
        let kept = "flowgate.db-wal.broken-1700000000";
        assert_eq!(
            names(),
            [kept.to_owned(), format!("{kept}-2"), format!("{kept}-3")]
        );
        assert_eq!(fs::read(directory.path(kept)).unwrap(), good);
    }
}
