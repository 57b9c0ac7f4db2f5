//! A message as code has it: an object with some of its properties, and all that the object does
//! not have.

use super::{Scripts, from_js, to_js};
use rquickjs::{Ctx, Object as JsObject, Persistent, Result, Value as JsValue};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Message, Value};

/// The message that the running code was given.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) object: Persistent<JsValue<'static>>,
    /// The properties that the object has, in place of those of `rest`; `None`: all.
    pub(super) present: Option<Rc<[SmolStr]>>,
    /// The message before that.
    pub(super) rest: Message,
    /// The id that it came with.
    pub(super) id: Value,
}

impl Given {
    /// A message for code that sees these properties.
    pub(super) fn new(
        scripts: &Scripts,
        ctx: &Ctx<'_>,
        message: &Message,
        visible: Option<&Rc<[SmolStr]>>,
    ) -> Result<Self> {
        let object = to_js::message(scripts, ctx, message, visible.map(AsRef::as_ref))?;
        Ok(Self {
            object: Persistent::save(ctx, object),
            present: visible.cloned(),
            rest: message.clone(),
            id: message.get("_msgid").clone(),
        })
    }

    /// An object that code has made.
    pub(super) fn of(object: &JsObject<'_>) -> Self {
        Self {
            object: Persistent::save(object.ctx(), object.clone().into_value()),
            present: None,
            rest: Message::default(),
            id: Value::Undefined,
        }
    }

    /// The same object for other code, which sees these properties.
    pub(super) fn show(
        &mut self,
        scripts: &Scripts,
        ctx: &Ctx<'_>,
        visible: Option<&Rc<[SmolStr]>>,
    ) -> Result<()> {
        let object = self.object.clone().restore(ctx)?;
        let Some(object) = object.as_object() else {
            return Ok(());
        };
        self.id = if self.has("_msgid") {
            from_js::value(scripts, ctx, &object.get("_msgid")?)?
        } else {
            self.rest.get("_msgid").clone()
        };
        self.add(scripts, object, visible)
    }

    /// Adds what the code sees and the object does not have.
    fn add(
        &mut self,
        scripts: &Scripts,
        object: &JsObject<'_>,
        visible: Option<&Rc<[SmolStr]>>,
    ) -> Result<()> {
        let Some(present) = &self.present else {
            return Ok(());
        };
        let Some(visible) = visible else {
            to_js::complete(scripts, object, &self.rest, present)?;
            self.present = None;
            return Ok(());
        };
        let is_absent = |name: &&SmolStr| !present.contains(*name);
        if !visible.iter().any(|name| is_absent(&name)) {
            return Ok(());
        }
        for name in visible.iter().filter(is_absent) {
            to_js::property(scripts, object, &self.rest, name)?;
        }
        let is_more = present.iter().any(|name| !visible.contains(name));
        self.present = Some(if is_more {
            let added = visible.iter().filter(is_absent);
            present.iter().chain(added).cloned().collect()
        } else {
            Rc::clone(visible)
        });
        Ok(())
    }

    /// Moves the properties that a node touches to `rest`; the others stay in the object.
    pub(super) fn read(
        &mut self,
        scripts: &Scripts,
        ctx: &Ctx<'_>,
        touches: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        let object = self.object.clone().restore(ctx)?;
        let Some(object) = object.as_object() else {
            return Ok(());
        };
        let all = match &self.present {
            Some(present) => present.to_vec(),
            None => from_js::names(scripts, object)?,
        };
        let (native, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|name| touches(name));
        let before = match self.present {
            Some(_) => self.rest.clone(),
            None => Message::default(),
        };
        self.rest = from_js::merged(scripts, object, before, &native)?;
        self.present = Some(kept.into());
        Ok(())
    }

    /// Returns whether the object has this property, or may have it.
    pub(super) fn has(&self, name: &str) -> bool {
        let present = self.present.as_ref();
        present.is_none_or(|present| present.iter().any(|present| present == name))
    }

    /// The message as the code has changed it; what it cannot see is as it was.
    pub(super) fn message(&self, scripts: &Scripts, ctx: &Ctx<'_>) -> Result<Message> {
        self.message_of(scripts, &self.object.clone().restore(ctx)?)
    }

    /// The same, with the object at hand.
    pub(super) fn message_of(&self, scripts: &Scripts, object: &JsValue<'_>) -> Result<Message> {
        if let (Some(present), Some(object)) = (&self.present, object.as_object()) {
            return from_js::merged(scripts, object, self.rest.clone(), present);
        }
        let value = from_js::value(scripts, object.ctx(), object)?;
        Ok(Message::from_value(value).unwrap_or_default())
    }
}
