//! YAML text into a value, as js-yaml 4 reads it, with its words for what is wrong.
//!
//! Supports YAML 1.2 with anchors, merge keys, timestamps and binary. Aliases are shared, and the
//! nodes behind them are counted: a short text cannot become gigabytes.

use super::scalar;
use super::scan::{Place, Scan, is_blank, is_eol, is_gap};
use super::types::{self, Kind};
use smol_str::SmolStr;
use std::collections::HashMap;
use value::{Failure, Value};

/// The maximum nesting depth of nodes (js-yaml's own limit).
const MAX_DEPTH: usize = 100;

/// The maximum number of nodes, aliases expanded: flowgate's own.
const MAX_NODES: usize = 10_000_000;

/// The value of a text; `undefined` if there is nothing in it.
pub fn read(text: &str) -> Result<Value, Failure> {
    let mut reader = Reader::new(text);
    if let Some(at) = text.chars().position(|c| c == '\0') {
        reader.scan.position = at;
        return Err(reader.scan.wrong("null byte is not allowed in input"));
    }
    while reader.scan.here() == ' ' {
        reader.scan.indent += 1;
        reader.scan.position += 1;
    }
    let mut documents = Vec::new();
    while reader.scan.position + 1 < reader.scan.len() {
        documents.push(reader.document()?);
    }
    match documents.len() {
        0 => Ok(Value::Undefined),
        1 => Ok(documents.pop().unwrap_or_default()),
        _ => Err(Failure::text(
            "expected a single document in the stream, but found more",
        )),
    }
}

/// The position of a node: in a flow, or in a block.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Context {
    FlowIn,
    FlowOut,
    BlockIn,
    BlockOut,
}

/// The parts of a node read so far.
#[derive(Default, Clone)]
pub(super) struct Node {
    pub tag: Option<String>,
    pub anchor: Option<SmolStr>,
    pub kind: Option<Kind>,
    pub value: Value,
}

/// A value with an anchor, and how many nodes it is.
type Anchored = (Value, usize);

pub(super) struct Reader {
    pub scan: Scan,
    depth: usize,
    /// The number of nodes read, including those behind aliases.
    nodes: usize,
    pub node: Node,
    /// Values by anchor.
    pub anchors: HashMap<SmolStr, Anchored>,
    /// The value of each anchor of the document before it was set, in order.
    replaced: Vec<(SmolStr, Option<Anchored>)>,
    /// Tags by handle.
    pub handles: HashMap<String, String>,
}

impl Reader {
    fn new(text: &str) -> Self {
        Self {
            scan: Scan::new(text),
            depth: 0,
            nodes: 0,
            node: Node::default(),
            anchors: HashMap::new(),
            replaced: Vec::new(),
            handles: HashMap::new(),
        }
    }

    fn document(&mut self) -> Result<Value, Failure> {
        self.anchors.clear();
        self.replaced.clear();
        self.handles.clear();
        let mut directives = false;
        while self.scan.position < self.scan.len() {
            self.scan.skip(true)?;
            if self.scan.indent > 0 || self.scan.here() != '%' {
                break;
            }
            directives = true;
            self.directive()?;
        }
        self.scan.skip(true)?;
        let dashes = (0..3).all(|n| self.scan.ahead(n) == '-');
        if self.scan.indent == 0 && dashes {
            self.scan.position += 3;
            self.scan.skip(true)?;
        } else if directives {
            return Err(self.scan.wrong("directives end mark is expected"));
        }
        self.compose(self.scan.indent - 1, Context::BlockOut, false, true)?;
        let value = std::mem::take(&mut self.node.value);
        self.scan.skip(true)?;
        if self.scan.begins_line() && self.scan.at_separator() {
            if self.scan.here() == '.' {
                self.scan.position += 3;
                self.scan.skip(true)?;
            }
        } else if self.scan.position + 1 < self.scan.len() {
            let reason = "end of the stream or a document separator is expected";
            return Err(self.scan.wrong(reason));
        }
        Ok(if value.is_undefined() {
            Value::Null
        } else {
            value
        })
    }

