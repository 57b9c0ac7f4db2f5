//! Where a message stands in its sequence, as a csv node needs it.

use value::{Message, property};

/// What `msg.parts` says, if the message is one of a sequence.
pub(super) struct ElementKind {
    pub index: f64,
    pub count: f64,
}

impl ElementKind {
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
