//! The tree of a document while it is parsed, with what the parser does to it taken from the budget
//! of the node.
//!
//! The parser compares every element that is opened with those around it, moves what does not
//! belong into a table before that table, and opens formatting elements again in every block: a
//! short text can take the square of its length, in time and in elements. It cannot be stopped
//! within a piece of text, so pieces are short, and depth and budget are looked at after each.

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, QualName};
use scraper::{Html, HtmlTreeSink};
use std::borrow::Cow;
use std::cell::Cell;
use value::budget;

/// The bytes of an element or another node, beside its texts, about.
const NODE: usize = 192;

/// The bytes of an attribute, beside its value, about.
const ATTRIBUTE: usize = 64;

type Handle = <HtmlTreeSink as TreeSink>::Handle;

/// The tree, and the node that was put into it last.
pub(super) struct Sink {
    tree: HtmlTreeSink,
    newest: Cell<Option<Handle>>,
}

impl Sink {
    pub(super) fn new(document: Html) -> Self {
        Self {
            tree: HtmlTreeSink::new(document),
            newest: Cell::new(None),
        }
    }

    /// Returns whether the newest node has more than so many others around it, wherever the parser
    /// has put it.
    pub(super) fn is_deeper_than(&self, depth: usize) -> bool {
        let document = self.tree.0.borrow();
        let newest = self.newest.get().and_then(|id| document.tree.get(id));
        newest.is_some_and(|node| node.ancestors().nth(depth).is_some())
    }

    /// Takes a step of the parser from the budget. Whether that is exceeded is looked at between
    /// pieces.
    fn step(&self) -> &HtmlTreeSink {
        let _ = budget::work(1);
        &self.tree
    }

    fn placed(&self, node: &NodeOrText<Handle>) -> &HtmlTreeSink {
        if let NodeOrText::AppendNode(id) = node {
            self.newest.set(Some(*id));
        }
        self.step()
    }
}

fn made(bytes: usize) {
    let _ = budget::made(bytes);
}

fn made_attributes(attributes: &[Attribute]) {
    let bytes = attributes.iter().map(|a| ATTRIBUTE + a.value.len());
    made(bytes.sum());
}

impl TreeSink for Sink {
    type Output = Html;
    type Handle = Handle;
    type ElemName<'a> = <HtmlTreeSink as TreeSink>::ElemName<'a>;

    fn finish(self) -> Html {
        self.tree.finish()
    }

    fn parse_error(&self, message: Cow<'static, str>) {
        self.tree.parse_error(message);
    }

    fn get_document(&self) -> Handle {
        self.tree.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> Self::ElemName<'a> {
        self.step().elem_name(target)
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> Handle {
        made(NODE);
        made_attributes(&attributes);
        self.tree.create_element(name, attributes, flags)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        made(NODE + text.len());
        self.tree.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        made(NODE + data.len());
        self.tree.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.placed(&child).append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        self.placed(&child)
            .append_based_on_parent_node(element, previous, child);
    }

    fn append_doctype_to_document(
        &self,
        name: StrTendril,
        public_id: StrTendril,
        system_id: StrTendril,
    ) {
        self.step()
            .append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.tree.get_template_contents(target)
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        self.step().same_node(one, other)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.tree.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, node: NodeOrText<Handle>) {
        self.placed(&node).append_before_sibling(sibling, node);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        made_attributes(&attributes);
        self.tree.add_attrs_if_missing(target, attributes);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.step().remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        let document = self.tree.0.borrow();
        let children = document.tree.get(*node).map_or(0, |n| n.children().count());
        drop(document);
        let _ = budget::work(children);
        self.tree.reparent_children(node, parent);
    }
}
