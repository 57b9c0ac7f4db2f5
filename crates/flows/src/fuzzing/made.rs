//! Two flow sets made of any bytes: the second is the first with a few choices made otherwise.

use smol_str::SmolStr;
use std::collections::HashSet;
use std::fmt::Write;

/// A flow set with everything in it.
pub(super) const SAMPLE: &str = r#"[{"id":"t","type":"tab"},{"id":"s","type":"subflow","in":[],"out":[]},{"id":"n","type":"x","z":"t","x":1,"y":1,"wires":[["i"]]},{"id":"i","type":"subflow:s","z":"t","x":1,"y":1,"wires":[]},{"id":"c","type":"config"},{"id":"b","type":"x","z":"s","x":1,"y":1,"config":"c"}]"#;

/// Choices for one element.
const FIELDS: usize = 6;
/// Elements, those that are left out included.
const ELEMENTS: [&str; 19] = [
    "T0", "T1", "S0", "S1", "G0", "G1", "C0", "C1", "C2", "N0", "N1", "N2", "N3", "N4", "N5", "N6",
    "N7", "N8", "N9",
];
/// The places of a node: on a tab, in a subflow, on a missing tab, on none.
const PLACES: [&str; 8] = ["T0", "T1", "T0", "T1", "S0", "S1", "T9", ""];

/// The old flow set, the new one, and the ids whose credentials were sent.
pub(super) fn two_sets(data: &[u8]) -> (String, String, HashSet<SmolStr>) {
    let choices = FIELDS * ELEMENTS.len();
    let mut bytes: Vec<u8> = data
        .iter()
        .copied()
        .chain(std::iter::repeat(1))
        .take(choices)
        .collect();
    let old = set(&bytes, false);
    let rest = data.get(choices..).unwrap_or_default();
    let (first, edits) = rest.split_first().unwrap_or((&0, &[]));
    for edit in edits.chunks_exact(2) {
        let at = usize::from(edit[0]) % choices;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = edit[1];
        }
    }
    let sent = (first & 6 == 6).then(|| ELEMENTS.get(usize::from(first >> 3) % 19));
    let credentials = sent.flatten().map(SmolStr::new).into_iter().collect();
    (old, set(&bytes, first & 1 == 1), credentials)
}

fn set(bytes: &[u8], reversed: bool) -> String {
    let elements = ELEMENTS.iter().zip(bytes.chunks_exact(FIELDS));
    let present = elements.filter(|(_, choices)| choices[0] % 5 != 0);
    let mut texts: Vec<String> = present.map(|(id, choices)| element(id, choices)).collect();
    if reversed {
        texts.reverse();
    }
    format!("[{}]", texts.join(","))
}

fn element(id: &str, choices: &[u8]) -> String {
    let [_, place, value, reference, wires, flags] = choices else {
        return String::new();
    };
    let value = value % 3;
    let off = flags % 8 == 7;
    let mut text = format!("{{\"id\":\"{id}\"");
    let mut say = |words: std::fmt::Arguments<'_>| _ = text.write_fmt(words);
    let env = format_args!(r#""env":[{{"name":"A","type":"str","value":"{value}"}}]"#);
    match id.as_bytes() {
        [b'T', _] => say(format_args!(
            r#","type":"tab","label":"{flags}","disabled":{off},{env}"#
        )),
        [b'S', _] => say(format_args!(r#","type":"subflow","x":{flags},{env}"#)),
        [b'G', number] => {
            say(format_args!(
                r#","type":"group","z":"T0","w":{flags},{env}"#
            ));
            if *number == b'1' && reference % 2 == 1 {
                say(format_args!(r#","g":"G0""#));
            }
        }
        [b'C', number] => {
            let place = if place % 4 == 0 { "T0" } else { "" };
            say(format_args!(
                r#","type":"config","z":"{place}","v":{value},"d":{off}"#
            ));
            if *number > b'0' && reference % 2 == 1 {
                say(format_args!(r#","config":"C{}""#, number - b'1'));
            }
        }
        _ => {
            let place = PLACES
                .get(usize::from(place % 8))
                .copied()
                .unwrap_or_default();
            let kind = match flags % 4 {
                2 if !place.starts_with('S') => "subflow:S0",
                3 if place != "S1" => "subflow:S1",
                1 => "link out",
                _ => "x",
            };
            let (one, other) = (wires % 10, wires / 25);
            say(format_args!(
                r#","type":"{kind}","z":"{place}","x":{flags},"y":1,"v":{value},"d":{off},"wires":[["N{one}","N{other}"]]"#
            ));
            match reference % 8 {
                0..3 => say(format_args!(r#","config":"C{}""#, reference % 8)),
                3 | 4 if place == "T0" => {
                    say(format_args!(r#","g":"G{}""#, reference % 8 - 3));
                }
                5 => say(format_args!(r#","links":["N{one}","N{other}"]"#)),
                _ => {}
            }
        }
    }
    text.push('}');
    text
}
