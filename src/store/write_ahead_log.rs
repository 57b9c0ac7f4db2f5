//! The database's write-ahead log: its header and its frames (`SQLite`'s file format, §4.1 and §4.2).
//!
//! `SQLite` treats a log with an unreadable header as empty and silently resets it; and it ends a log at the first
//! frame with a wrong checksum. Data only in the log would be lost, although it was acknowledged; so such a log is kept
//! and reported first. A wrong frame in the last two transactions counts as no damage: a power failure leaves it there,
//! in data that was not acknowledged.

use super::Error;
use super::database::DATABASE;
use super::directory::{Directory, failed};
use super::failpoint;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the header.
const HEADER: usize = 32;
/// Bytes of the header of a frame, which a page follows.
const FRAME_HEADER: usize = 24;
/// The magic number; its last bit means that checksums are of big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// Moves the log aside, as `flowgate.db-wal.broken-TIME` with the time of its last change, if it is broken. A
/// log that is shorter than its header holds nothing.
pub(super) fn keep_if_broken(directory: &Directory) -> Result<(), Error> {
    let name = format!("{DATABASE}-wal");
    let log = directory.path(&name);
    let Some((header, changed)) = read(&log).map_err(|source| failed(&log, source))? else {
        return Ok(());
    };
    let what = if !is_good(&header) {
        "its header"
    } else if has_lost_frames(&log, &header).map_err(|source| failed(&log, source))? {
        "a part of it"
    } else {
        return Ok(());
    };
    let base = format!("{name}.broken-{changed}");
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    let kept = names.find(|kept| !directory.path(kept).exists());
    let kept = kept.unwrap_or(base);
    failpoint::rename(&log, &directory.path(&kept)).map_err(|source| failed(&log, source))?;
    directory.sync()?;
    tracing::error!(
        kept,
        "{name} is damaged: {what} cannot be read. What was stored last and was only there is missing now: sessions, \
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
    let summed = words.get(..6).unwrap_or_default();
    let sum = checksum((0, 0), summed, magic);
    magic & !1 == MAGIC
        && page.is_power_of_two()
        && (512..=65_536).contains(&page)
        && sum == (u32::from_be_bytes(first), u32::from_be_bytes(second))
}

/// Goes on with a checksum over an even number of words.
fn checksum(sum: (u32, u32), words: &[[u8; 4]], magic: u32) -> (u32, u32) {
    let word = if magic & 1 == 1 {
        u32::from_be_bytes
    } else {
        u32::from_le_bytes
    };
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().fold(sum, |(a, b), [x, y]| {
        let a = a.wrapping_add(word(*x)).wrapping_add(b);
        (a, b.wrapping_add(word(*y)).wrapping_add(a))
    })
}

/// Whether `SQLite` would skip acknowledged frames: behind one with a wrong checksum, two transactions of the same log
/// end and another one follows without a break. Before it begins the first is on disk: of two in a row, one at least is
/// forced there (`Database::mark_written` is not). Behind a break there may be frames that an earlier power failure
/// left.
fn has_lost_frames(log: &Path, header: &[u8; HEADER]) -> io::Result<bool> {
    let (words, _) = header.as_chunks::<4>();
    let &[magic, _, page, _, salt, other_salt, first, second] = words else {
        return Ok(false);
    };
    let magic = u32::from_be_bytes(magic);
    let mut sum = (u32::from_be_bytes(first), u32::from_be_bytes(second));
    let page = usize::try_from(u32::from_be_bytes(page)).unwrap_or(0);
    let mut file = BufReader::with_capacity(1 << 16, File::open(log)?);
    let mut frame = vec![0; FRAME_HEADER + page];
    file.read_exact(frame.get_mut(..HEADER).unwrap_or_default())?;
    let mut ended = None;
    loop {
        match file.read_exact(&mut frame) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        let (words, _) = frame.as_chunks::<4>();
        let Some((&[number, size, one, other, first, second], page)) = words.split_first_chunk()
        else {
            return Ok(false);
        };
        let is_current = (one, other) == (salt, other_salt);
        let expected = checksum(checksum(sum, &[number, size], magic), page, magic);
        // Each frame goes on with the checksum of the one before.
        sum = (u32::from_be_bytes(first), u32::from_be_bytes(second));
        if !is_current || sum != expected {
            ended = Some(0);
        } else if ended.is_some_and(|transactions| transactions >= 2) {
            return Ok(true);
        }
        if is_current && u32::from_be_bytes(size) != 0 {
            ended = ended.map(|transactions| transactions + 1);
        }
    }
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
    fn only_a_broken_log_is_moved_and_no_earlier_one_overwritten() {
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
        // A good log stays in place, also one cut off in or after its header.
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

    /// A log of five transactions, of more than one page each, and the length of a frame.
    fn log_of_transactions() -> (Vec<u8>, usize) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(DATABASE);
        let database = rusqlite::Connection::open(&path).unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.execute("CREATE TABLE t (x)", []).unwrap();
        for _ in 0..4 {
            let insert = "INSERT INTO t VALUES (zeroblob(10000))";
            database.execute(insert, []).unwrap();
        }
        let log = fs::read(place.path().join(format!("{DATABASE}-wal"))).unwrap();
        let page: u32 = database
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .unwrap();
        (log, FRAME_HEADER + usize::try_from(page).unwrap())
    }

    fn loses(log: &[u8]) -> bool {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), log).unwrap();
        has_lost_frames(file.path(), &header(log)).unwrap()
    }

    #[test]
    fn a_damaged_frame_before_other_transactions_is_detected_but_no_torn_end() {
        let (good, frame) = log_of_transactions();
        assert!(!loses(&good));
        let frames = (good.len() - HEADER) / frame;
        let commits: Vec<usize> = (0..frames)
            .filter(|n| good[HEADER + n * frame + 4..][..4] != [0; 4])
            .collect();
        assert_eq!(commits.len(), 5);
        for damaged in 0..frames {
            for at in [0, 16, FRAME_HEADER, frame - 1] {
                let mut log = good.clone();
                log[HEADER + damaged * frame + at] ^= 1;
                // The frame after a damaged checksum does not fit to it either.
                let is_last = damaged + usize::from(at == 16) > commits[2];
                assert_eq!(loses(&log), !is_last, "frame {damaged}, byte {at}");
            }
            // As a crash leaves it.
            assert!(!loses(&good[..HEADER + damaged * frame + 100]));
        }
        // Frames of an earlier round behind the end.
        let mut reused = good.clone();
        for n in commits[2] + 1..frames {
            reused[HEADER + n * frame + 8] ^= 1;
        }
        assert!(!loses(&reused));
        // As two power failures leave it: each transaction is there, none continues the one before.
        let mut left = good.clone();
        for n in &commits {
            left[HEADER + n * frame + 16] ^= 1;
        }
        assert!(!loses(&left));
    }

    #[test]
    fn a_log_with_a_damaged_frame_is_moved() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path()).unwrap();
        let log = directory.path("flowgate.db-wal");
        let (mut content, _) = log_of_transactions();
        content[HEADER + FRAME_HEADER] ^= 1;
        fs::write(&log, &content).unwrap();
        keep_if_broken(&directory).unwrap();
        assert!(!log.exists());
    }
}
