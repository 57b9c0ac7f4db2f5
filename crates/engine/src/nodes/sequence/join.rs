//! `join`: makes one message of a sequence: by its `msg.parts` (auto), by the node's settings
//! (custom), or by an expression (reduce).

use super::join_group::{Group, Shape};
use super::join_piece::{Custom, Piece, Properties, Refused, auto_piece};
use super::join_reduce::{Reduce, Step};
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, TimerId, Wake, boxed};
use smol_str::SmolStr;
use std::collections::HashMap;
use value::{Failure, Message, coerce, property};

pub(in crate::nodes) fn build(build: &Build<'_>, _: &mut Host<'_>) -> Result<BoxedNode, Failure> {
    let properties: Properties = build.properties()?;
    if properties.mode == "reduce" {
        let mut reduce = Reduce::parse(
            &properties.reduce_exp,
            &properties.reduce_init_type,
            &properties.reduce_init,
            &properties.reduce_fixup,
        )?;
        reduce.backwards = properties.reduce_right;
        return Ok(boxed(ReducingJoin(reduce)));
    }
    let custom = match properties.mode.as_str() {
        "custom" => Some(Custom::parse(&properties)?),
        _ => None,
    };
    Ok(boxed(Join {
        custom,
        groups: HashMap::new(),
        timers: HashMap::new(),
    }))
}

/// Joins with an expression.
struct ReducingJoin(Reduce);

impl Node for ReducingJoin {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        match self.0.add(message, host.config().message_buffer) {
            Step::Waiting => {}
            Step::Single(message) => host.pass(message),
            Step::TooMany(message) => host.error(
                Failure::text("too many pending messages in join node"),
                Some(message),
            ),
            Step::Complete(mut messages, latest) => {
                let value = self.0.value(&messages, &host.context());
                // A value is sent with the last message in order; a failure is reported with the
                // one that came last (observed).
                if value.is_err() && latest < messages.len() {
                    let last = messages.remove(latest);
                    messages.push(last);
                }
                let last = messages.pop();
                for message in messages {
                    host.done(message);
                }
                match value {
                    Ok(value) => {
                        let mut made = last.unwrap_or_default();
                        made.set("payload", value);
                        host.pass(made);
                    }
                    Err(failure) => host.error(failure, last),
                }
            }
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        self.0.clear().into_iter().for_each(|m| host.done(m));
        None
    }
}

/// Joins by parts, or by the node's settings.
struct Join {
    /// `None`: by parts.
    custom: Option<Custom>,
    groups: HashMap<SmolStr, Group>,
    /// When each group is sent as it is; only custom ones.
    timers: HashMap<SmolStr, TimerId>,
}

impl Join {
    /// Adds a message to its group.
    fn add(&mut self, message: &mut Message, host: &mut Host<'_>) -> Result<(), Refused> {
        let piece = match &self.custom {
            None => auto_piece(message)?,
            Some(custom) => custom.piece(message)?,
        };
        let name = piece.group.clone();
        let has = |key: &str| message.properties().contains_key(key);
        if has("restartTimeout") && self.groups.contains_key(&name) {
            self.start_timer(&name, host);
        }
        if has("reset") {
            self.stop_timer(&name, host);
            return Err(Refused::Done(
                self.groups.remove(&name).map_or(Vec::new(), |g| g.held),
            ));
        }
        let key = match self.key_of(&piece, message) {
            Ok(key) => key,
            Err(refused) => {
                // A message that adds nothing may still complete its group.
                if has("complete")
                    && self.custom.is_some()
                    && let Some(group) = self.groups.get_mut(&name)
                {
                    group.finish(message.get("complete").clone());
                    self.send(&name, host)?;
                    return Err(Refused::Done(Vec::new()));
                }
                return Err(refused);
            }
        };
        if !self.groups.contains_key(&name) {
            let property = piece.property.clone();
            let group = Group::new(piece.shape.clone(), property, piece.target);
            self.groups.insert(name.clone(), group);
            self.start_timer(&name, host);
        }
        let Some(group) = self.groups.get_mut(&name) else {
            return Ok(());
        };
        if let Some(warning) = put(group, key, &piece, message)? {
            host.log(Level::Warn, warning);
        }
        group.absorb(message);
        if host.watched() {
            group.held.push(message.clone());
        }
        let count = property(message.get("parts"), "count");
        if group.target.is_none() && coerce::truthy(&count) {
            group.target = Some(coerce::to_number(&count));
        }
        if message.properties().contains_key("complete") || group.is_full() {
            self.send(&name, host)?;
        }
        Ok(())
    }

