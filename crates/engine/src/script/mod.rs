//! JavaScript of function nodes: `QuickJS`, and what Node-RED's sandbox offers
//! (docs/reference/node-red-engine.md §4.3).
//!
//! [`Scripts`] is one engine thread's JavaScript: a runtime with a memory limit and a clock, and a
//! realm that holds the library (`Buffer`, `URL`, `util`, `RED` …), evaluated once and frozen. Each
//! function node has a [`Sandbox`]: its code runs in a realm with a global object of its own, into
//! which the library is put, or in one that is frozen and that nodes share; see [`realm`]. A
//! sandbox has no access to [`super::node::Host`]: the code's actions come out as [`Effect`]s,
//! which the node carries out.
//!
//! Modules that a node asks for live in its own realm; see [`modules`].
//!
//! The way of a message: `to_js` → the function → `from_js` → `outputs` → effects.

mod arrival;
mod atoms;
mod bindings;
mod compile;
mod contexts;
mod effect;
mod encodings;
mod failure;
mod from_js;
mod given;
mod jsonata;
mod locales;
mod message_use;
pub(crate) mod modules;
mod node_state;
mod outputs;
mod paths;
mod program;
mod realm;
pub mod regexp;
mod rejections;
mod sandbox;
mod scopes;
mod script_memory;
mod script_message;
mod sharing;
mod source;
mod stored_object;
mod syntax;
#[cfg(test)]
mod tests;
mod timezone;
mod to_js;
mod tokens;
mod url;
mod v8_messages;

pub use crate::node_context::NodeContext;
pub use effect::Effect;
pub use modules::Import;
pub(crate) use modules::is_builtin_of_node;
pub use sandbox::{Code, Sandbox};
pub use script_message::ScriptMessage;

use crate::settings::Settings;
use atoms::Names;
use node_state::State;
use program::Programs;
use realm::SharedRealm;
use rejections::Rejections;
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::function::This;
use rquickjs::{CatchResultExt, Context, Ctx, Function, Object, Persistent, Runtime};
use rustc_hash::FxHashSet;
use script_memory::ScriptMemory;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};
use syntax::SyntaxError;
use value::{Failure, Handle};

/// The JavaScript features that every realm has: no `DOMException`, `atob`, `performance`, as in
/// Node-RED's sandbox.
type Common = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::Promise,
    intrinsic::WeakRef,
);

/// Features that take a third of a realm's memory: a realm has them if its code mentions one, see
/// [`source::uses`].
type Collections = (intrinsic::MapSet, intrinsic::TypedArrays);

/// The library's files, in the order in which they build on one another.
const LIBRARY: [(&str, &str); 13] = [
    ("types.js", include_str!("lib/types.js")),
    ("buffer.js", include_str!("lib/buffer.js")),
    ("buffer_numbers.js", include_str!("lib/buffer_numbers.js")),
    ("inspect.js", include_str!("lib/inspect.js")),
    ("util.js", include_str!("lib/util.js")),
    ("url.js", include_str!("lib/url.js")),
    (
        "url_search_params.js",
        include_str!("lib/url_search_params.js"),
    ),
    ("contexts.js", include_str!("lib/contexts.js")),
    ("red_util.js", include_str!("lib/red_util.js")),
    ("locale.js", include_str!("lib/locale.js")),
    ("dates.js", include_str!("lib/dates.js")),
    ("sandbox.js", include_str!("lib/sandbox.js")),
    FREEZE,
];

/// Prepares the realm that nodes share.
const SHARE: (&str, &str) = ("share.js", include_str!("lib/share.js"));
/// Freezes the realm in which it runs, and the library.
const FREEZE: (&str, &str) = ("freeze.js", include_str!("lib/freeze.js"));

/// JavaScript's own stack; the engine thread's is larger than this and what we add to it.
const STACK: usize = 512 * 1024;
/// The maximum number of checked sources that are remembered, so that they are not parsed again.
const CHECKED: usize = 4096;

/// The JavaScript of one engine thread.
pub struct Scripts {
    // Fields are dropped in this order: those that refer to the runtime go before it.
    names: Names,
    /// The prototypes of plain objects in the realms of all nodes: functions share objects through
    /// the context stores.
    plains: RefCell<FxHashSet<Persistent<Object<'static>>>>,
    library: OnceCell<Library>,
    shared: OnceCell<SharedRealm>,
    checker: OnceCell<Checker>,
    rejections: Rc<Rejections>,
    runtime: Runtime,
    clock: Rc<Clock>,
    default_limit: Duration,
    memory_limit: usize,
    /// The bytes that all JavaScript of this thread takes now.
    bytes: Rc<Cell<usize>>,
    /// The bytes that messages may take that wait as JavaScript objects.
    room: usize,
    /// Each of those messages has a clone.
    waits: Rc<()>,
    /// The bytes of JavaScript when the first of them began to wait.
    bytes_before: Cell<usize>,
    /// The directory below which modules of npm are.
    modules: PathBuf,
    programs: Programs,
    /// What is known of sources, by their SHA-256: the texts are not kept.
    checked: RefCell<HashMap<[u8; 32], Result<Body, SyntaxError>>>,
    /// The node whose code runs.
    current: RefCell<Option<Rc<State>>>,
    /// Receives the handle of an opaque JavaScript object when that object is opened.
    taken: Rc<RefCell<Option<Handle>>>,
}

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// The body of a function.
    Whole,
    /// Text that ends the function, and has more behind it.
    Broken,
}

