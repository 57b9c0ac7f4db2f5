//! The realm in which a function node's code runs: one of its own, or the one that all nodes share
//! whose code cannot tell the difference, see [`super::sharing`].
//!
//! The shared realm is frozen, so that no node can change what another one finds there, whatever
//! its code does. What each node has for itself is in the global object of its own realm; in the
//! shared one it surrounds the code as the parameters of a function.

use super::program::{Program, SharedCode};
use super::sharing::Sharing;
use super::{FREEZE, SHARE, Scripts, compile, options, source};
use rquickjs::function::{Args, IntoArgs};
use rquickjs::{
    CatchResultExt, Context, Ctx, FromJs, Function, Object as JsObject, Persistent, Result,
    Value as JsValue,
};
use std::rc::Rc;
use value::Failure;

/// A realm, and what in it we call in the name of one node.
pub(super) struct Realm {
    // Dropped in this order: the context last.
    bindings: Persistent<JsObject<'static>>,
    /// The prototype of plain objects; it also leads to the realm.
    plain: Persistent<JsObject<'static>>,
    pub(super) is_shared: bool,
    /// True if the code may name what the node has for itself.
    pub(super) names_own: bool,
    pub(super) context: Context,
}

/// The realm that nodes share.
pub(super) struct SharedRealm {
    /// The bindings of nodes whose code names nothing that each node has for itself.
    bindings: Persistent<JsObject<'static>>,
    plain: Persistent<JsObject<'static>>,
    pub(super) context: Context,
}

impl Realm {
    /// A realm for one node, which the library describes to its code by `about`.
    pub(super) fn own(
        scripts: &Rc<Scripts>,
        has_collections: bool,
        about: impl for<'js> FnOnce(&Ctx<'js>) -> Result<JsObject<'js>>,
    ) -> std::result::Result<Self, Failure> {
        let context = scripts.realm(has_collections)?;
        scripts.clock.start(scripts.default_limit);
        let made = context.with(|ctx| {
            let fill = || -> Result<_> {
                let library = scripts.library()?;
                let bindings: JsObject<'_> = library
                    .function(&ctx, "bindingsOf")?
                    .call((about(&ctx)?,))?;
                let () = library.function(&ctx, "furnish")?.call((ctx.globals(),))?;
                let furnish = library.function(&ctx, "furnishOwn")?;
                let () = furnish.call((ctx.globals(), bindings.clone()))?;
                Ok((Persistent::save(&ctx, bindings), plain(&ctx)?))
            };
            fill()
                .catch(&ctx)
                .map_err(|e| Failure::error(e.to_string()))
        });
        let (bindings, plain) = match made {
            Ok(made) => made,
            Err(failure) => {
                scripts.end_invocation(&context);
                return Err(failure);
            }
        };
        scripts.plains.borrow_mut().insert(plain.clone());
        Ok(Self {
            bindings,
            plain,
            is_shared: false,
            names_own: true,
            context,
        })
    }

    /// The shared realm, for a node whose code names what each node has for itself or not.
    pub(super) fn shared(
        scripts: &Rc<Scripts>,
        names_own: bool,
        about: impl for<'js> FnOnce(&Ctx<'js>) -> Result<JsObject<'js>>,
    ) -> std::result::Result<Self, Failure> {
        let shared = scripts.shared_realm()?;
        let context = shared.context.clone();
        scripts.clock.start(scripts.default_limit);
        let bindings = if names_own {
            context.with(|ctx| {
                let bind = || -> Result<_> {
                    let bind = scripts.library()?.function(&ctx, "bindingsOf")?;
                    let bindings: JsObject<'_> = bind.call((about(&ctx)?,))?;
                    Ok(Persistent::save(&ctx, bindings))
                };
                bind()
                    .catch(&ctx)
                    .map_err(|e| Failure::error(e.to_string()))
            })?
        } else {
            shared.bindings.clone()
        };
        Ok(Self {
            bindings,
            plain: shared.plain.clone(),
            is_shared: true,
            names_own,
            context,
        })
    }

    /// The prototype of plain objects.
    pub(super) fn plain(&self) -> Persistent<JsObject<'static>> {
        self.plain.clone()
    }

    /// Calls a function of the bindings.
    pub(super) fn call<'js, A: IntoArgs<'js>, R: FromJs<'js>>(
        &self,
        ctx: &Ctx<'js>,
        name: &str,
        args: A,
    ) -> Result<R> {
        let bindings = self.bindings.clone().restore(ctx)?;
        let function: Function<'js> = bindings.get(name)?;
        let mut all = Args::new(ctx.clone(), args.num_args());
        all.this(bindings)?;
        args.into_args(&mut all)?;
        function.call_arg(all)
    }

    /// The function of the node's program: its own, of code that nodes of this realm compile once.
    pub(super) fn function<'js>(&self, ctx: &Ctx<'js>, program: &Program) -> Result<Function<'js>> {
        let expression = || source::as_function(&program.text);
        if !self.is_shared {
            return compile::function(ctx, &expression());
        }
        if let Some(code) = program.shared.get() {
            return self.furnish(ctx, code);
        }
        let code = SharedCode::compile(ctx, &expression())?;
        self.furnish(ctx, program.shared.get_or_init(|| code))
    }

    /// Makes a function of another piece of the node's code, which is this expression.
    pub(super) fn compile<'js>(&self, ctx: &Ctx<'js>, expression: &str) -> Result<Function<'js>> {
        if self.is_shared {
            self.furnish(ctx, &SharedCode::compile(ctx, expression)?)
        } else {
            compile::function(ctx, expression)
        }
    }

    /// Gives code what the node has for itself.
    fn furnish<'js>(&self, ctx: &Ctx<'js>, code: &SharedCode) -> Result<Function<'js>> {
        let function = code.function.clone().restore(ctx)?;
        if code.names.is_empty() {
            return Ok(function);
        }
        let mut values = Args::new(ctx.clone(), code.names.len());
        for name in &code.names {
            values.push_arg(self.call::<_, JsValue<'js>>(ctx, "offer", (*name,))?)?;
        }
        function.call_arg(values)
    }

    /// The node has closed.
    pub(super) fn leave(&self, scripts: &Scripts) {
        if !self.is_shared {
            scripts.plains.borrow_mut().remove(&self.plain);
        }
    }
}

