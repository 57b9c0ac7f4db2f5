//! The state of the live view: its page, the order of its rows, and what the gateway has answered.

use super::plain::{flow, shortened};
use super::requests::{Counters, Rate};
use crate::auth::{NEVER, SessionInfo};
use engine::profile::Profile;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;
use std::time::Duration;

/// Rows that the keys for pages move by. Our choice.
const SCREEN: usize = 10;

/// A page of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Requests,
    Nodes,
    Sessions,
}

impl Page {
    pub(super) const ALL: [Self; 3] = [Self::Requests, Self::Nodes, Self::Sessions];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Nodes => "nodes",
            Self::Sessions => "sessions",
        }
    }
}

/// What the gateway has answered in an interval.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) requests: Vec<Rate>,
    /// Numbers of the moment.
    pub(super) gauges: Counters,
    /// A profile and the bytes of memory, or why there is none; `None`: it was not asked for.
    pub(super) nodes: Option<Result<(Profile, u64), String>>,
    /// The sessions, or why there are none.
    pub(super) sessions: Option<Result<Vec<SessionInfo>, String>>,
    /// Seconds since 1970.
    pub(super) now: u64,
}

/// A cell of a table: what is shown, and by what it is ordered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Number(f64, String),
}

impl Cell {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
        }
    }

    /// Texts ascend, numbers descend.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one, _), Self::Number(other, _)) => other.total_cmp(one),
            _ => self.text().cmp(other.text()),
        }
    }
}

/// A page as a table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) summary: String,
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Why there is none.
    pub(super) missing: Option<String>,
}

/// The whole state.
#[derive(Debug)]
pub(super) struct App {
    pub(super) page: Page,
    /// The column by which each page is ordered.
    sort: [usize; Page::ALL.len()],
    /// The first row that is shown.
    pub(super) first: usize,
    pub(super) measured: Measured,
    /// The time of a measurement.
    interval: Duration,
}

