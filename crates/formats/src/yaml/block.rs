//! Sequences and mappings of YAML by their indentation.

use super::error::Mark;
use super::map::Mapping;
use super::read::{Context, Reader};
use super::scan::{Scan, is_blank, is_gap};
use super::types::Kind;
use value::{Failure, Value};

impl Reader {
    pub(super) fn block_sequence(&mut self, indent: isize) -> Result<bool, Failure> {
        if self.scan.tab.is_some() {
            return Ok(false);
        }
        let (tag, anchor) = self.begin();
        let mut elements = Vec::new();
        let mut detected = false;
        while self.scan.position < self.scan.len() {
            self.scan.check_tab()?;
            if self.scan.here() != '-' || !is_gap(self.scan.ahead(1)) {
                break;
            }
            detected = true;
            self.scan.position += 1;
            if self.scan.skip(true)? > 0 && self.scan.indent <= indent {
                elements.push(Value::Null);
                continue;
            }
            let line = self.scan.line;
            self.compose(indent, Context::BlockIn, false, true)?;
            elements.push(self.taken().0);
            self.scan.skip(true)?;
            let more = self.scan.position < self.scan.len();
            if (self.scan.line == line || self.scan.indent > indent) && more {
                return Err(self.scan.wrong("bad indentation of a sequence entry"));
            }
            if self.scan.indent < indent {
                break;
            }
        }
        if detected {
            self.end(tag, anchor, Kind::Sequence, Value::array(elements));
        }
        Ok(detected)
    }

    pub(super) fn block_mapping(
        &mut self,
        indent: isize,
        flow_indent: isize,
    ) -> Result<bool, Failure> {
        if self.scan.tab.is_some() {
            return Ok(false);
        }
        let (tag, anchor) = self.begin();
        let mut block = Block::default();
        while self.scan.position < self.scan.len() {
            if block.explicit.is_none() {
                self.scan.check_tab()?;
            }
            let line = self.scan.line;
            match self.block_key(&mut block, flow_indent)? {
                Key::Read => {}
                Key::None => break,
                // Not a key: the value read is the node itself.
                Key::Other => {
                    (self.node.tag, self.node.anchor) = (tag, anchor);
                    return Ok(true);
                }
            }
            if self.scan.line == line || self.scan.indent > indent {
                self.block_value(&mut block, indent)?;
            }
            let more = self.scan.position < self.scan.len();
            if (self.scan.line == line || self.scan.indent > indent) && more {
                return Err(self.scan.wrong("bad indentation of a mapping entry"));
            }
            if self.scan.indent < indent {
                break;
            }
        }
        block.store(&self.scan)?;
        if block.detected {
            self.end(tag, anchor, Kind::Mapping, block.mapping.value());
        }
        Ok(block.detected)
    }

    /// Reads a key, or the mark of one.
    fn block_key(&mut self, block: &mut Block, flow_indent: isize) -> Result<Key, Failure> {
        let (c, line) = (self.scan.here(), self.scan.line);
        if matches!(c, '?' | ':') && is_gap(self.scan.ahead(1)) {
            if c == '?' {
                block.store(&self.scan)?;
                block.detected = true;
                block.explicit = Some((Value::Null, None));
                block.at_value = false;
            } else if block.explicit.is_some() {
                block.at_value = true;
            } else {
                let reason = "incomplete explicit mapping pair; a key node is missed; or followed by a non-tabulated empty line";
                return Err(self.scan.wrong(reason));
            }
            block.compact = true;
            self.scan.position += 1;
            return Ok(Key::Read);
        }
        let place = self.scan.mark();
        if !self.compose(flow_indent, Context::FlowOut, false, true)? {
            return Ok(Key::None);
        }
        if self.scan.line != line {
            if block.detected {
                let reason = "can not read a block mapping entry; a multiline key may not be an implicit key";
                return Err(self.scan.wrong(reason));
            }
            return Ok(Key::Other);
        }
        self.scan.word(|c| !is_blank(c));
        if self.scan.here() != ':' {
            if block.detected {
                let reason = "can not read an implicit mapping pair; a colon is missed";
                return Err(self.scan.wrong(reason));
            }
            return Ok(Key::Other);
        }
        self.scan.position += 1;
        if !is_gap(self.scan.here()) {
            let reason = "a whitespace character is expected after the key-value separator within a block mapping";
            return Err(self.scan.wrong(reason));
        }
        let (key, tag) = self.taken();
        block.store(&self.scan)?;
        block.place = Some(place);
        block.explicit = Some((key, tag));
        block.detected = true;
        block.at_value = true;
        block.compact = false;
        Ok(Key::Read)
    }

    fn block_value(&mut self, block: &mut Block, indent: isize) -> Result<(), Failure> {
        if !block.at_value {
            block.place = Some(self.scan.mark());
        }
        let there = self.compose(indent, Context::BlockOut, true, block.compact)?;
        let (value, _) = self.taken();
        if block.at_value {
            block.value = there.then_some(value);
            block.store(&self.scan)?;
        } else if there {
            block.explicit = Some((value, None));
        }
        self.scan.skip(true)?;
        Ok(())
    }
}

/// The result of reading a key.
enum Key {
    Read,
    None,
    Other,
}

/// A mapping on its way.
#[derive(Default)]
struct Block {
    mapping: Mapping,
    /// A key that waits for its value.
    explicit: Option<(Value, Option<String>)>,
    value: Option<Value>,
    /// The next node is a value, not a key.
    at_value: bool,
    compact: bool,
    detected: bool,
    place: Option<Mark>,
}

impl Block {
    /// Stores the pair that was read, if there is one.
    fn store(&mut self, scan: &Scan) -> Result<(), Failure> {
        let Some((key, tag)) = self.explicit.take() else {
            return Ok(());
        };
        let value = self.value.take().unwrap_or(Value::Null);
        let place = self.place.unwrap_or(scan.mark());
        self.at_value = false;
        self.mapping.put(&key, tag.as_deref(), value, scan, place)
    }
}
