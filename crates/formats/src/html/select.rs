//! The selectors of an html node: those of CSS, and what jQuery added at their end (`li:eq(1)`, `p:contains("x")`).

use scraper::{ElementRef, Html, Selector};
use value::Failure;

/// A selector that can be used.
#[derive(Debug)]
pub struct Select {
    css: Selector,
    /// Filters for the elements, applied one after another.
    filters: Vec<Filter>,
}

#[derive(Debug)]
enum Filter {
    First,
    Last,
    /// The one of that index; from the end if it is negative.
    At(isize),
    After(isize),
    Before(isize),
    Even,
    Odd,
    Contains(String),
}

/// The maximum number of functions such as `:not(…)` in a selector; flowgate's own. Nested ones are read recursively,
/// and a message may bring the selector.
const FUNCTIONS: usize = 100;

impl Select {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.matches('(').count() > FUNCTIONS {
            return Err(Failure::text("Selector has too many functions"));
        }
        let text = text.replace(":header", ":is(h1,h2,h3,h4,h5,h6)");
        let (mut css, mut filters) = (text.as_str(), Vec::new());
        while let Some((before, filter)) = last_filter(css) {
            css = before;
            filters.insert(0, filter);
        }
        let css = if css.is_empty() { "*" } else { css };
        let css = Selector::parse(css).map_err(|e| Failure::text(worded(css, &e.to_string())))?;
        Ok(Self { css, filters })
    }

    pub(super) fn pick<'a>(&self, document: &'a Html) -> Vec<ElementRef<'a>> {
        let mut picked: Vec<_> = document.select(&self.css).collect();
        for filter in &self.filters {
            let count = picked.len();
            let mut index = 0;
            picked.retain(|element| {
                index += 1;
                filter.keeps(*element, index - 1, count)
            });
        }
        picked
    }
}

impl Filter {
    fn keeps(&self, element: ElementRef<'_>, index: usize, count: usize) -> bool {
        let place = |n: isize| count.checked_add_signed(n).filter(|_| n < 0);
        let from = |n: isize| usize::try_from(n).ok().or_else(|| place(n));
        match self {
            Self::First => index == 0,
            Self::Last => index + 1 == count,
            Self::At(n) => from(*n) == Some(index),
            Self::After(n) => from(*n).is_none_or(|n| index > n),
            Self::Before(n) => from(*n).is_some_and(|n| index < n),
            Self::Even => index.is_multiple_of(2),
            Self::Odd => !index.is_multiple_of(2),
            Self::Contains(text) => element.text().collect::<String>().contains(text),
        }
    }
}

/// The jQuery extension at the end of a selector, and the text before it.
fn last_filter(text: &str) -> Option<(&str, Filter)> {
    let (before, name) = text.rsplit_once(':')?;
    let (name, argument) = match name.split_once('(') {
        Some((name, argument)) => (name, argument.strip_suffix(')')?),
        None => (name, ""),
    };
    let number = || argument.trim().parse::<isize>().ok();
    let filter = match name {
        "first" => Filter::First,
        "last" => Filter::Last,
        "eq" => Filter::At(number()?),
        "gt" => Filter::After(number()?),
        "lt" => Filter::Before(number()?),
        "even" => Filter::Even,
        "odd" => Filter::Odd,
        "contains" => Filter::Contains(argument.trim_matches(['"', '\'']).to_owned()),
        _ => return None,
    };
    Some((before, filter))
}

/// Why a selector cannot be read, in cheerio's words where they are known.
fn worded(css: &str, error: &str) -> String {
    let open = css.rfind('[') > css.rfind(']');
    if open {
        let found = css.rsplit('[').next().unwrap_or_default();
        return format!("Expected name, found {found}");
    }
    match css.rsplit_once(':') {
        Some((_, name)) if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') => {
            format!("unmatched pseudo-class :{name}")
        }
        _ => error.to_owned(),
    }
}
