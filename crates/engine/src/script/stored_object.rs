//! An object of a context store that lives in JavaScript, so that all functions share it.

use super::node_state::{Invocation, State};
use super::paths::steps;
use super::{Scripts, failure, from_js, to_js};
use crate::context::Live;
use rquickjs::{Ctx, Function, Object as JsObject, Persistent, Result, Value as JsValue};
use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};
use value::{Failure, Key, Value};

/// The object, and where it comes from.
pub(super) struct StoredObject {
    // Dropped before the runtime.
    /// Empty only while [`StoredObject::whole`] finds out whether code refers to it.
    object: RefCell<Option<Persistent<JsValue<'static>>>>,
    /// The function that stored it, or read it first.
    owner: Weak<State>,
    scripts: Weak<Scripts>,
}

impl fmt::Debug for StoredObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredObject")
    }
}

impl StoredObject {
    /// An object that the running code stores, or reads for the first time.
    pub(super) fn new<'js>(call: &Invocation<'js>, object: JsValue<'js>) -> Rc<Self> {
        Rc::new(Self {
            object: RefCell::new(Some(Persistent::save(&call.realm, object))),
            owner: Rc::downgrade(&call.state),
            scripts: Rc::downgrade(&call.scripts),
        })
    }

    /// The value at a path inside, for code.
    pub(super) fn get<'js>(
        &self,
        scripts: &Scripts,
        ctx: &Ctx<'js>,
        path: &[Key],
    ) -> Result<JsValue<'js>> {
        let object = self.restore(ctx)?;
        if path.is_empty() {
            return Ok(object);
        }
        let read = scripts.library()?.function(ctx, "readStored")?;
        read.call((object, steps(ctx, path)?))
    }

    /// Writes a value of the code at a path inside; `undefined` deletes. False if a parent on the
    /// way is a primitive.
    pub(super) fn set<'js>(
        &self,
        scripts: &Scripts,
        ctx: &Ctx<'js>,
        path: &[Key],
        value: JsValue<'js>,
    ) -> Result<bool> {
        let write = scripts.library()?.function(ctx, "writeStored")?;
        write.call((self.restore(ctx)?, steps(ctx, path)?, value))
    }

    /// The value as native code sees it, while code runs.
    pub(super) fn snapshot(&self, scripts: &Scripts, ctx: &Ctx<'_>) -> Result<Value> {
        from_js::value(scripts, ctx, &self.restore(ctx)?)
    }

    fn restore<'js>(&self, ctx: &Ctx<'js>) -> Result<JsValue<'js>> {
        let object = self.object.borrow().clone();
        object.ok_or(rquickjs::Error::Unknown)?.restore(ctx)
    }

    /// Runs getters and the like of the object, in no node's name and within the time limit. `None`
    /// while code runs.
    fn enter<R>(
        &self,
        run: impl for<'js> FnOnce(&Scripts, &Ctx<'js>) -> Result<R>,
    ) -> std::result::Result<Option<R>, Failure> {
        let Some(scripts) = self.scripts.upgrade() else {
            return Ok(None);
        };
        let Some(library) = scripts.library.get() else {
            return Ok(None);
        };
        if scripts.current.borrow().is_some() {
            return Ok(None);
        }
        scripts.clock.start(scripts.default_limit);
        let result = library
            .realm
            .with(|ctx| run(&scripts, &ctx).map_err(|_| failure::pending(&scripts, &ctx)));
        scripts.end_invocation(&library.realm);
        result.map(Some)
    }
}

impl Live for StoredObject {
    fn leaf(&self, path: &[Key]) -> std::result::Result<Option<Value>, Failure> {
        if path.is_empty() {
            return Ok(None);
        }
        let leaf = self.enter(|scripts, ctx| {
            let value = self.get(scripts, ctx, path)?;
            if value.is_object() {
                return Ok(None);
            }
            from_js::value(scripts, ctx, &value).map(Some)
        });
        Ok(leaf?.flatten())
    }

    fn write(&self, path: &[Key], value: &Value) -> std::result::Result<bool, Failure> {
        let written = self.enter(|scripts, ctx| {
            let owner = self.owner.upgrade();
            let plain = owner.and_then(|state| state.plain.borrow().clone());
            let value = match plain {
                Some(plain) => to_js::value(scripts, plain.restore(ctx)?.ctx(), value)?,
                None => to_js::value(scripts, ctx, value)?,
            };
            self.set(scripts, ctx, path, value)
        });
        Ok(written?.unwrap_or(false))
    }

    fn whole(&self) -> std::result::Result<Option<(Value, bool)>, Failure> {
        self.enter(|scripts, ctx| {
            let object = self.restore(ctx)?;
            let (value, is_exact) = from_js::exactly(scripts, ctx, &object)?;
            if !is_exact || self.is_orphan() {
                return Ok((value, !is_exact));
            }
            let library = scripts.library()?;
            let weak: JsObject<'_> = library.function(ctx, "weaken")?.call((object,))?;
            self.object.take();
            let object: JsValue<'_> = weak
                .get::<_, Function<'_>>("deref")?
                .call((rquickjs::function::This(weak),))?;
            if object.is_undefined() {
                return Ok((value, false));
            }
            self.object.replace(Some(Persistent::save(ctx, object)));
            Ok((value, true))
        })
    }

    fn is_orphan(&self) -> bool {
        self.owner.strong_count() == 0
    }
}
