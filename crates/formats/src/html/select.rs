//! The selectors of an html node: those of CSS, and what jQuery added at their end (`li:eq(1)`,
//! `p:contains("x")`).

use super::counted::Counted;
use scraper::selector::{Parser, Simple};
use scraper::{ElementRef, Html, Selector};
use selectors::matching::{
    MatchingContext, MatchingForInvalidation, MatchingMode, NeedsSelectorFlags, QuirksMode,
    SelectorCaches, matches_selector,
};
use selectors::parser::{ParseRelative, SelectorList};
use value::{Failure, budget};

/// A selector that can be used.
#[derive(Debug)]
pub struct Select {
    css: SelectorList<Simple>,
    /// Units of work for the comparison of an element with everything in the selector.
    units: usize,
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

/// The maximum number of functions such as `:not(…)` in a selector; flowgate's own. Nested ones are
/// read recursively, and a message may bring the selector.
const FUNCTIONS: usize = 100;

/// Bytes of a selector that are compared with an element in one unit of work.
const BYTES_PER_UNIT: usize = 4;

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
        Selector::parse(css).map_err(|e| Failure::text(worded(css, &e.to_string())))?;
        // The library does not show its list, and compares elements without counting.
        let list =
            SelectorList::parse(&Parser, &mut cssparser::Parser::new(css), ParseRelative::No)
                .map_err(|_| Failure::text(worded(css, "Selector cannot be read")))?;
        Ok(Self {
            css: list,
            units: 1 + css.len() / BYTES_PER_UNIT,
            filters,
        })
    }

    /// The elements that match, in their order. Fails if the search exceeds the budget of the node.
    pub(super) fn pick<'a>(&self, document: &'a Html) -> Result<Vec<ElementRef<'a>>, Failure> {
        let mut picked = Vec::new();
        let mut caches = SelectorCaches::default();
        for node in document.tree.nodes() {
            budget::work(self.units)?;
            let Some(element) = ElementRef::wrap(node).filter(|e| e.parent().is_some()) else {
                continue;
            };
            let matches = self.matches(element, &mut caches);
            // A search that was cut short has found nothing.
            budget::check()?;
            if matches {
                picked.push(element);
            }
        }
        for filter in &self.filters {
            picked = filter.kept(picked)?;
        }
        Ok(picked)
    }

    fn matches(&self, element: ElementRef<'_>, caches: &mut SelectorCaches) -> bool {
        let mut context = MatchingContext::new(
            MatchingMode::Normal,
            None,
            caches,
            QuirksMode::NoQuirks,
            NeedsSelectorFlags::No,
            MatchingForInvalidation::No,
        );
        let mut selectors = self.css.slice().iter();
        selectors.any(|s| matches_selector(s, 0, None, &Counted(element), &mut context))
    }
}

impl Filter {
    fn kept<'a>(&self, picked: Vec<ElementRef<'a>>) -> Result<Vec<ElementRef<'a>>, Failure> {
        let count = picked.len();
        let mut kept = Vec::new();
        for (index, element) in picked.into_iter().enumerate() {
            if self.keeps(element, index, count) {
                kept.push(element);
            }
            budget::check()?;
        }
        Ok(kept)
    }

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
            Self::Contains(text) => inner_text(element).is_ok_and(|inner| inner.contains(text)),
        }
    }
}

/// The text in an element. Fails if that exceeds the budget of the node.
pub(super) fn inner_text(element: ElementRef<'_>) -> Result<String, Failure> {
    let mut out = String::new();
    for part in element.text() {
        budget::made(part.len())?;
        out.push_str(part);
    }
    Ok(out)
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