impl App {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            page: Page::Requests,
            sort: [2, 0, 0],
            first: 0,
            measured: Measured::default(),
            interval,
        }
    }

    /// The column by which the page is ordered.
    pub(super) fn sort(&self) -> usize {
        self.sort[self.page as usize]
    }

    /// Takes over a measurement. What was not asked for stays as it was.
    pub(super) fn update(&mut self, measured: Measured) {
        let nodes = measured.nodes.is_none();
        let nodes = nodes.then(|| self.measured.nodes.take()).flatten();
        self.measured = measured;
        if nodes.is_some() {
            self.measured.nodes = nodes;
        }
    }

    /// Acts on a key; whether the view goes on.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('c') if control => return false,
            KeyCode::Char(digit @ '1'..='3') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.page as usize + 1),
            KeyCode::BackTab | KeyCode::Left => {
                self.turn_to(self.page as usize + Page::ALL.len() - 1);
            }
            KeyCode::Char('s') => self.order_by(1),
            KeyCode::Char('S') => self.order_by(self.table().head.len().saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageDown => self.scroll(SCREEN),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(SCREEN),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        true
    }

    fn turn_to(&mut self, page: usize) {
        self.page = Page::ALL[page % Page::ALL.len()];
        self.first = 0;
    }

    fn order_by(&mut self, columns: usize) {
        let count = self.table().head.len().max(1);
        let sort = &mut self.sort[self.page as usize];
        *sort = (*sort + columns) % count;
    }

    fn scroll(&mut self, rows: usize) {
        let last = self.table().rows.len().saturating_sub(1);
        self.first = (self.first + rows).min(last);
    }

    /// The page as a table, in its order.
    pub(super) fn table(&self) -> Table {
        let mut table = match self.page {
            Page::Requests => self.requests(),
            Page::Nodes => self.nodes(),
            Page::Sessions => self.sessions(),
        };
        let by = self.sort();
        table
            .rows
            .sort_by(|one, other| match (one.get(by), other.get(by)) {
                (Some(one), Some(other)) => one.order(other),
                _ => Ordering::Equal,
            });
        table
    }

    fn requests(&self) -> Table {
        let measured = &self.measured;
        let rates = |of: fn(&Rate) -> f64| measured.requests.iter().map(of);
        let rate = |of| rates(of).fold(0.0, |sum, rate| sum + rate);
        let gauge = |name| measured.gauges.sum(name);
        let summary = format!(
            "{:.1} requests/s, {:.1} failed/s, {:.0} under way, {:.0} connections, {:.0} sessions",
            rate(|rate| rate.requests),
            rate(|rate| rate.failed),
            gauge("flowgate_requests_in_flight"),
            gauge("flowgate_connections_open"),
            gauge("flowgate_sessions_active"),
        );
        let per_second = |rate: f64| Cell::Number(rate, format!("{rate:.1}"));
        let row = |rate: &Rate| {
            let mean = rate.mean.map(|mean| format!("{:.1}", mean * 1000.0));
            vec![
                Cell::Text(rate.route.clone()),
                Cell::Text(rate.method.clone()),
                per_second(rate.requests),
                per_second(rate.refused),
                per_second(rate.failed),
                Cell::Number(
                    rate.mean.unwrap_or(-1.0),
                    mean.unwrap_or_else(|| "-".to_owned()),
                ),
                Cell::Number(rate.total, format!("{:.0}", rate.total)),
            ]
        };
        Table {
            summary,
            head: vec![
                "route",
                "method",
                "requests/s",
                "4xx/s",
                "5xx/s",
                "mean ms",
                "total",
            ],
            rows: measured.requests.iter().map(row).collect(),
            missing: None,
        }
    }

    fn nodes(&self) -> Table {
        let head = vec!["time", "messages/s", "type", "name", "flow"];
        let (profile, memory) = match &self.measured.nodes {
            Some(Ok((profile, memory))) => (profile, memory),
            Some(Err(reason)) => return Table::missing(head, reason.clone()),
            None => {
                let seconds = self.interval.as_secs();
                return Table::missing(head, format!("measuring for {seconds} s"));
            }
        };
        let seconds = profile.seconds.max(f64::MIN_POSITIVE);
        let percent = |time: f64| format!("{:.1} %", 100.0 * time / seconds);
        let rows = profile.nodes.iter().map(|node| {
            let messages = node.messages as f64 / seconds;
            let name = if node.name.is_empty() {
                &node.id
            } else {
                &node.name
            };
            vec![
                Cell::Number(node.seconds, percent(node.seconds)),
                Cell::Number(messages, format!("{messages:.0}")),
                Cell::Text(shortened(&node.kind)),
                Cell::Text(shortened(name)),
                Cell::Text(shortened(&flow(node))),
            ]
        });
        Table {
            summary: format!(
                "engine {} busy, {:.0} messages/s, {} waiting, {} MiB",
                percent(profile.busy_seconds),
                profile.messages() as f64 / seconds,
                profile.waiting_messages,
                memory >> 20,
            ),
            head,
            rows: rows.collect(),
            missing: None,
        }
    }

    fn sessions(&self) -> Table {
        let head = vec!["user", "client", "program", "age", "used", "ends in"];
        let sessions = match &self.measured.sessions {
            Some(Ok(sessions)) => sessions,
            Some(Err(reason)) => return Table::missing(head, reason.clone()),
            None => return Table::missing(head, String::new()),
        };
        let now = self.measured.now;
        let since = |at: u64| Cell::Number(at as f64, ago(now.saturating_sub(at)));
        let row = |session: &SessionInfo| {
            let ends = session.expires.saturating_sub(now);
            vec![
                Cell::Text(shortened(&session.user)),
                Cell::Text(shortened(&session.client)),
                Cell::Text(shortened(&session.agent)),
                since(session.created),
                session
                    .last_used
                    .map_or_else(|| Cell::Number(0.0, "-".to_owned()), since),
                if session.expires == NEVER {
                    Cell::Number(-(NEVER as f64), "never".to_owned())
                } else {
                    // The one that ends first stands first.
                    Cell::Number(-(ends as f64), ago(ends))
                },
            ]
        };
        Table {
            summary: format!("{} sessions and tokens", sessions.len()),
            head,
            rows: sessions.iter().map(row).collect(),
            missing: None,
        }
    }
}

impl Table {
    fn missing(head: Vec<&'static str>, reason: String) -> Self {
        Self {
            head,
            missing: Some(reason),
            ..Self::default()
        }
    }
}

/// A time in its largest unit.
fn ago(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let fits = units.iter().find(|(length, _)| seconds >= *length);
    fits.map_or_else(
        || format!("{seconds}s"),
        |(length, unit)| format!("{}{unit}", seconds / length),
    )
}
