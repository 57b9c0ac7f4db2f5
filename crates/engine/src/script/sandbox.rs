//! One function node's JavaScript: its code, in a realm of its own or in that which nodes share.
//!
//! The realm is chosen, and the code compiled, with the first message, or at start if there is
//! setup code.

use super::arrival::Arrival;
use super::effect::Effect;
use super::modules::Import;
use super::node_state::{Phase, State};
use super::outputs::Outputs;
use super::realm::Realm;
use super::script_message::ScriptMessage;
use super::sharing::Sharing;
use super::source::NodeUse;
use super::{Body, Scripts, failure, modules, source, syntax, to_js};
use crate::node_context::NodeContext;
use rquickjs::{CatchResultExt, Ctx, Function, Object as JsObject, Persistent, Value as JsValue};
use smol_str::SmolStr;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use value::{Failure, Message, Object, Value};

/// The code of a function node.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// For every message.
    pub function: SmolStr,
    /// Before the first one.
    pub initialize: String,
    /// When the node closes.
    pub finalize: String,
    /// The modules that are loaded before any code runs.
    pub imports: Box<[Import]>,
    /// `node.outputCount`.
    pub outputs: usize,
    /// Longest synchronous run; `None`: the operator's default.
    pub limit: Option<Duration>,
}

/// The JavaScript of one function node.
pub struct Sandbox {
    // Fields are dropped in this order: the realm last but one, the runtime last.
    loaded: Option<Loaded>,
    state: Rc<State>,
    waiting: VecDeque<Message>,
    /// Without that for every message, which the state has.
    code: Code,
    limit: Duration,
    scripts: Rc<Scripts>,
}

/// The compiled code, and the realm in which it runs.
struct Loaded {
    function: Persistent<Function<'static>>,
    /// `node`, if it is the same for all messages.
    node: Option<Persistent<JsObject<'static>>>,
    realm: Realm,
}

impl Sandbox {
    /// A sandbox that has not run anything yet.
    pub fn new(scripts: Rc<Scripts>, mut code: Code, node: NodeContext) -> Self {
        let limit = code.limit.unwrap_or(scripts.default_limit);
        let program = scripts.programs.of(&std::mem::take(&mut code.function));
        let state = Rc::new(State::new(node, program));
        Self {
            loaded: None,
            state,
            waiting: VecDeque::new(),
            code,
            limit,
            scripts,
        }
    }

    /// The pieces of source: for messages, before the first one, and when the node closes.
    fn sources(&self) -> [&str; 3] {
        [
            &self.state.program.text,
            self.code.initialize.trim_start(),
            self.code.finalize.trim_start(),
        ]
    }

    /// Checks the code, loads its modules and runs the setup code. Messages that come before that
    /// has finished wait.
    pub fn start(&mut self) -> Vec<Effect> {
        let pieces = [syntax::BODY, syntax::SETUP, syntax::CLEANUP];
        for (source, piece) in self.sources().iter().zip(pieces) {
            if let Err(error) = self.scripts.check(source) {
                self.state.phase.set(Phase::Broken);
                return vec![Effect::Error(error.in_piece(piece), None)];
            }
        }
        let mut effects = self.import();
        if self.state.phase.get() == Phase::Ready && !self.code.initialize.trim().is_empty() {
            effects.extend(self.set_up());
        }
        effects
    }

    /// Loads the modules; if one of them fails, the node is broken.
    fn import(&mut self) -> Vec<Effect> {
        if self.code.imports.is_empty() {
            return Vec::new();
        }
        self.state.phase.set(Phase::Starting);
        self.invoke(None, |sandbox, ctx, _| {
            let failures = modules::load(&sandbox.scripts, ctx, &sandbox.code.imports)?;
            if failures.is_empty() {
                sandbox.state.phase.set(Phase::Ready);
            }
            for failure in failures {
                sandbox.state.phase.set(Phase::Broken);
                sandbox.state.push(Effect::Error(failure, None));
            }
            Ok(())
        })
    }

    fn set_up(&mut self) -> Vec<Effect> {
        self.state.phase.set(Phase::Starting);
        let setup = self.code.initialize.clone();
        self.invoke(None, |sandbox, ctx, loaded| {
            let realm = &loaded.realm;
            let result = run_once(ctx, realm, &setup)?;
            if result.is_promise() {
                return realm.call(ctx, "whenSetUp", (result,));
            }
            sandbox.state.phase.set(Phase::Ready);
            Ok(())
        })
    }

    /// Runs the function on a message.
    pub fn call(&mut self, message: Message) -> Vec<Effect> {
        match self.state.phase.get() {
            Phase::Starting => self.waiting.push_back(message),
            Phase::Broken => {}
            Phase::Ready => return self.run(&Arrival::Message(message)),
        }
        Vec::new()
    }

