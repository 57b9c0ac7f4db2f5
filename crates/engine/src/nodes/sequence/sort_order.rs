//! The order of keys: texts by their UTF-16 units, numbers by size. Pure.
//!
//! JavaScript's comparison is not an order where texts and numbers meet
//! (`"10" < "9" < 9.5 < "10"`). The engine's is one everywhere: values that are no numbers come
//! first, then the numbers. For keys of one kind the two are the same.

use std::cmp::Ordering;
use value::{Value, coerce};

/// The comparison of keys.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// From the greatest to the least.
    pub descending: bool,
    /// Texts are read as numbers.
    pub as_number: bool,
}

impl Order {
    /// Sorts values by their keys; those with equal keys stay as they are.
    pub(super) fn sort<T>(self, keyed: &mut [(Value, T)]) {
        if !self.as_number {
            for (key, _) in keyed.iter_mut() {
                // Objects are compared as their text.
                if matches!(key, Value::Array(_) | Value::Object(_) | Value::Buffer(_)) {
                    *key = Value::String(coerce::to_text(key));
                }
            }
        }
        let texts = !self.as_number && keyed.iter().all(|(k, _)| k.as_str().is_some());
        keyed.sort_by(|(a, _), (b, _)| {
            let order = match (a, b) {
                (Value::String(a), Value::String(b)) if texts => {
                    a.encode_utf16().cmp(b.encode_utf16())
                }
                _ => self.mixed(a, b),
            };
            if self.descending {
                order.reverse()
            } else {
                order
            }
        });
    }

    fn mixed(self, a: &Value, b: &Value) -> Ordering {
        let (x, y) = (number(a), number(b));
        match (x.is_nan(), y.is_nan()) {
            (true, true) if self.as_number => Ordering::Equal,
            (true, true) => coerce::to_text(a).cmp(&coerce::to_text(b)),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => x.total_cmp(&y),
        }
    }
}

fn number(value: &Value) -> f64 {
    // -0 is 0.
    coerce::to_number(value) + 0.0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use value::json;

    fn sorted(descending: bool, as_number: bool, values: &str) -> String {
        let values = json::parse(values).unwrap();
        let mut keyed: Vec<(Value, ())> = values
            .as_array()
            .unwrap()
            .iter()
            .map(|v| (v.clone(), ()))
            .collect();
        Order {
            descending,
            as_number,
        }
        .sort(&mut keyed);
        let sorted = keyed.into_iter().map(|(v, ())| v).collect();
        json::stringify(&Value::array(sorted)).unwrap()
    }

    #[test]
    fn numbers_texts_and_mixtures_are_sorted_as_in_node_red() {
        assert_eq!(sorted(true, false, "[3,10,1,2]"), "[10,3,2,1]");
        assert_eq!(
            sorted(false, false, r#"["3","10","1","2","B","a"]"#),
            r#"["1","10","2","3","B","a"]"#
        );
        assert_eq!(
            sorted(false, true, r#"["3","10","1","x","2"]"#),
            r#"["x","1","2","3","10"]"#
        );
        assert_eq!(
            sorted(false, false, r#"[3,10,1,"b","a",2]"#),
            r#"["a","b",1,2,3,10]"#
        );
    }
}
