//! The names of properties, known to both sides: `QuickJS`'s atom and our string for the same name.
//!
//! Making an atom from text, or text from an atom, costs more than everything else that is done
//! with a small property; messages use the same few names over and over.

use rquickjs::{Atom, Ctx, Persistent, Result};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::cell::RefCell;

/// So many names are remembered; then all are forgotten, so that names that are data cannot fill
/// memory.
const REMEMBERED: usize = 2048;
/// Longer names are data rather than names.
const MAX_LENGTH: usize = 40;

type Kept = Persistent<Atom<'static>>;

/// The names seen so far.
#[derive(Default)]
pub(super) struct Names {
    atoms: RefCell<FxHashMap<SmolStr, Kept>>,
    texts: RefCell<FxHashMap<Kept, SmolStr>>,
}

impl Names {
    /// The atom for a name.
    pub(super) fn atom<'js>(&self, ctx: &Ctx<'js>, name: &SmolStr) -> Result<Atom<'js>> {
        if let Some(atom) = self.atoms.borrow().get(name) {
            return atom.clone().restore(ctx);
        }
        let atom = Atom::from_str(ctx.clone(), name)?;
        if name.len() <= MAX_LENGTH {
            let mut atoms = self.atoms.borrow_mut();
            if atoms.len() >= REMEMBERED {
                atoms.clear();
            }
            atoms.insert(name.clone(), Persistent::save(ctx, atom.clone()));
        }
        Ok(atom)
    }

    /// The name of an atom, and the atom back.
    pub(super) fn text<'js>(
        &self,
        ctx: &Ctx<'js>,
        atom: Atom<'js>,
    ) -> Result<(SmolStr, Atom<'js>)> {
        let kept = Persistent::save(ctx, atom);
        if let Some(text) = self.texts.borrow().get(&kept) {
            return Ok((text.clone(), kept.restore(ctx)?));
        }
        let text = super::from_js::text(ctx, &kept.clone().restore(ctx)?.to_js_string()?)?;
        if text.len() <= MAX_LENGTH {
            let mut texts = self.texts.borrow_mut();
            if texts.len() >= REMEMBERED {
                texts.clear();
            }
            texts.insert(kept.clone(), text.clone());
        }
        Ok((text, kept.restore(ctx)?))
    }
}