    fn directive(&mut self) -> Result<(), Failure> {
        self.scan.position += 1;
        let start = self.scan.word(is_gap);
        let name = self.scan.slice(start, self.scan.position);
        if name.is_empty() {
            let reason = "directive name must not be less than one character in length";
            return Err(self.scan.wrong(reason));
        }
        let mut words = Vec::new();
        loop {
            self.scan.word(|c| !is_blank(c));
            if self.scan.here() == '#' {
                self.scan.skip_to_eol();
            }
            if is_eol(self.scan.here()) || self.scan.position >= self.scan.len() {
                break;
            }
            let start = self.scan.word(is_gap);
            words.push(self.scan.slice(start, self.scan.position));
        }
        self.scan.line_break()?;
        match (name.as_str(), words.as_slice()) {
            ("YAML", [version]) if version.starts_with("1.") => Ok(()),
            ("YAML", [_]) => Err(self.scan.wrong("unacceptable YAML version of the document")),
            ("YAML", _) => Err(self
                .scan
                .wrong("YAML directive accepts exactly one argument")),
            ("TAG", [handle, prefix]) => {
                self.handles.insert(handle.clone(), prefix.clone());
                Ok(())
            }
            ("TAG", _) => Err(self
                .scan
                .wrong("TAG directive accepts exactly two arguments")),
            _ => Ok(()),
        }
    }

    /// Reads a node; false if there is none.
    pub(super) fn compose(
        &mut self,
        parent: isize,
        context: Context,
        seeks: bool,
        compact: bool,
    ) -> Result<bool, Failure> {
        self.descend()?;
        let before = self.nodes;
        let blocks = matches!(context, Context::BlockIn | Context::BlockOut);
        let (mut collections, mut new_line) = (blocks, false);
        // Whether it stands deeper than its parent, just as deep, or less.
        let mut deeper = 1;
        if seeks && self.scan.skip(true)? > 0 {
            new_line = true;
            deeper = (self.scan.indent - parent).signum();
        }
        let mut properties = None;
        while deeper == 1 {
            let place = self.scan.place();
            let again = match self.scan.here() {
                '!' => self.node.tag.is_some(),
                '&' => self.node.anchor.is_some(),
                _ => break,
            };
            if new_line && again {
                break;
            }
            self.property()?;
            properties.get_or_insert(place);
            collections = self.scan.skip(true)? > 0;
            if collections {
                new_line = true;
                collections = blocks;
                deeper = (self.scan.indent - parent).signum();
            }
        }
        collections = collections && (new_line || compact);
        let block_indent = self.column(self.scan.position);
        let any = match deeper {
            1 => {
                let inside = Inside {
                    context,
                    blocks,
                    collections,
                    flow_indent: if blocks { parent + 1 } else { parent },
                    block_indent,
                };
                self.content(inside, properties)?
            }
            0 if context == Context::BlockOut => {
                collections && self.block_sequence(block_indent)?
            }
            _ => false,
        };
        self.resolve()?;
        self.remember(self.nodes - before + 1);
        self.depth -= 1;
        Ok(self.node.tag.is_some() || self.node.anchor.is_some() || any)
    }

    /// Begins a node, one deeper than the one before.
    fn descend(&mut self) -> Result<(), Failure> {
        if self.depth >= MAX_DEPTH {
            let reason = format!("nesting exceeded maxDepth ({MAX_DEPTH})");
            return Err(self.scan.wrong(&reason));
        }
        self.depth += 1;
        self.count(1)?;
        self.node = Node {
            value: Value::Null,
            ..Node::default()
        };
        Ok(())
    }

    /// Keeps a node that has an anchor for its aliases, each of which counts as `weight` nodes.
    fn remember(&mut self, weight: usize) {
        if let Some(anchor) = self.node.anchor.clone() {
            let anchored = (self.node.value.clone(), weight);
            let before = self.anchors.insert(anchor.clone(), anchored);
            self.replaced.push((anchor, before));
        }
    }

