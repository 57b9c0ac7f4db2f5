//! Draws the live view: the pages, a summary, the table, and the keys.

use super::app::{App, Cell, Page, Table};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row};

const KEYS: &str = "q end  1 2 3 page  s order  \u{2191} \u{2193} scroll";

/// Draws the state onto a terminal of any size.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let lines = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [pages, summary, table, keys] = Layout::vertical(lines).areas(frame.area());
    let shown = app.table();
    frame.render_widget(Paragraph::new(title(app.page)), pages);
    frame.render_widget(Paragraph::new(shown.summary.as_str()), summary);
    match &shown.missing {
        Some(reason) => frame.render_widget(Paragraph::new(reason.as_str()), table),
        None => draw_table(frame, app, &shown, table),
    }
    frame.render_widget(Paragraph::new(KEYS).dim(), keys);
}

fn title(page: Page) -> Line<'static> {
    let mut spans = vec![Span::raw("flowgate ")];
    for (number, other) in Page::ALL.into_iter().enumerate() {
        let name = format!(" {} {} ", number + 1, other.name());
        let is_open = other == page;
        spans.push(if is_open {
            name.reversed()
        } else {
            name.into()
        });
    }
    Line::from(spans)
}

fn draw_table(frame: &mut Frame<'_>, app: &App, table: &Table, area: Rect) {
    let ordered = Style::new().add_modifier(Modifier::UNDERLINED);
    let head = table.head.iter().enumerate().map(|(column, name)| {
        let is_ordered = column == app.sort();
        Span::styled(*name, if is_ordered { ordered } else { Style::new() })
    });
    let rows = table.rows.iter().skip(app.first);
    let rows = rows.take(usize::from(area.height));
    let rows = rows.map(|row| Row::new(row.iter().map(Cell::text)));
    let widths = widths(table);
    let drawn = ratatui::widgets::Table::new(rows, widths)
        .header(Row::new(head).bold())
        .column_spacing(2);
    frame.render_widget(drawn, area);
}

/// Each column is as wide as its widest cell.
fn widths(table: &Table) -> Vec<Constraint> {
    let columns = table.head.iter().enumerate();
    let width = |(column, name): (usize, &&str)| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| Span::raw(cell.text()).width()).max();
        let width = widest.unwrap_or(0).max(name.len());
        Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX))
    };
    columns.map(width).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::app::Measured;
    use super::super::requests::Rate;
    use super::*;
    use crate::auth::SessionInfo;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::time::Duration;

    fn rate(route: &str, requests: f64, total: f64) -> Rate {
        Rate {
            route: route.to_owned(),
            method: "GET".to_owned(),
            requests,
            refused: 0.0,
            failed: 0.0,
            mean: Some(0.0123),
            total,
        }
    }

    fn session(user: &str) -> SessionInfo {
        SessionInfo {
            id: "1".to_owned(),
            user: user.to_owned(),
            client: "node-red-editor".to_owned(),
            agent: "curl \u{1b}[2J".to_owned(),
            creator: None,
            networks: Vec::new(),
            scope: Vec::new(),
            created: 1000,
            expires: 8200,
            last_used: None,
        }
    }

    fn app() -> App {
        let mut app = App::new(Duration::from_secs(2));
        app.update(Measured {
            requests: vec![rate("auth", 1.0, 900.0), rate("flows", 5.0, 20.0)],
            sessions: Some(Ok(vec![session("ben"), session("ann")])),
            now: 1090,
            ..Measured::default()
        });
        app
    }

    fn press(app: &mut App, key: KeyCode) -> bool {
        app.press(KeyEvent::new(key, KeyModifiers::NONE))
    }

    fn screen(app: &App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, app)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer
            .content()
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect();
        let lines = cells.chunks(usize::from(width)).map(<[&str]>::concat);
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn the_busiest_routes_stand_first_and_keys_order_them_otherwise() {
        let mut app = app();
        let shown = screen(&app, 80, 8);
        assert!(shown[0].contains("1 requests") && shown[0].contains("3 sessions"));
        assert!(
            shown[1].starts_with("6.0 requests/s, 0.0 failed/s"),
            "{shown:#?}"
        );
        assert!(shown[3].starts_with("flows  GET     5.0"), "{shown:#?}");
        assert!(shown[4].contains("12.3"), "{shown:#?}");
        for _ in 0..4 {
            assert!(press(&mut app, KeyCode::Char('s')));
        }
        assert!(screen(&app, 80, 8)[3].starts_with("auth"), "by total");
        assert!(press(&mut app, KeyCode::Char('S')));
        assert!(press(&mut app, KeyCode::Down));
        assert_eq!(screen(&app, 80, 8)[4], "", "one row is scrolled away");
    }

    #[test]
    fn sessions_are_shown_without_control_characters() {
        let mut app = app();
        press(&mut app, KeyCode::Char('3'));
        let shown = screen(&app, 80, 8);
        assert_eq!(shown[1], "2 sessions and tokens");
        let row = "ann   node-red-editor  curl \\u{1b}[2J  1m   -     1h";
        assert_eq!(shown[3], row);
    }

    #[test]
    fn nodes_are_measured_when_their_page_is_open() {
        let mut app = app();
        press(&mut app, KeyCode::Tab);
        assert_eq!(screen(&app, 80, 8)[2], "measuring for 2 s");
        app.update(Measured {
            nodes: Some(Err("there is no engine".to_owned())),
            ..Measured::default()
        });
        app.update(Measured::default());
        assert_eq!(screen(&app, 80, 8)[2], "there is no engine");
    }

    #[test]
    fn a_terminal_may_have_any_size() {
        let mut app = app();
        for page in ['1', '2', '3'] {
            press(&mut app, KeyCode::Char(page));
            for (width, height) in [(1, 1), (3, 2), (20, 5), (500, 100)] {
                screen(&app, width, height);
            }
        }
    }

    #[test]
    fn q_escape_and_control_c_end_it() {
        for key in [KeyCode::Char('q'), KeyCode::Esc] {
            assert!(!press(&mut app(), key));
        }
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!app().press(control));
        assert!(press(&mut app(), KeyCode::Char('c')));
        for key in [
            KeyCode::Up,
            KeyCode::PageDown,
            KeyCode::PageUp,
            KeyCode::BackTab,
        ] {
            assert!(press(&mut app(), key));
        }
    }
}
