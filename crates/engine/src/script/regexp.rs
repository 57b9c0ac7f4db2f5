//! Regular expressions in `QuickJS`, for searches that may take long: it counts steps and can be
//! stopped.
//!
//! Each thread has a runtime of its own for them, made when first needed. Nothing but the functions
//! below runs in it.

use rquickjs::function::IntoArgs;
use rquickjs::{CatchResultExt, Context, FromJs, Function, Runtime, context::intrinsic};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use value::Failure;
use value::regex::{BoundedSearch, RegExp, Source};

/// The number of steps between two interrupt checks of `QuickJS` (`INTERRUPT_COUNTER_INIT` in
/// `libregexp.c`).
const STEPS_PER_QUESTION: u64 = 10_000;
/// A search ends after this time too: steps within groups that are counted (`(){100000}`) take
/// longer the more came before. Six times what the steps for a megabyte take, so that the steps
/// decide and the same message has the same result everywhere.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes for one search besides its texts, and for the compiled expressions. V8 gives its
/// backtracking stack as much.
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

/// The JavaScript features that the functions need.
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
    /// The number of interrupt checks that `QuickJS` has left.
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
        until.set(Instant::now() + SEARCH_TIMEOUT);
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

/// Searches in `QuickJS`.
#[derive(Debug)]
struct QuickJs;

/// Compiles an expression whose searches run in `QuickJS` where they may take long.
pub fn compile(source: &str, flags: &str) -> Result<RegExp, Failure> {
    RegExp::compile(source, flags, &QuickJs)
}

/// `QuickJS` for expressions that others compile.
pub const SEARCH: &dyn BoundedSearch = &QuickJs;

impl BoundedSearch for QuickJs {
    fn test(&self, source: Source<'_>, text: &str) -> Result<bool, Failure> {
        call(
            source,
            "test",
            text.len(),
            (source.text, source.flags, text),
        )
    }

    fn replace(
        &self,
        source: Source<'_>,
        text: &str,
        replacement: &str,
    ) -> Result<Option<String>, Failure> {
        let args = (source.text, source.flags, text, replacement);
        // Every character may be replaced.
        let length = text.len().saturating_mul(1 + replacement.len());
        call(source, "replace", length, args)
    }

    fn groups(
        &self,
        source: Source<'_>,
        text: &str,
    ) -> Result<Option<Vec<Option<String>>>, Failure> {
        call(
            source,
            "exec",
            text.len(),
            (source.text, source.flags, text),
        )
    }
}

