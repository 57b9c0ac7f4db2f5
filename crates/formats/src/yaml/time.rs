//! Timestamps of YAML: `2001-12-14`, `2001-12-14t21:59:43.10-05:00`, `2001-12-14 21:59:43.10 -5`.
//! Pure.

/// Milliseconds since 1970; `None` if the text is no timestamp.
pub(super) fn read(text: &str) -> Option<f64> {
    let mut rest = Rest(text);
    let year = rest.number(4, 4)?;
    rest.sign('-')?;
    let month = rest.number(1, 2)?;
    rest.sign('-')?;
    let day = rest.number(1, 2)?;
    if rest.0.is_empty() {
        let whole = text.len() == "2001-12-14".len();
        return whole.then(|| midnight(year, month, day));
    }
    if rest.sign('T').or_else(|| rest.sign('t')).is_none() && rest.blanks() == 0 {
        return None;
    }
    let hour = rest.number(1, 2)?;
    rest.sign(':')?;
    let minute = rest.number(2, 2)?;
    rest.sign(':')?;
    let second = rest.number(2, 2)?;
    let mut fraction = 0.0;
    if rest.sign('.').is_some() {
        let digits = rest.digits();
        let three: String = digits.chars().chain("000".chars()).take(3).collect();
        fraction = three.parse().ok()?;
    }
    let mut away = 0.0;
    rest.blanks();
    if rest.sign('Z').is_none() && !rest.0.is_empty() {
        let sign = match rest.sign('-') {
            Some(()) => -1.0,
            None => rest.sign('+').map(|()| 1.0)?,
        };
        let hours = rest.number(1, 2)?;
        let minutes = match rest.sign(':') {
            Some(()) => rest.number(2, 2)?,
            None => 0.0,
        };
        away = sign * (hours * 60.0 + minutes);
    }
    let seconds = (hour * 60.0 + minute - away) * 60.0 + second;
    rest.0
        .is_empty()
        .then(|| midnight(year, month, day) + seconds * 1000.0 + fraction)
}

/// The rest of a text.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn digits(&mut self) -> &'a str {
        let end = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        digits
    }

    fn number(&mut self, least: usize, most: usize) -> Option<f64> {
        let digits = self.digits();
        (least..=most)
            .contains(&digits.len())
            .then(|| digits.parse().ok())?
    }

    fn sign(&mut self, sign: char) -> Option<()> {
        self.0 = self.0.strip_prefix(sign)?;
        Some(())
    }

    fn blanks(&mut self) -> usize {
        let before = self.0.len();
        self.0 = self.0.trim_start_matches([' ', '\t']);
        before - self.0.len()
    }
}

/// `Date.UTC` of a day, whatever its numbers (Howard Hinnant's days from civil); years to 99 are of
/// the 20th century.
fn midnight(year: f64, month: f64, day: f64) -> f64 {
    let year = if year < 100.0 { year + 1900.0 } else { year };
    let month = month - 1.0;
    let (year, month) = (year + (month / 12.0).floor(), month.rem_euclid(12.0) + 1.0);
    let year = if month <= 2.0 { year - 1.0 } else { year };
    let era = (year / 400.0).floor();
    let of_era = year - era * 400.0;
    let shifted = if month > 2.0 {
        month - 3.0
    } else {
        month + 9.0
    };
    let of_year = ((153.0 * shifted + 2.0) / 5.0).floor();
    let days = of_era * 365.0 + (of_era / 4.0).floor() - (of_era / 100.0).floor() + of_year;
    (era * 146_097.0 + days - 719_468.0 + day - 1.0) * 86_400_000.0
}