impl SharedCode {
    /// Compiles a function, which is this expression.
    fn compile(ctx: &Ctx<'_>, expression: &str) -> Result<Self> {
        let names = Sharing::own_names(expression);
        let function = if names.is_empty() {
            compile::function(ctx, expression)?
        } else {
            let around = format!(
                "(function ({}) {{ return {expression} }})",
                names.join(", ")
            );
            compile::function(ctx, &around)?
        };
        Ok(Self {
            names,
            function: Persistent::save(ctx, function),
        })
    }
}

impl SharedRealm {
    /// Makes the realm and freezes it; the library must be loaded.
    pub(super) fn new(scripts: &Scripts) -> std::result::Result<Self, Failure> {
        let context = scripts.realm(true)?;
        let (bindings, plain) = context.with(|ctx| {
            let make = || -> Result<_> {
                let library = scripts.library()?;
                let inside = library.inside.clone().restore(&ctx)?;
                for (name, source) in [SHARE, FREEZE] {
                    let file: Function<'_> = ctx.eval_with_options(source, options(name))?;
                    let () = file.call((inside.clone(), JsObject::new(ctx.clone())?))?;
                }
                let bind = library.function(&ctx, "bindingsOf")?;
                let bindings: JsObject<'_> = bind.call((JsObject::new(ctx.clone())?,))?;
                Ok((Persistent::save(&ctx, bindings), plain(&ctx)?))
            };
            make()
                .catch(&ctx)
                .map_err(|e| Failure::error(e.to_string()))
        })?;
        scripts.plains.borrow_mut().insert(plain.clone());
        Ok(Self {
            bindings,
            plain,
            context,
        })
    }
}

/// The prototype of plain objects in this realm.
fn plain(ctx: &Ctx<'_>) -> Result<Persistent<JsObject<'static>>> {
    let object: JsObject<'_> = ctx.globals().get("Object")?;
    let plain: JsObject<'_> = object.get("prototype")?;
    Ok(Persistent::save(ctx, plain))
}
