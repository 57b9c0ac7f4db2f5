//! Regular expressions in `QuickJS`, for searches that may take long: it counts steps and can be stopped.
//!
//! Each thread has a runtime of its own for them, made when first needed. Nothing but the functions below runs in it.

use crate::engine::value::Failure;
use rquickjs::function::IntoArgs;
use rquickjs::{CatchResultExt, Context, FromJs, Function, Runtime, context::intrinsic};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// `QuickJS` asks whether to go on after so many steps (`INTERRUPT_COUNTER_INIT` in `libregexp.c`).
const STEPS_PER_QUESTION: u64 = 10_000;
/// A search ends after this time too: steps within groups that are counted (`(){100000}`) take longer the more came before.
/// Ten times what the most steps take, so that the steps decide and the same message has the same result everywhere.
const LONGEST: Duration = Duration::from_secs(2);
/// Bytes for one search besides its texts, and for the compiled expressions. V8 gives its backtracking stack as much.
const MEMORY: usize = 64 << 20;
/// Bytes of a text and of what becomes of it, for each byte given.
const TEXT: usize = 8;

/// The functions. Compiled expressions are kept, so that one in use is not compiled for every text.
const LIBRARY: &str = r"
    const kept = new Map();
    const compiled = (source, flags) => {
        const name = flags + '/' + source;
        let regexp = kept.get(name);
        if (regexp === undefined) {
            regexp = new RegExp(source, flags);
            if (kept.size >= 64) kept.clear();
            kept.set(name, regexp);
        }
        regexp.lastIndex = 0;
        return regexp;
    };
    globalThis.test = (source, flags, text) => compiled(source, flags).test(text);
    globalThis.replace = (source, flags, text, replacement) => {
        const regexp = compiled(source, flags);
        if (text.search(regexp) < 0) return null;
        return text.replace(regexp, replacement).toWellFormed();
    };
    globalThis.exec = (source, flags, text) => {
        const found = compiled(source, flags).exec(text);
        return found && found.slice(1).map(group => group?.toWellFormed());
    };
";

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// What the functions need of JavaScript.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::MapSet,
);

/// The runtime of a thread.
struct Machine {
    // Dropped before the runtime that it belongs to.
    realm: Context,
    runtime: Runtime,
    /// How often `QuickJS` may still ask.
    questions: Rc<Cell<u64>>,
    /// When the search at hand has taken too long.
    until: Rc<Cell<Instant>>,
}

impl Machine {
    fn new() -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        let questions = Rc::new(Cell::new(u64::MAX));
        let until = Rc::new(Cell::new(Instant::now()));
        let (asked, end) = (Rc::clone(&questions), Rc::clone(&until));
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let late = Instant::now() >= end.get();
            asked.set(if late {
                0
            } else {
                asked.get().saturating_sub(1)
            });
            asked.get() == 0
        })));
        let realm = Context::custom::<Intrinsics>(&runtime)?;
        until.set(Instant::now() + LONGEST);
        realm.with(|ctx| ctx.eval::<(), _>(LIBRARY))?;
        Ok(Self {
            realm,
            runtime,
            questions,
            until,
        })
    }

    fn call<R>(
        &self,
        function: &str,
        length: usize,
        args: impl for<'js> IntoArgs<'js>,
    ) -> Result<R, String>
    where
        R: for<'js> FromJs<'js>,
    {
        let memory = length.saturating_mul(TEXT).saturating_add(MEMORY);
        self.runtime.set_memory_limit(memory);
        self.realm.with(|ctx| {
            let function: Function<'_> = ctx.globals().get(function).map_err(|e| e.to_string())?;
            function.call(args).catch(&ctx).map_err(|e| e.to_string())
        })
    }
}

/// An expression and its flags.
#[derive(Debug, Clone, Copy)]
pub struct Source<'s> {
    /// What stands between the slashes.
    pub text: &'s str,
    /// What stands behind them.
    pub flags: &'s str,
    /// Steps that a search may take.
    pub steps: u64,
}

impl Source<'_> {
    /// Whether it matches anywhere in the text.
    pub fn test(self, text: &str) -> Result<bool, Failure> {
        self.call("test", text.len(), (self.text, self.flags, text))
    }

    /// `text.replace(regex, replacement)`; `None` if nothing matches.
    pub fn replace(self, text: &str, replacement: &str) -> Result<Option<String>, Failure> {
        let args = (self.text, self.flags, text, replacement);
        // Every character may be replaced.
        self.call(
            "replace",
            text.len().saturating_mul(1 + replacement.len()),
            args,
        )
    }

    /// The groups of the first match.
    pub fn exec(self, text: &str) -> Result<Option<Vec<Option<String>>>, Failure> {
        self.call("exec", text.len(), (self.text, self.flags, text))
    }

    fn call<R>(
        self,
        function: &str,
        length: usize,
        args: impl for<'js> IntoArgs<'js>,
    ) -> Result<R, Failure>
    where
        R: for<'js> FromJs<'js>,
    {
        let failed = |reason: &str| {
            Failure::error(format!(
                "Regular expression /{}/{} was stopped: {reason}",
                self.text, self.flags
            ))
        };
        MACHINE.with_borrow_mut(|machine| {
            let machine = match machine {
                Some(machine) => machine,
                None => machine.insert(Machine::new().map_err(|e| failed(&e.to_string()))?),
            };
            machine.questions.set(1 + self.steps / STEPS_PER_QUESTION);
            machine.until.set(Instant::now() + LONGEST);
            machine.call(function, length, args).map_err(|reason| {
                if machine.questions.get() == 0 {
                    failed(&format!(
                        "more than {} steps, or {} s",
                        self.steps,
                        LONGEST.as_secs()
                    ))
                } else {
                    failed(reason.lines().next().unwrap_or_default())
                }
            })
        })
    }
}