/// The realm in which sources are checked.
struct Checker {
    /// Answers the text of a function.
    to_text: Persistent<Function<'static>>,
    realm: Context,
}

/// The realm in which the library lives, and what of it is for us.
struct Library {
    inside: Persistent<Object<'static>>,
    realm: Context,
}

/// The time limit of the running code. The clock is read only when `QuickJS` checks for interrupts,
/// so that short runs cost nothing: the first check (after some 10,000 steps) starts it.
#[derive(Default)]
struct Clock {
    limit: Cell<Duration>,
    started: Cell<Option<Instant>>,
    expired: Cell<bool>,
}

impl Clock {
    fn start(&self, limit: Duration) {
        self.limit.set(limit);
        self.started.set(None);
        self.expired.set(false);
    }

    fn is_expired(&self) -> bool {
        let now = Instant::now();
        match self.started.get() {
            None => self.started.set(Some(now)),
            Some(started) if now - started >= self.limit.get() => self.expired.set(true),
            Some(_) => {}
        }
        self.expired.get()
    }
}

impl Scripts {
    /// The JavaScript of an engine thread, with the operator's limits. Nothing is evaluated yet.
    pub fn new(config: &Settings) -> Result<Rc<Self>, Failure> {
        let memory = ScriptMemory::default();
        let bytes = memory.bytes();
        let runtime = Runtime::new_with_alloc(memory).map_err(|e| Failure::error(e.to_string()))?;
        runtime.set_memory_limit(config.script_memory);
        runtime.set_max_stack_size(STACK);
        let clock = Rc::new(Clock::default());
        let interrupt_clock = Rc::clone(&clock);
        runtime.set_interrupt_handler(Some(Box::new(move || interrupt_clock.is_expired())));
        Ok(Rc::new(Self {
            names: Names::default(),
            library: OnceCell::new(),
            shared: OnceCell::new(),
            checker: OnceCell::new(),
            rejections: Rejections::of(&runtime),
            runtime,
            clock,
            default_limit: config.script_timeout,
            memory_limit: config.script_memory,
            bytes,
            room: config.queue_bytes,
            waits: Rc::default(),
            bytes_before: Cell::default(),
            modules: config.modules.clone(),
            programs: Programs::default(),
            checked: RefCell::default(),
            current: RefCell::default(),
            plains: RefCell::default(),
            taken: Rc::default(),
        }))
    }

    /// Checks that the source is the body of a function, without running any of it; the error
    /// contains the line.
    fn check(&self, source: &str) -> Result<Body, SyntaxError> {
        let key = crypto::sha256(source.as_bytes());
        if let Some(known) = self.checked.borrow().get(&key) {
            return known.clone();
        }
        let result = self.parse(source);
        let mut checked = self.checked.borrow_mut();
        if checked.len() >= CHECKED {
            checked.clear();
        }
        checked.insert(key, result.clone());
        result
    }

    /// Bytes that all JavaScript of this thread takes now.
    pub fn memory(&self) -> usize {
        self.bytes.get()
    }

    /// Returns whether one more message may wait as a JavaScript object. Nothing counts them one by
    /// one: together they take no more than the queue of a flow may, and leave half of the memory
    /// to the code that runs.
    fn has_room(&self) -> bool {
        let bytes = self.bytes.get();
        if Rc::strong_count(&self.waits) == 1 {
            self.bytes_before.set(bytes);
        }
        bytes <= self.bytes_before.get() + self.room && bytes <= self.memory_limit / 2
    }

    /// Parses by making the function in an empty realm: text that ends the function early runs
    /// there, with nothing to reach and the clock ticking.
    fn parse(&self, source: &str) -> Result<Body, SyntaxError> {
        let checker = if let Some(checker) = self.checker.get() {
            checker
        } else {
            let made = self.checker().map_err(|e| SyntaxError::new(e, "", 1, 1))?;
            self.checker.get_or_init(|| made)
        };
        self.clock.start(self.default_limit);
        let whole = source::as_function(source);
        let parsed = checker.realm.with(|ctx| {
            let made: rquickjs::Result<rquickjs::Value<'_>> =
                ctx.eval_with_options(whole.as_str(), options(""));
            let Ok(made) = made else {
                return Err(failure::of_syntax(&ctx, &whole));
            };
            let to_text = checker.to_text.clone().restore(&ctx);
            let text = to_text.and_then(|to_text| to_text.call((This(made),)));
            let is_whole = text.is_ok_and(|text: String| format!("({text})") == whole);
            Ok(if is_whole { Body::Whole } else { Body::Broken })
        });
        self.end_invocation(&checker.realm);
        parsed
    }

