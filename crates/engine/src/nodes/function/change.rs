//! `change`: sets, changes, deletes and moves properties of messages and contexts.

use super::change_apply::Note;
use super::change_rules::{self, Rule};
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use value::{Failure, Message, Value};

struct Change {
    rules: Box<[Rule]>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    Ok(boxed(Change {
        rules: change_rules::parse(build.properties()?)?,
    }))
}

impl Node for Change {
    fn takes_scripts(&self) -> bool {
        true
    }

    fn touches(&self, property: &str) -> bool {
        self.rules.iter().any(|rule| rule.touches(property))
    }

    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        let eval = host.context();
        let mut notes = Vec::new();
        let changed = self
            .rules
            .iter()
            .try_for_each(|rule| rule.apply(&mut message, &eval, &mut notes));
        for note in notes {
            match note {
                Note::Warning(text) => host.log(Level::Warn, Value::from(text)),
                Note::Error(failure) => host.error(failure, Some(message.clone())),
            }
        }
        match changed {
            Ok(()) => host.pass(message),
            Err(failure) => host.error(failure, Some(message)),
        }
    }
}