    /// Runs the function on a message of another function: on the object itself, if both run in the
    /// realm that nodes share.
    pub(crate) fn call_script(&mut self, message: ScriptMessage) -> Vec<Effect> {
        if self.state.phase.get() == Phase::Ready
            && self.open().is_ok()
            && self.state.shares_realm.get()
        {
            return self.run(&Arrival::Script(message));
        }
        match message.into_message() {
            Ok(message) => self.call(message),
            Err((failure, rest)) => vec![Effect::Error(failure, Some(rest))],
        }
    }

    /// Whether a complete node receives [`Effect::Done`]; without one the code's messages need not
    /// be converted for it. `feeds`: whether one node gets what the code returns, and takes it as
    /// it is.
    pub(crate) fn wire(&mut self, watched: bool, feeds: bool) {
        self.state.watched.set(watched);
        self.state.feeds.set(feeds && !watched);
    }

    /// A timer set with [`Effect::SetTimer`] is due.
    pub fn timer(&mut self, number: u32) -> Vec<Effect> {
        self.invoke(None, |_, ctx, loaded| {
            loaded.realm.call(ctx, "timerIsDue", (number,))
        })
    }

    /// Runs the close code and the `close` listeners; clears the status if the code ever showed
    /// one.
    pub fn close(&mut self) -> Vec<Effect> {
        self.waiting.clear();
        let mut effects = Vec::new();
        if self.loaded.is_some() || !self.code.finalize.trim().is_empty() {
            let finalize = self.code.finalize.clone();
            let broken = self.state.phase.get() == Phase::Broken;
            self.state.closing.set(true);
            effects = self.invoke(None, |_, ctx, loaded| {
                loaded.realm.call::<_, ()>(ctx, "close", ())?;
                if broken || finalize.trim().is_empty() {
                    return Ok(());
                }
                run_once(ctx, &loaded.realm, &finalize).map(drop)
            });
        }
        if self.state.shows_status.get() {
            effects.push(Effect::Status(Value::object(Object::default())));
        }
        self.unload();
        effects
    }

    fn run(&mut self, arrival: &Arrival) -> Vec<Effect> {
        self.invoke(Some(arrival), |sandbox, ctx, loaded| {
            let (scripts, state) = (&sandbox.scripts, &sandbox.state);
            let given = arrival.open(scripts, ctx, state.visible())?;
            let (msg, id) = (given.object.clone().restore(ctx)?, given.id.clone());
            state.given.replace(Some(given));
            let node = sandbox.node(ctx, loaded, &msg)?;
            let function = loaded.function.clone().restore(ctx)?;
            let result: rquickjs::Result<JsValue<'_>> = function.call((msg.clone(), node));
            let outputs = Outputs::new(scripts, state, ctx);
            let Ok(result) = result else {
                let failure = failure::pending(scripts, ctx);
                let changed = outputs.message(&msg);
                let changed = changed.unwrap_or_else(|_| arrival.rest().clone());
                let changed = failure::noted(&failure, changed);
                state.push(Effect::Error(failure, Some(changed)));
                return Ok(());
            };
            if result.is_promise() {
                if let Some(mut given) = state.given.take() {
                    given.show(scripts, ctx, None)?;
                }
                let id = to_js::value(scripts, ctx, &id)?;
                return loaded.realm.call(ctx, "whenDone", (result, msg, id));
            }
            outputs.finish(&result, &msg, &id)
        })
    }

