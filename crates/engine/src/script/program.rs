//! What function nodes of the same code have together, as instances of a subflow do: its text, what
//! it uses, and the code compiled for the realm that nodes share.

use super::source::{self, Uses};
use rquickjs::{Function, Persistent};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};

/// The code that nodes run for every message.
pub(super) struct Program {
    /// Its source.
    pub(super) text: SmolStr,
    pub(super) uses: Uses,
    /// In the realm that nodes share; empty until one of them runs.
    pub(super) shared: OnceCell<SharedCode>,
}

/// Code in the realm that nodes share.
pub(super) struct SharedCode {
    /// What each node has for itself and the code names: `function` takes it and answers that of
    /// the node. None: it is that function.
    pub(super) names: Vec<&'static str>,
    pub(super) function: Persistent<Function<'static>>,
}

/// The programs of an engine thread's nodes, by the SHA-256 of their text.
#[derive(Default)]
pub(super) struct Programs(RefCell<FxHashMap<[u8; 32], Weak<Program>>>);

impl Programs {
    /// The program of this text.
    pub(super) fn of(&self, text: &SmolStr) -> Rc<Program> {
        let key = crypto::sha256(text.as_bytes());
        let mut programs = self.0.borrow_mut();
        if let Some(known) = programs.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let program = Rc::new(Program {
            text: text.clone(),
            uses: source::uses(text),
            shared: OnceCell::new(),
        });
        if programs.len() == programs.capacity() {
            programs.retain(|_, program| program.strong_count() > 0);
        }
        programs.insert(key, Rc::downgrade(&program));
        program
    }
}
