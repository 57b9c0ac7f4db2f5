//! Reuses the parsed elements of the previous flow set whose text is unchanged: most deployments
//! change little.
//!
//! A body is shortened: each run of such elements becomes their number, and the rest stays as sent.
//! With its numbers replaced by those elements, the short text means the same as the body.

use super::{FlowSet, Malformed, Node};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The beginnings of bodies' arrays: version v2, as editors write it, and v1.
const BEGINNINGS: [&[u8]; 2] = [b"{\"flows\":[", b"["];

/// A body with more elements than this that are not known, and fewer that are, is read whole.
const FEW: usize = 100;

/// Reads a body with `read`, a shortened one if possible; errors refer to the body as it was sent.
pub(super) fn reading<T>(
    before: &FlowSet,
    body: &[u8],
    read: impl Fn(&[u8], Vec<Arc<Node>>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    if let Some((text, known)) = shorten(before, body)
        && let Ok(done) = read(&text, known)
    {
        return Ok(done);
    }
    read(body, Vec::new())
}

/// The short text, and the elements of `before` that its numbers count, in order. `None`: the body
/// has an unusual form, or contains few known elements.
fn shorten(before: &FlowSet, body: &[u8]) -> Option<(Vec<u8>, Vec<Arc<Node>>)> {
    let beginning = BEGINNINGS.into_iter().find(|b| body.starts_with(b))?;
    let mut short = beginning.to_vec();
    let mut known = Vec::with_capacity(before.nodes().len());
    let (mut rest, mut others) = (body.get(beginning.len()..)?, 0);
    // The element's position in `before`, if the order is the same.
    let mut expected = 0;
    loop {
        if let Some((run, after)) = run(before.nodes().get(expected..)?, rest) {
            known.extend_from_slice(run);
            expected += run.len();
            short.extend_from_slice(run.len().to_string().as_bytes());
            rest = after;
        } else {
            let (element, after) = element(rest)?;
            others += 1;
            if others > known.len() + FEW {
                return None;
            }
            short.extend_from_slice(element);
            expected = place_after(before, element).unwrap_or(expected);
            rest = after;
        }
        if rest.starts_with(b"]") {
            short.extend_from_slice(rest);
            return Some((short, known));
        }
        rest = rest.strip_prefix(b",")?;
        short.push(b',');
    }
}

/// The nodes whose texts a text begins with, between commas, and what comes after them; `None`: it
/// begins with none.
fn run<'n, 't>(nodes: &'n [Arc<Node>], text: &'t [u8]) -> Option<(&'n [Arc<Node>], &'t [u8])> {
    let (mut count, mut after) = (0, None);
    let mut next = Some(text);
    for node in nodes {
        let Some(rest) = next.and_then(|next| next.strip_prefix(node.text.as_bytes())) else {
            break;
        };
        count += 1;
        after = Some(rest);
        next = rest.strip_prefix(b",");
    }
    Some((nodes.get(..count)?, after?))
}

/// The object at the beginning of a text, and what comes after it.
fn element(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let object = text.starts_with(b"{").then_some(text)?;
    let mut values = serde_json::Deserializer::from_slice(object).into_iter::<&RawValue>();
    let element = values.next()?.ok()?.get().as_bytes();
    Some((element, text.get(values.byte_offset()..)?))
}

/// The position after that of the element with this id.
fn place_after(before: &FlowSet, element: &[u8]) -> Option<usize> {
    #[derive(Deserialize)]
    struct Element<'e> {
        #[serde(borrow)]
        id: Cow<'e, str>,
    }
    let Element { id } = serde_json::from_slice(element).ok()?;
    Some(before.position(&id)? + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Submission;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    fn short(body: &str) -> Option<(String, usize)> {
        let before = r#"[{"id":"a","type":"x"},{"id":"b","type":"x"},{"id":"c","type":"x"}]"#;
        let before = FlowSet::parse(before.as_bytes()).unwrap();
        let (text, known) = shorten(&before, body.as_bytes())?;
        Some((String::from_utf8(text).unwrap(), known.len()))
    }

    #[test]
    fn runs_of_known_elements_become_their_number_and_the_rest_is_unchanged() {
        let body = r#"{"flows":[{"id":"a","type":"x"},{"id":"b","type":"y"},{"id":"c","type":"x"}],"rev":"r"}"#;
        let expected = r#"{"flows":[1,{"id":"b","type":"y"},1],"rev":"r"}"#;
        assert_eq!(short(body), Some((expected.to_owned(), 2)));
        let body = r#"[{"id":"a","type":"x"},{"id":"b","type":"x"},{"id":"c","type":"y"}]"#;
        let expected = r#"[2,{"id":"c","type":"y"}]"#;
        assert_eq!(short(body), Some((expected.to_owned(), 2)));
        let body = r#"[{"id":"b","type":"z"},{"id":"c","type":"x"}]"#;
        let expected = r#"[{"id":"b","type":"z"},1]"#;
        assert_eq!(short(body), Some((expected.to_owned(), 1)));
    }

    #[test]
    fn ambiguous_bodies_are_parsed_in_full() {
        let known = r#"{"id":"a","type":"x"}"#;
        for body in [
            "",
            "[",
            "[]",
            "[0]",
            &format!("[{known}"),
            &format!("[{known},"),
            &format!("[{known} ]"),
            &format!("[{known},0]"),
            &format!("[{known}{known}]"),
            &format!("[[{known}]]"),
            &format!("[\"{known}\"]"),
            &format!(r#"{{"rev":"","flows":[{known}]}}"#),
        ] {
            assert_eq!(short(body), None, "{body}");
        }
    }

    const SAMPLE: &str = r#"[{"id":"a","type":"tab"},{"id":"b","type":"x","z":"a","t":"]},{\"0"},{"id":"c","type":"x","wires":[["b"]]}]"#;

    proptest! {
        /// However a known body is edited, the previous flow set changes neither its meaning nor
        /// its errors.
        #[test]
        fn the_previous_flow_set_never_changes_the_result(
            wrapped: bool,
            edits in vec((any::<Index>(), select(&b"{}[],0\"\\: x\xff"[..]), any::<bool>()), 0..4),
            cut in option::of(any::<Index>()),
        ) {
            let before = FlowSet::parse(SAMPLE.as_bytes()).unwrap();
            let mut body = SAMPLE.as_bytes().to_vec();
            if wrapped {
                body = [b"{\"flows\":", &body[..], b",\"rev\":\"r\"}"].concat();
            }
            for (place, byte, replaces) in edits {
                let place = place.index(body.len());
                body.splice(place..place + usize::from(replaces), [byte]);
            }
            if let Some(cut) = cut {
                body.truncate(cut.index(body.len()));
            }
            let read = |before: &FlowSet| {
                let read = if wrapped { Submission::v2 } else { Submission::v1 };
                let sent = read(before, &body)?;
                Ok::<_, Malformed>((sent.flows, sent.rev, sent.credentials.nodes))
            };
            prop_assert_eq!(read(&before), read(&FlowSet::default()));
        }
    }

    #[test]
    fn text_after_the_elements_is_still_checked() {
        let known = r#"{"id":"a","type":"x"}"#;
        for (after, error) in [
            ("]]", "trailing characters"),
            ("],\"flows\":[]}", "the key \"flows\" is there twice"),
            ("],\"rev\":1}", "\"rev\" must be a string"),
        ] {
            let beginning = if after == "]]" { "[" } else { "{\"flows\":[" };
            let body = format!("{beginning}{known}{after}");
            assert!(short(&body).is_some());
            let before = FlowSet::parse(format!("[{known}]").as_bytes()).unwrap();
            let sent = match beginning {
                "[" => Submission::v1(&before, body.as_bytes()),
                _ => Submission::v2(&before, body.as_bytes()),
            };
            let message = sent.unwrap_err().to_string();
            assert!(message.contains(error), "{message}");
        }
    }
}