    /// `node` for this message.
    fn node<'js>(
        &self,
        ctx: &Ctx<'js>,
        loaded: &Loaded,
        msg: &JsValue<'js>,
    ) -> rquickjs::Result<JsValue<'js>> {
        if let Some(shared) = &loaded.node {
            return Ok(shared.clone().restore(ctx)?.into_value());
        }
        if self.state.program.uses.node == NodeUse::None {
            return Ok(JsValue::new_undefined(ctx.clone()));
        }
        let id = to_js::value(&self.scripts, ctx, &self.state.given_id())?;
        loaded.realm.call(ctx, "nodeFor", (msg.clone(), id))
    }

    /// Enters the realm, runs it until nothing more is pending, and returns the effects that the
    /// code requests. A failure on the way is this node's error only.
    fn invoke<'a>(
        &mut self,
        arrival: Option<&'a Arrival>,
        run: impl for<'js> FnOnce(&Self, &Ctx<'js>, &Loaded) -> rquickjs::Result<()> + 'a,
    ) -> Vec<Effect> {
        if let Err(failure) = self.open() {
            let rest = arrival.map(|arrival| arrival.rest().clone());
            return vec![Effect::Error(failure, rest)];
        }
        let Some(loaded) = &self.loaded else {
            return Vec::new();
        };
        let context = &loaded.realm.context;
        self.scripts.clock.start(self.limit);
        self.scripts.current.replace(Some(Rc::clone(&self.state)));
        context.with(|ctx| {
            if run(self, &ctx, loaded).is_err() {
                let failure = failure::pending(&self.scripts, &ctx);
                self.failed(&ctx, failure, arrival);
            }
            if self.scripts.run_jobs(&ctx) && self.scripts.clock.expired.get() {
                self.failed(&ctx, failure::timed_out(self.limit), arrival);
            }
            self.report_rejections(&ctx);
            Outputs::new(&self.scripts, &self.state, &ctx).catch_up();
            self.state.given.take();
        });
        self.scripts.end_invocation(context);
        let mut effects = self.state.take();
        while self.state.phase.get() == Phase::Ready {
            let Some(message) = self.waiting.pop_front() else {
                break;
            };
            effects.extend(self.run(&Arrival::Message(message)));
        }
        effects
    }

    fn failed(&self, ctx: &Ctx<'_>, failure: Failure, arrival: Option<&Arrival>) {
        if self.state.phase.get() == Phase::Starting {
            self.state.phase.set(Phase::Broken);
        }
        let message = arrival.map(|arrival| arrival.message(&self.scripts, ctx));
        self.state.push(Effect::Error(failure, message));
    }

    /// Reports the unhandled rejections of this invocation as errors of the node, without a
    /// message.
    fn report_rejections(&self, ctx: &Ctx<'_>) {
        for reason in self.scripts.rejections.take() {
            if self.scripts.clock.expired.get() {
                return;
            }
            let Ok(reason) = reason.restore(ctx) else {
                continue;
            };
            let failure = failure::thrown_by_code(&self.scripts, ctx, &reason);
            self.state.push(Effect::Error(failure, None));
        }
    }

    /// Chooses the realm and compiles the function, if that was not done before.
    fn open(&mut self) -> Result<(), Failure> {
        if self.loaded.is_some() {
            return Ok(());
        }
        self.scripts.load()?;
        let realm = self.realm()?;
        self.state.plain.replace(Some(realm.plain()));
        self.state.shares_realm.set(realm.is_shared);
        self.scripts.clock.start(self.limit);
        let made = realm.context.with(|ctx| {
            let compiled = self.compile(&ctx, &realm);
            compiled
                .catch(&ctx)
                .map_err(|e| Failure::error(e.to_string()))
        });
        match made {
            Ok((function, node)) => {
                self.loaded = Some(Loaded {
                    function,
                    node,
                    realm,
                });
                Ok(())
            }
            Err(failure) => {
                self.scripts.end_invocation(&realm.context);
                realm.leave(&self.scripts);
                Err(failure)
            }
        }
    }

    fn realm(&self) -> Result<Realm, Failure> {
        let sources = self.sources();
        let is_body = |source: &&str| self.scripts.check(source).is_ok_and(|b| b == Body::Whole);
        let sharing = Sharing::of(&sources).filter(|_| self.code.imports.is_empty());
        if let Some(sharing) = sharing
            && sources.iter().all(is_body)
        {
            return Realm::shared(&self.scripts, sharing.names_own, |ctx| self.about(ctx));
        }
        let [_, initialize, finalize] = &sources;
        let has_collections = self.state.program.uses.collections
            || !self.code.imports.is_empty()
            || source::uses(initialize).collections
            || source::uses(finalize).collections;
        Realm::own(&self.scripts, has_collections, |ctx| self.about(ctx))
    }

    /// What `node` says of the node.
    fn about<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<JsObject<'js>> {
        let info = &self.state.node.info;
        let about = JsObject::new(ctx.clone())?;
        let text = |name: &'static str, text: &SmolStr| about.set(name, text.as_str());
        text("id", &info.id)?;
        about.set("name", info.name.as_deref())?;
        about.set("path", format!("{}/{}", info.container.path, info.alias()))?;
        text("z", &info.container.z)?;
        about.set("outputCount", self.code.outputs)?;
        Ok(about)
    }

    /// The function, and `node` if it is the same for all messages.
    fn compile(&self, ctx: &Ctx<'_>, realm: &Realm) -> rquickjs::Result<Compiled> {
        let function = realm.function(ctx, &self.state.program)?;
        let node = if self.state.program.uses.node == NodeUse::Shared {
            let shared: JsObject<'_> = realm.call(ctx, "sharedNode", ())?;
            Some(Persistent::save(ctx, shared))
        } else {
            None
        };
        Ok((Persistent::save(ctx, function), node))
    }

    fn unload(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            loaded.realm.leave(&self.scripts);
        }
    }
}

/// The function of a node, and its `node`.
type Compiled = (
    Persistent<Function<'static>>,
    Option<Persistent<JsObject<'static>>>,
);

/// Runs a piece of code that is no message's.
fn run_once<'js>(ctx: &Ctx<'js>, realm: &Realm, source: &str) -> rquickjs::Result<JsValue<'js>> {
    let function = realm.compile(ctx, &source::as_function(source))?;
    let nothing = JsValue::new_undefined(ctx.clone());
    let node: JsValue<'js> = if realm.names_own {
        realm.call(ctx, "nodeFor", (nothing.clone(),))?
    } else {
        nothing.clone()
    };
    function.call((nothing, node))
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.unload();
    }
}

impl Scripts {
    /// Runs pending JavaScript jobs, until the time limit; returns whether there were any.
    fn run_jobs(&self, ctx: &Ctx<'_>) -> bool {
        let mut had = false;
        while !self.clock.expired.get() && ctx.execute_pending_job() {
            had = true;
        }
        had
    }
}
