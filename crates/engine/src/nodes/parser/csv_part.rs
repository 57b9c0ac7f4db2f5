//! The position of a message in its sequence, for csv nodes.

use value::{Message, property};

/// The position from `msg.parts`, if the message is one of a sequence.
#[derive(Clone)]
pub(super) struct Part {
    pub index: f64,
    pub count: f64,
}

impl Part {
    pub(super) fn of(message: &Message) -> Option<Self> {
        let parts = message.properties().get("parts")?;
        let number = |name| property(parts, name).as_number().unwrap_or(f64::NAN);
        Some(Self {
            index: number("index"),
            count: number("count"),
        })
    }

    #[expect(
        clippy::float_cmp,
        reason = "both are whole numbers, or nothing matches"
    )]
    pub(super) fn is_last(&self) -> bool {
        self.index + 1.0 == self.count
    }

    pub(super) fn ends(&self) -> bool {
        self.index + 1.0 >= self.count
    }
}