    pub(super) fn count(&mut self, nodes: usize) -> Result<(), Failure> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(self.scan.wrong("aliases stand for too many nodes"));
        }
        Ok(())
    }

    fn column(&self, position: usize) -> isize {
        isize::try_from(position - self.scan.line_start).unwrap_or(isize::MAX)
    }

    /// Reads what is behind the properties of a node.
    fn content(&mut self, inside: Inside, properties: Option<Place>) -> Result<bool, Failure> {
        let Inside {
            flow_indent,
            block_indent,
            ..
        } = inside;
        if inside.collections
            && (self.block_sequence(block_indent)?
                || self.block_mapping(block_indent, flow_indent)?)
            || self.flow(flow_indent)?
        {
            return Ok(true);
        }
        let is_block = matches!(self.scan.here(), '|' | '>');
        if let Some(start) = properties
            && inside.blocks
            && !inside.collections
            && !is_block
            && self.mapping_from(start, flow_indent)?
        {
            return Ok(true);
        }
        let mut text = None;
        if inside.blocks {
            text = scalar::block(&mut self.scan, flow_indent)?;
        }
        if text.is_none() {
            text = scalar::quoted(&mut self.scan)?;
        }
        if text.is_none() {
            if self.alias()? {
                if self.node.tag.is_some() || self.node.anchor.is_some() {
                    let reason = "alias node should not have any properties";
                    return Err(self.scan.wrong(reason));
                }
                return Ok(true);
            }
            let flow = inside.context == Context::FlowIn;
            text = scalar::plain(&mut self.scan, flow_indent, flow)?;
            if text.is_some() && self.node.tag.is_none() {
                self.node.tag = Some("?".to_owned());
            }
        }
        let Some(text) = text else { return Ok(false) };
        self.node.kind = Some(Kind::Scalar);
        self.node.value = Value::from(text);
        Ok(true)
    }

    /// A mapping whose first key has the properties that were read for the mapping.
    fn mapping_from(&mut self, start: Place, flow_indent: isize) -> Result<bool, Failure> {
        let (place, node, anchors) = (self.scan.place(), self.node.clone(), self.replaced.len());
        self.scan.back_to(start);
        self.node = Node {
            value: Value::Null,
            ..Node::default()
        };
        let indent = self.column(start.mark.position);
        if self.block_mapping(indent, flow_indent)? && self.node.kind == Some(Kind::Mapping) {
            return Ok(true);
        }
        self.scan.back_to(place);
        self.node = node;
        self.forget_anchors(anchors);
        Ok(false)
    }

    /// Undoes all settings of anchors but the first ones. A copy of all anchors would cost more
    /// with each of them.
    fn forget_anchors(&mut self, kept: usize) {
        for (anchor, before) in self.replaced.drain(kept..).rev() {
            match before {
                Some(before) => self.anchors.insert(anchor, before),
                None => self.anchors.remove(&anchor),
            };
        }
    }

    /// Gives the value its meaning.
    fn resolve(&mut self) -> Result<(), Failure> {
        let Some(tag) = self.node.tag.clone().filter(|tag| tag != "!") else {
            return Ok(());
        };
        if tag == "?" {
            if let Value::String(text) = &self.node.value {
                let (value, tag) = types::plain(text);
                self.node.value = value;
                self.node.tag = Some(tag.unwrap_or("?").to_owned());
            }
            return Ok(());
        }
        let known = types::kind_of(&tag);
        let Some(wanted) = known.filter(|wanted| self.node.kind.is_none_or(|k| k == *wanted))
        else {
            let reason = format!("unknown tag !<{tag}>");
            return Err(self.scan.wrong(&reason));
        };
        let Some(value) = types::tagged(&tag, &self.node.value) else {
            let reason = format!("cannot resolve a node with !<{tag}> explicit tag");
            return Err(self.scan.wrong(&reason));
        };
        self.node.value = value;
        self.node.kind.get_or_insert(wanted);
        Ok(())
    }

    /// Begins a collection: its own properties are kept while what is in it is read.
    pub(super) fn begin(&self) -> (Option<String>, Option<SmolStr>) {
        (self.node.tag.clone(), self.node.anchor.clone())
    }

    pub(super) fn end(
        &mut self,
        tag: Option<String>,
        anchor: Option<SmolStr>,
        kind: Kind,
        value: Value,
    ) {
        self.node = Node {
            tag,
            anchor,
            kind: Some(kind),
            value,
        };
    }

    /// Takes the value read, and its tag.
    pub(super) fn taken(&mut self) -> (Value, Option<String>) {
        (std::mem::take(&mut self.node.value), self.node.tag.take())
    }
}

/// The position of a node's content.
#[derive(Clone, Copy)]
struct Inside {
    context: Context,
    /// True if blocks may stand here at all.
    blocks: bool,
    /// True if sequences and mappings may.
    collections: bool,
    flow_indent: isize,
    block_indent: isize,
}