fn call<R>(
    source: Source<'_>,
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
            source.text, source.flags
        ))
    };
    MACHINE.with_borrow_mut(|machine| {
        let machine = match machine {
            Some(machine) => machine,
            None => machine.insert(Machine::new().map_err(|e| failed(&e.to_string()))?),
        };
        machine.questions.set(1 + source.steps / STEPS_PER_QUESTION);
        machine.until.set(Instant::now() + SEARCH_TIMEOUT);
        machine.call(function, length, args).map_err(|reason| {
            if machine.questions.get() == 0 {
                failed(&format!(
                    "more than {} steps, or {} s",
                    source.steps,
                    SEARCH_TIMEOUT.as_secs()
                ))
            } else {
                failed(reason.lines().next().unwrap_or_default())
            }
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use smol_str::SmolStr;
    use value::regex::NoSearch;

    /// The expression and the text of the attack, and their relatives.
    #[test]
    fn a_search_of_too_many_steps_is_stopped() {
        let text = format!("{}!", "a".repeat(40));
        for source in [
            "^(a+)+$",
            "(a|a)*$",
            "(.*a){20}b",
            "^(([a-z])+.)+[A-Z]$",
            "(?=(a+)+!b)",
        ] {
            let failure = compile(source, "").unwrap().test(&text).unwrap_err();
            assert!(
                failure.message.contains("was stopped: more than"),
                "{failure}"
            );
            assert!(failure.message.contains(source), "{failure}");
        }
        let failure = compile("(a+)+$", "g")
            .unwrap()
            .replace(&text, "x")
            .unwrap_err();
        assert!(failure.message.contains("was stopped"), "{failure}");
        let failure = compile("^(a+)+$", "").unwrap().groups(&text).unwrap_err();
        assert!(failure.message.contains("was stopped"), "{failure}");
    }

    /// 30 characters are enough for 2³⁰ steps.
    #[test]
    fn a_search_in_a_short_text_is_stopped_after_two_million_steps() {
        let text = format!("{}!", "a".repeat(29));
        let failure = compile("^(a+)+$", "").unwrap().test(&text).unwrap_err();
        assert!(
            failure.message.contains("more than 2000600 steps"),
            "{failure}"
        );
    }

    /// Each of the searches takes less than 10,000 steps, after which `QuickJS` checks for the
    /// first time.
    #[test]
    fn many_searches_of_few_steps_count_together() {
        let text = "a".repeat(1 << 16);
        let failure = compile("(?=(?:a|a){12}b|)c?", "g")
            .unwrap()
            .replace(&text, "x")
            .unwrap_err();
        assert!(
            failure.message.contains("was stopped: more than"),
            "{failure}"
        );
    }

    /// Expressions as flows have them, each tried at every place of a long text.
    #[test]
    fn common_expressions_search_a_megabyte_within_the_limit() {
        let line = "2026-11-23T04:16:15.123Z WARN  pump-17 (10.0.3.4:1883) said \"no \\\" answer\", \
                    temperature = 21.5 <b>x</b> https://example.org/a?b=c\r\n";
        let text = line.repeat((1 << 20) / line.len() + 1);
        for (source, flags) in [
            ("ERROR.*timeout", ""),
            (r"\bpump-(\d+)\b.*\bfailed\b", ""),
            (r"[\w.+-]+@[\w-]+\.\w+", ""),
            (r#""(?:[^"\\]|\\.)*":"#, ""),
            (r"^\s*(\w+)\s*=\s*(.*?)\s*$", "m"),
            (r"<(\w+)[^>]*>.*?</\1>!", "i"),
            (r"(\d{1,3}\.){3}\d{1,3}/\d+", ""),
            (r"https?://\S+\.png", "i"),
            (r"(\d+)-(\d+)-(\d+)T(\d+):(\d+) ", ""),
            (r"(?<=temperature\s*=\s*)-\d+(\.\d+)?", ""),
            (r"\s+FATAL", ""),
        ] {
            let found = compile(source, flags).unwrap().test(&text);
            assert!(!found.unwrap(), "{source}");
        }
        for (source, replacement) in [(r"\r?\n|\r", ";"), (r#""((?:[^"\\]|\\.)*)""#, "'$1'")] {
            let replaced = compile(source, "g").unwrap().replace(&text, replacement);
            assert!(replaced.unwrap().is_some(), "{source}");
        }
    }

    /// Each step within counted groups takes longer than the one before: the steps alone would take
    /// hours.
    #[test]
    fn a_search_of_few_slow_steps_is_stopped() {
        let began = std::time::Instant::now();
        let regex = compile("(a{100}){100$}|(){10000800}", "").unwrap();
        let failure = regex.test("aa").unwrap_err();
        assert!(
            failure.message.contains("was stopped: more than"),
            "{failure}"
        );
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }

    /// Long texts make simple expressions expensive too.
    #[test]
    fn a_long_text_is_searched_within_the_limit() {
        let text = "a".repeat(1 << 20);
        let failure = compile("a*b", "").unwrap().test(&text).unwrap_err();
        assert!(failure.message.contains("was stopped"), "{failure}");
        assert!(compile("^a*$", "").unwrap().test(&text).unwrap());
        assert!(
            compile("(a|b)*", "")
                .unwrap()
                .test(&text[..1 << 16])
                .unwrap()
        );
    }

    #[test]
    fn large_repetition_counts_need_little_memory_and_time() {
        for source in [
            "(a{1000}){1000}",
            "((a{99}){99}){99}",
            "(?:){1000000000}",
            "(?:a?){0,1000000000}b",
            "a{1000000000}",
        ] {
            let regex = compile(source, "").unwrap();
            let _ = regex.test("aaaa");
        }
    }

    /// The two engines agree where either may be used. (`\w` with the flag `i` takes in `ſ` in
    /// regress, which it should not.)
    #[test]
    fn a_search_has_the_same_result_in_both_engines() {
        let texts = ["", "abc", "a\nb", "ABC-12", "é😀x", "aaa", "\u{2028}z", "K"];
        let sources = [
            "",
            "^b",
            "b$",
            "[^a]",
            "(a)|(b)",
            "a{2}",
            "\\w+",
            "\\bx",
            "(?<n>a)(?:b)?",
            ".",
            "\\s",
            "(?<=a)b",
            "a*?b",
            "k",
        ];
        for source in sources {
            for flags in ["", "g", "i", "gim", "gs", "giu"] {
                let regex = RegExp::compile(source, flags, &NoSearch).unwrap();
                let source = Source {
                    text: source,
                    flags,
                    steps: 20_000_000,
                };
                for text in texts {
                    // Without `u`, a character beyond U+FFFF is two to JavaScript, and one to
                    // regress.
                    if text.contains('😀') && !flags.contains('u') {
                        continue;
                    }
                    let at = format!("{source:?} in {text:?}");
                    assert_eq!(
                        regex.test(text).unwrap(),
                        QuickJs.test(source, text).unwrap(),
                        "{at}"
                    );
                    assert_eq!(
                        regex.replace(text, "[$&$1]").unwrap(),
                        QuickJs.replace(source, text, "[$&$1]").unwrap(),
                        "{at}"
                    );
                    let groups = QuickJs.groups(source, text).unwrap().map(|groups| {
                        groups
                            .into_iter()
                            .map(|g| g.map(SmolStr::from))
                            .collect::<Vec<_>>()
                    });
                    assert_eq!(regex.groups(text).unwrap(), groups, "{at}");
                }
            }
        }
    }
}
