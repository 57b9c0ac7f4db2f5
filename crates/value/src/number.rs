//! Numbers and their text (ECMA-262 §6.1.6.1, §7.1.4.1, §19.2.4).

use smol_str::SmolStr;

/// `StringToNumber` (§7.1.4.1.1).
pub fn text_to_number(text: &str) -> f64 {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.is_empty() {
        return 0.0;
    }
    let radix = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', b'b' | b'B', ..] => 2,
        _ => 10,
    };
    if radix != 10 {
        return digits(text.get(2..).unwrap_or_default(), radix);
    }
    match text {
        "Infinity" | "+Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        // Rust would read `inf` and `nan` too.
        _ if text
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) =>
        {
            text.parse().unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

fn digits(text: &str, radix: u32) -> f64 {
    if text.is_empty() {
        return f64::NAN;
    }
    let add = |sum: f64, c: char| Some(sum * f64::from(radix) + f64::from(c.to_digit(radix)?));
    text.chars().try_fold(0.0, add).unwrap_or(f64::NAN)
}

/// `parseFloat` (§19.2.4): the longest number that the text begins with; NaN if there is none.
pub fn parse_float(text: &str) -> f64 {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.starts_with("Infinity") {
        return if text.starts_with('-') {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    let digits = |at: usize| {
        let rest = text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let start = text.len() - unsigned.len();
    let mut end = digits(start);
    if text.as_bytes().get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if let Some(b'e' | b'E') = text.as_bytes().get(end) {
        let sign = matches!(text.as_bytes().get(end + 1), Some(b'+' | b'-'));
        let exponent = end + 1 + usize::from(sign);
        if digits(exponent) > exponent {
            end = digits(exponent);
        }
    }
    // Rust reads `5.` and `.5` as JavaScript does, and refuses what has no digit.
    text.get(..end)
        .and_then(|number| number.parse().ok())
        .unwrap_or(f64::NAN)
}

/// `Number::toString` (§6.1.6.1.20), radix 10.
pub fn number_text(n: f64) -> SmolStr {
    match whole(n) {
        Some(n) => SmolStr::new(itoa::Buffer::new().format(n)),
        None => SmolStr::new(ryu_js::Buffer::new().format(n)),
    }
}

/// The same, at the end of a text.
pub fn write_number(n: f64, out: &mut String) {
    match whole(n) {
        Some(n) => out.push_str(itoa::Buffer::new().format(n)),
        None => out.push_str(ryu_js::Buffer::new().format(n)),
    }
}

/// The number as an integer, if it is one of 32 bits: most are, and are written faster than
/// fractions.
fn whole(n: f64) -> Option<i32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what does not fit is compared"
    )]
    let whole = n as i32;
    #[expect(clippy::float_cmp, reason = "equal only if nothing was lost")]
    let same = f64::from(whole) == n;
    same.then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_javascript_reads_them() {
        let table = [
            ("", 0.0),
            (" 0x10 ", 16.0),
            ("1e3", 1000.0),
            ("0b11", 3.0),
            ("-1.5", -1.5),
            (".5", 0.5),
            ("5.", 5.0),
        ];
        for (input, expected) in table {
            assert!(
                (text_to_number(input) - expected).abs() < f64::EPSILON,
                "{input}"
            );
        }
        for input in ["abc", "1 2", "inf", "nan", "0x", "0xg", "1e", "--1"] {
            assert!(text_to_number(input).is_nan(), "{input}");
        }
    }

    #[test]
    fn numbers_at_the_beginning_of_a_text_are_found() {
        let table = [
            ("21 C", 21.0),
            (" -1.5e2x", -150.0),
            ("5.", 5.0),
            (".5.5", 0.5),
            ("1e", 1.0),
            ("10%", 10.0),
        ];
        for (input, expected) in table {
            assert!(
                (parse_float(input) - expected).abs() < f64::EPSILON,
                "{input}"
            );
        }
        for input in ["", "a1", ".", "-", "e5", "nan", "inf"] {
            assert!(parse_float(input).is_nan(), "{input}");
        }
    }
}
