//! `switch`: sends a message to the outputs whose rules it meets.

use super::switch_rules::{self, Rules};
use super::switch_sequence::Sequences;
use crate::engine::expression::typed::Scene;
use crate::engine::message::Message;
use crate::engine::node::{Build, Host, Node};
use crate::engine::value::Failure;

struct Switch {
    rules: Rules,
    sequences: Option<Sequences>,
    /// The outputs of the message at hand; kept to be filled again.
    outputs: Vec<usize>,
}

pub(in crate::engine::nodes) fn build(build: &Build<'_>) -> Result<Box<dyn Node>, Failure> {
    let properties: switch_rules::Properties = build.properties()?;
    let repair = properties.repair();
    let rules = switch_rules::parse(properties)?;
    let sequences = (repair || rules.need_count()).then(|| Sequences::new(repair));
    Ok(Box::new(Switch {
        rules,
        sequences,
        outputs: Vec::new(),
    }))
}

impl Switch {
    fn route(&mut self, message: Message, host: &mut Host<'_>) {
        let scene = Scene::of(host);
        if let Err(failure) = self.rules.matches(&message, &scene, &mut self.outputs) {
            host.error(failure, Some(message));
            return;
        }
        let finished = host.watched().then(|| message.clone());
        if let Some((last, others)) = self.outputs.split_last() {
            for output in others {
                host.send(*output, message.clone());
            }
            host.send(*last, message);
        }
        if let Some(message) = finished {
            host.done(message);
        }
    }

    /// Routes a whole sequence, numbering anew what each output gets.
    fn repair(&mut self, messages: Vec<Message>, host: &mut Host<'_>) {
        let scene = Scene::of(host);
        let mut routed: Vec<(usize, Message)> = Vec::new();
        for message in messages {
            match self.rules.matches(&message, &scene, &mut self.outputs) {
                Ok(()) => {
                    routed.extend(self.outputs.iter().map(|output| (*output, message.clone())));
                }
                Err(failure) => host.error(failure, Some(message.clone())),
            }
            host.done(message);
        }
        for (output, message) in Sequences::renumber(routed, || host.fresh_id()) {
            host.send(output, message);
        }
    }
}

impl Node for Switch {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let Some(sequences) = &mut self.sequences else {
            return self.route(message, host);
        };
        let repairs = sequences.repairs();
        let ready = sequences.add(message);
        if repairs && ready.len() > 1 {
            return self.repair(ready, host);
        }
        for message in ready {
            self.route(message, host);
        }
    }
}
