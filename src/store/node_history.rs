//! The history of one element of the flow set: which deployments touched it, and what it was before
//! and after.

use super::database::Touch;
use super::disk::Disk;
use super::{Error, Revision, Store};

/// What one deployment did to an element.
#[derive(Debug)]
pub struct NodeChange {
    /// The deployment.
    pub revision: Revision,
    /// The flow that the element was on after it, or, if it was removed, before; empty: none.
    pub flow: String,
    /// The flow that it left, if it was moved.
    pub left: Option<String>,
    /// `added`, `removed`, `changed`, `moved` or `repositioned`.
    pub difference: String,
    /// True if its credentials differ.
    pub credentials: bool,
    /// The element before, as JSON; `None`: there was none, or the history does not reach back so
    /// far.
    pub before: Option<String>,
    /// The element after, as JSON; `None`: it was removed.
    pub after: Option<String>,
}

/// The changes to be listed.
#[derive(Debug, Clone)]
pub struct NodePage {
    /// The runtime.
    pub runtime: String,
    /// The id of the element.
    pub node: String,
    /// Only those older than this entry: a revision, or the number of an entry.
    pub before: Option<String>,
    /// The most entries.
    pub limit: usize,
}

impl Store {
    /// What deployments did to one element, newest first; `None`: the history has no entry
    /// `before`.
    pub async fn node_history(&self, page: NodePage) -> Result<Option<Vec<NodeChange>>, Error> {
        self.owner.ask(move |disk| disk.node_history(&page)).await
    }
}

impl Disk {
    pub(super) fn node_history(&self, page: &NodePage) -> Result<Option<Vec<NodeChange>>, Error> {
        let before = match &page.before {
            None => None,
            Some(before) => match self.number(&page.runtime, before)? {
                None => return Ok(None),
                number => number,
            },
        };
        let touches = self.database.touches(page, before)?;
        let unbroken = self.database.unbroken_since(&page.runtime)?;
        // The oldest first: what it leaves is what the next one finds, if the history has all
        // between.
        let mut changes = Vec::with_capacity(touches.len());
        let mut found: Option<(i64, Option<String>)> = None;
        for touch in touches.into_iter().rev() {
            let before = match found {
                _ if touch.difference == "added" => None,
                Some((number, after)) if number >= unbroken => after,
                _ => self.before(&touch, &page.node)?,
            };
            let after = match touch.difference.as_str() {
                "removed" => None,
                _ => self.database.element(touch.number, &page.node)?,
            };
            found = touch.deployed.then(|| (touch.number, after.clone()));
            changes.push(touch.change(before, after));
        }
        changes.reverse();
        Ok(Some(changes))
    }

    /// The element as it was before a deployment, if the history still has the flow set before
    /// that.
    fn before(&self, touch: &Touch, node: &str) -> Result<Option<String>, Error> {
        match self.database.parent(touch.number)? {
            Some(parent) => self.database.element(parent, node),
            None => Ok(None),
        }
    }
}

impl Touch {
    fn change(self, before: Option<String>, after: Option<String>) -> NodeChange {
        NodeChange {
            revision: self.revision,
            flow: self.flow,
            left: self.left,
            difference: self.difference,
            credentials: self.credentials,
            before,
            after,
        }
    }
}