    /// The key that a piece has in an object; `None` in any other shape.
    fn key_of(&self, piece: &Piece, message: &Message) -> Result<Option<SmolStr>, Refused> {
        if piece.shape != Shape::Object {
            return Ok(None);
        }
        let key = match &self.custom {
            None => property(message.get("parts"), "key"),
            Some(custom) => custom
                .key
                .try_read_message(message)
                .map_err(Refused::Failure)?,
        };
        if !key.is_nullish() && key.as_str() != Some("") {
            return Ok(Some(coerce::to_text(&key)));
        }
        Err(Refused::Warning(match &self.custom {
            None => "Message missing 'msg.parts.key' property - cannot add to object".to_owned(),
            Some(custom) if !message.properties().contains_key("complete") => format!(
                "Message missing key property 'msg.{}' - cannot add to object",
                custom.key_name
            ),
            Some(_) => return Err(Refused::Done(Vec::new())),
        }))
    }

    /// Starts the time that a group has, or starts it again.
    fn start_timer(&mut self, name: &SmolStr, host: &mut Host<'_>) {
        self.stop_timer(name, host);
        if let Some(timeout) = self.custom.as_ref().and_then(|c| c.timeout) {
            self.timers.insert(name.clone(), host.after(timeout));
        }
    }

    fn stop_timer(&mut self, name: &SmolStr, host: &mut Host<'_>) {
        if let Some(timer) = self.timers.remove(name) {
            host.cancel(timer);
        }
    }

    /// Sends what a group has become.
    fn send(&mut self, name: &SmolStr, host: &mut Host<'_>) -> Result<(), Refused> {
        self.stop_timer(name, host);
        let keeps = self.custom.as_ref().is_some_and(|c| c.accumulate);
        let Some(group) = self.groups.get_mut(name) else {
            return Ok(());
        };
        let made = group.message();
        let held = std::mem::take(&mut group.held);
        if !keeps || group.is_finished() {
            self.groups.remove(name);
        }
        host.send(0, made.map_err(Refused::Failure)?);
        for message in held {
            host.done(message);
        }
        Ok(())
    }
}

/// Puts a piece in its place; a warning if it has none.
fn put(
    group: &mut Group,
    key: Option<SmolStr>,
    piece: &Piece,
    message: &Message,
) -> Result<Option<&'static str>, Refused> {
    if let Some(key) = key {
        group.add_property(key, piece.value.clone());
    } else if group.is_merged() {
        let completes = message.properties().contains_key("complete");
        if !group.merge(&piece.value) && !completes {
            return Ok(Some("Cannot merge non-object types"));
        }
    } else {
        let value = piece.value.clone();
        group
            .add_piece(piece.place, value)
            .map_err(Refused::Failure)?;
    }
    Ok(None)
}

impl Node for Join {
    fn receive(&mut self, mut message: Message, host: &mut Host<'_>) {
        if self.custom.is_none() && property(message.get("parts"), "id").is_undefined() {
            if message.properties().contains_key("reset") {
                self.groups.clear();
            } else {
                let warning = "Message missing msg.parts property - cannot join in 'auto' mode";
                host.log(Level::Warn, warning);
            }
            return host.done(message);
        }
        match self.add(&mut message, host) {
            Ok(()) => {}
            Err(Refused::Warning(warning)) => {
                host.log(Level::Warn, warning);
                host.done(message);
            }
            Err(Refused::Done(held)) => {
                for message in held {
                    host.done(message);
                }
                host.done(message);
            }
            Err(Refused::Failure(failure)) => host.error(failure, Some(message)),
        }
    }

    fn wake(&mut self, wake: Wake, host: &mut Host<'_>) {
        let Wake::Timer(timer) = wake else { return };
        let due = self.timers.iter().find(|(_, t)| **t == timer);
        if let Some(name) = due.map(|(name, _)| name.clone())
            && let Err(Refused::Failure(failure)) = self.send(&name, host)
        {
            host.error(failure, None);
        }
    }

    fn close(&mut self, _removed: bool, host: &mut Host<'_>) -> Option<Closing> {
        let groups = self.groups.drain();
        let held = groups.flat_map(|(_, group)| group.held);
        held.for_each(|m| host.done(m));
        None
    }
}
