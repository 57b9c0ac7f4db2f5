//! Sequences and mappings of YAML in brackets.

use super::map::Mapping;
use super::read::{Context, Reader};
use super::scan::is_gap;
use super::types::Kind;
use value::{Failure, Value};

impl Reader {
    pub(super) fn flow(&mut self, indent: isize) -> Result<bool, Failure> {
        let maps = match self.scan.here() {
            '[' => false,
            '{' => true,
            _ => return Ok(false),
        };
        let (tag, anchor) = self.begin();
        let (mut mapping, mut elements) = (Mapping::default(), Vec::new());
        self.scan.position += 1;
        let mut comma = true;
        while self.scan.position < self.scan.len() {
            self.scan.skip(true)?;
            let c = self.scan.here();
            if c == if maps { '}' } else { ']' } {
                self.scan.position += 1;
                let (kind, value) = if maps {
                    (Kind::Mapping, mapping.value())
                } else {
                    (Kind::Sequence, Value::array(elements))
                };
                self.end(tag, anchor, kind, value);
                return Ok(true);
            }
            if !comma {
                let reason = "missed comma between flow collection entries";
                return Err(self.scan.wrong(reason));
            }
            if c == ',' {
                let reason = "expected the node content, but found ','";
                return Err(self.scan.wrong(reason));
            }
            self.flow_entry(indent, maps, &mut mapping, &mut elements)?;
            self.scan.skip(true)?;
            comma = self.scan.here() == ',';
            self.scan.position += usize::from(comma);
        }
        let reason = "unexpected end of the stream within a flow collection";
        Err(self.scan.wrong(reason))
    }

    fn flow_entry(
        &mut self,
        indent: isize,
        maps: bool,
        mapping: &mut Mapping,
        elements: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        let explicit = self.scan.here() == '?' && is_gap(self.scan.ahead(1));
        if explicit {
            self.scan.position += 1;
            self.scan.skip(true)?;
        }
        let place = self.scan.mark();
        self.compose(indent, Context::FlowIn, false, true)?;
        let (key, tag) = self.taken();
        self.scan.skip(true)?;
        let mut value = None;
        if (explicit || self.scan.line == place.line) && self.scan.here() == ':' {
            self.scan.position += 1;
            self.scan.skip(true)?;
            self.compose(indent, Context::FlowIn, false, true)?;
            value = Some(self.taken().0);
        }
        if maps {
            let value = value.unwrap_or(Value::Null);
            return mapping.put(&key, tag.as_deref(), value, &self.scan, place);
        }
        elements.push(if explicit || value.is_some() {
            let mut pair = Mapping::default();
            let value = value.unwrap_or(Value::Null);
            pair.put(&key, tag.as_deref(), value, &self.scan, place)?;
            pair.value()
        } else {
            key
        });
        Ok(())
    }
}
