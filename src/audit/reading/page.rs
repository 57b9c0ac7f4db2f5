//! A page of the records that fit a query, newest first.

use super::backwards::Backwards;
use super::{LogFile, LogFiles, find};
use crate::audit::event::is_failure;
use crate::audit::record::seconds;
use serde::Deserialize;
use std::borrow::Cow;
use std::io;

/// Bytes that are searched for a page: then the page ends, also if it is not full. Our choice: some
/// 30,000 records, a fraction of a second.
const MAX_SEARCHED: usize = 8 << 20;
/// Bytes of the records of a page. Our choice: more than 200 records have.
const MAX_BYTES: usize = 1 << 20;

/// The records to find.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only records with a lower number.
    pub before: Option<u64>,
    /// Only records with a higher number.
    pub after: u64,
    /// The most records of a page.
    pub limit: usize,
    /// Only those of this user.
    pub user: Option<String>,
    /// Only this event, or all whose names begin with it and a dot.
    pub event: Option<String>,
    /// Only refusals and failures, or only the others.
    pub failed: Option<bool>,
    /// Only records of this time or later, seconds since 1970.
    pub since: Option<u64>,
    /// Only records before this time, seconds since 1970.
    pub until: Option<u64>,
    /// Only lines that have this text, whatever its case.
    pub text: Option<String>,
}

/// Records that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Their lines as they stand in the log, each a JSON object, newest first.
    pub lines: Vec<String>,
    /// Records before this number were not searched; `None`: all were.
    pub next: Option<u64>,
    /// The time of the oldest record that was searched; empty: there is none.
    pub reached: String,
}

/// The fields of a line that a query is about.
#[derive(Deserialize)]
struct Fields<'l> {
    seq: u64,
    #[serde(borrow, default)]
    time: Cow<'l, str>,
    #[serde(borrow, default)]
    event: Cow<'l, str>,
    #[serde(borrow, default)]
    user: Cow<'l, str>,
}

impl LogFiles {
    /// The newest records that fit. An error: a file cannot be read.
    pub fn page(&self, query: &Query) -> io::Result<Page> {
        let mut page = Search {
            query,
            text: query.text.as_ref().map(|text| text.to_lowercase()),
            found: Page::default(),
            searched: 0,
            bytes: 0,
        };
        for file in self.list()?.into_iter().rev() {
            if !page.search(file)? {
                return Ok(page.found);
            }
        }
        page.found.next = None;
        Ok(page.found)
    }
}

struct Search<'q> {
    query: &'q Query,
    text: Option<String>,
    found: Page,
    searched: usize,
    bytes: usize,
}

impl Search<'_> {
    /// Searches a file; false: the page ends.
    fn search(&mut self, file: LogFile) -> io::Result<bool> {
        let query = self.query;
        if query.before.is_some_and(|before| file.first >= before) {
            return Ok(true);
        }
        let Some((file, length)) = file.open()? else {
            // Rotation removes the oldest files: those before it are gone too.
            self.found.next = None;
            return Ok(false);
        };
        let end = match query.before {
            Some(before) => find(&file, length, before)?,
            None => length,
        };
        let mut lines = Backwards::new(file, end);
        while let Some(line) = lines.next()? {
            let Ok(fields) = serde_json::from_slice::<Fields<'_>>(&line) else {
                continue;
            };
            if fields.seq <= query.after {
                self.found.next = None;
                return Ok(false);
            }
            self.searched += line.len();
            self.found.next = Some(fields.seq);
            self.found.reached = fields.time.to_string();
            if self.fits(&fields, &line) {
                self.bytes += line.len();
                let text = String::from_utf8_lossy(&line).into_owned();
                self.found.lines.push(text);
            }
            if self.is_full() {
                // At the first record there is nothing more to search.
                self.found.next = self.found.next.filter(|next| *next > query.after + 1);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_full(&self) -> bool {
        self.found.lines.len() >= self.query.limit
            || self.searched >= MAX_SEARCHED
            || self.bytes >= MAX_BYTES
    }

    fn fits(&self, fields: &Fields<'_>, line: &[u8]) -> bool {
        let query = self.query;
        let is_event = |wanted: &String| {
            let rest = fields.event.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let has = |text: &String| {
            let line = String::from_utf8_lossy(line).to_lowercase();
            line.contains(text)
        };
        query.user.as_ref().is_none_or(|user| fields.user == *user)
            && query.event.as_ref().is_none_or(is_event)
            && query
                .failed
                .is_none_or(|failed| is_failure(&fields.event) == failed)
            && self.is_in_time(&fields.time)
            && self.text.as_ref().is_none_or(has)
    }

    fn is_in_time(&self, time: &str) -> bool {
        let (since, until) = (self.query.since, self.query.until);
        if since.is_none() && until.is_none() {
            return true;
        }
        seconds(time).is_some_and(|time| {
            since.is_none_or(|since| time >= since) && until.is_none_or(|until| time < until)
        })
    }
}