    fn checker(&self) -> Result<Checker, Failure> {
        let realm = self.realm(false)?;
        let to_text = realm.with(|ctx| {
            let to_text: Function<'_> = ctx.eval("Function.prototype.toString")?;
            Ok(Persistent::save(&ctx, to_text))
        });
        let to_text = to_text.map_err(|e: rquickjs::Error| Failure::error(e.to_string()))?;
        Ok(Checker { to_text, realm })
    }

    /// The realm that nodes share. Must not be called from inside a realm.
    fn shared_realm(self: &Rc<Self>) -> Result<&SharedRealm, Failure> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared);
        }
        self.load()?;
        self.clock.start(Duration::MAX);
        let made = SharedRealm::new(self)?;
        Ok(self.shared.get_or_init(|| made))
    }

    /// Ends what an invocation has left pending, so that it does not run in that of another node.
    /// Must not be called from inside a realm.
    ///
    /// `QuickJS` cannot forget jobs, only run them; but they can be run without a node, time, stack
    /// or memory: callbacks do not begin, asynchronous functions end at the next `await`, loops at
    /// the next question to the clock, and nothing new can become pending.
    fn end_invocation(&self, realm: &Context) {
        self.current.replace(None);
        if self.runtime.is_job_pending() {
            self.clock.expired.set(true);
            self.runtime.set_memory_limit(1);
            self.runtime.set_max_stack_size(1);
            realm.with(|ctx| while ctx.execute_pending_job() {});
            self.runtime.set_memory_limit(self.memory_limit);
            self.runtime.set_max_stack_size(STACK);
        }
        self.rejections.take();
    }

    fn realm(&self, has_collections: bool) -> Result<Context, Failure> {
        let realm = if has_collections {
            Context::custom::<(Common, Collections)>(&self.runtime)
        } else {
            Context::custom::<Common>(&self.runtime)
        };
        realm.map_err(|e| Failure::error(e.to_string()))
    }

    /// Evaluates the library, once. Must not be called from inside a realm.
    fn load(self: &Rc<Self>) -> Result<&Library, Failure> {
        if let Some(library) = self.library.get() {
            return Ok(library);
        }
        let realm = self.realm(true)?;
        self.clock.start(Duration::MAX);
        let inside = realm.with(|ctx| -> Result<_, Failure> {
            let library = library(&ctx, &Rc::downgrade(self))
                .catch(&ctx)
                .map_err(|e| Failure::error(e.to_string()))?;
            Ok(Persistent::save(&ctx, library))
        })?;
        Ok(self.library.get_or_init(|| Library { inside, realm }))
    }

    /// Returns whether this is the prototype of plain objects in a node's realm.
    fn is_plain<'js>(&self, ctx: &Ctx<'js>, prototype: Object<'js>) -> bool {
        let prototype = Persistent::save(ctx, prototype);
        self.plains.borrow().contains(&prototype)
    }

    /// The library, after it was loaded.
    fn library(&self) -> rquickjs::Result<&Library> {
        self.library.get().ok_or(rquickjs::Error::Unknown)
    }
}

impl Drop for Scripts {
    /// `QuickJS` aborts the process if anything of a runtime is still referred to when it is freed,
    /// as after a panic in the midst of a call. An engine thread ends with the process, so the
    /// runtime is left to it.
    fn drop(&mut self) {
        std::mem::forget(self.runtime.clone());
    }
}

impl Library {
    fn function<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
        self.inside.clone().restore(ctx)?.get(name)
    }
}

/// Every file is a function of the library so far and of what Rust does for it.
fn library<'js>(ctx: &Ctx<'js>, scripts: &Weak<Scripts>) -> rquickjs::Result<Object<'js>> {
    let library = Object::new(ctx.clone())?;
    let native = Object::new(ctx.clone())?;
    encodings::define(&native)?;
    url::define(&native)?;
    jsonata::define(&native, scripts)?;
    bindings::define(&native, scripts)?;
    for (name, source) in LIBRARY {
        let file: Function<'js> = ctx.eval_with_options(source, options(name))?;
        let () = file.call((library.clone(), native.clone()))?;
    }
    Ok(library)
}

/// Sloppy, as Node-RED runs functions: undeclared variables become global ones.
fn options(file: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(file.to_owned());
    options
}
