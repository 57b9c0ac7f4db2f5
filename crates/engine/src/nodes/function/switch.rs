//! `switch`: sends a message to the outputs whose rules it meets.
//!
//! A switch never reports a message as done, as in Node-RED: complete nodes do not see it
//! (docs/reference/node-red-engine.md §3.1).

use super::switch_rules::{self, Rules, Unroutable};
use super::switch_sequence::{Sequences, is_part};
use crate::node::{BoxedNode, Build, Host, Level, Node, boxed};
use value::{Failure, Message, Value};

struct Switch {
    rules: Rules,
    sequences: Option<Sequences>,
    /// The outputs of the message at hand; kept to be filled again.
    outputs: Vec<usize>,
}

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: switch_rules::Properties = build.properties()?;
    let repair = properties.repair();
    let rules = switch_rules::parse(properties)?;
    let sequences = (repair || rules.need_count()).then(|| Sequences::new(repair));
    Ok(boxed(Switch {
        rules,
        sequences,
        outputs: Vec::new(),
    }))
}

impl Switch {
    fn route(&mut self, message: Message, host: &mut Host<'_>) {
        let eval = host.context();
        if let Err(why) = self.rules.matches(&message, &eval, &mut self.outputs) {
            return report(why, message, host);
        }
        if let Some((last, others)) = self.outputs.split_last() {
            for output in others {
                host.send(*output, message.clone());
            }
            host.send(*last, message);
        }
    }

    /// Routes a whole sequence, numbering anew what each output gets.
    fn repair(&mut self, messages: Vec<Message>, host: &mut Host<'_>) {
        let eval = host.context();
        let mut routed: Vec<(usize, Message)> = Vec::new();
        for message in messages {
            match self.rules.matches(&message, &eval, &mut self.outputs) {
                Ok(()) => {
                    routed.extend(self.outputs.iter().map(|output| (*output, message.clone())));
                }
                Err(why) => report(why, message, host),
            }
        }
        for (output, message) in Sequences::renumber(routed, || host.fresh_id()) {
            host.send(output, message);
        }
    }
}

fn report(why: Unroutable, message: Message, host: &mut Host<'_>) {
    match why {
        Unroutable::Property(failure) => host.log(Level::Warn, Value::from(failure.to_string())),
        Unroutable::Path(failure) | Unroutable::Rule(failure) => {
            host.error(failure, Some(message));
        }
    }
}

impl Node for Switch {
    fn takes_scripts(&self) -> bool {
        self.sequences.is_none()
    }

    fn touches(&self, property: &str) -> bool {
        property == "parts" || self.rules.touches(property)
    }

    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let Some(sequences) = &mut self.sequences else {
            return self.route(message, host);
        };
        if !is_part(&message) {
            return self.route(message, host);
        }
        let repairs = sequences.repairs();
        let ready = sequences.add(message);
        if repairs {
            return self.repair(ready, host);
        }
        for message in ready {
            self.route(message, host);
        }
    }
}
