//! Tags, anchors and aliases of YAML.

use super::read::Reader;
use super::scan::{is_flow, is_gap};
use smol_str::SmolStr;
use value::Failure;

impl Reader {
    /// A tag or an anchor.
    pub(super) fn property(&mut self) -> Result<(), Failure> {
        if self.scan.here() == '!' {
            return self.tag();
        }
        if self.node.anchor.is_some() {
            return Err(self.scan.wrong("duplication of an anchor property"));
        }
        let name = self.name("name of an anchor node must contain at least one character")?;
        self.node.anchor = Some(name);
        Ok(())
    }

    /// The name behind `&` or `*`.
    fn name(&mut self, missing: &str) -> Result<SmolStr, Failure> {
        self.scan.position += 1;
        let start = self.scan.word(|c| is_gap(c) || is_flow(c));
        if start == self.scan.position {
            return Err(self.scan.wrong(missing));
        }
        Ok(self.scan.slice(start, self.scan.position).into())
    }

    fn tag(&mut self) -> Result<(), Failure> {
        if self.node.tag.is_some() {
            return Err(self.scan.wrong("duplication of a tag property"));
        }
        self.scan.position += 1;
        if self.scan.here() == '<' {
            self.scan.position += 1;
            let start = self.scan.word(|c| c == '>');
            let name = self.scan.slice(start, self.scan.position);
            if self.scan.position >= self.scan.len() {
                let reason = "unexpected end of the stream within a verbatim tag";
                return Err(self.scan.wrong(reason));
            }
            self.scan.position += 1;
            self.node.tag = Some(name);
            return Ok(());
        }
        let start = self.scan.word(is_gap);
        let text = self.scan.slice(start, self.scan.position);
        let (handle, name) = match text.rsplit_once('!') {
            Some((handle, name)) => (format!("!{handle}!"), name.to_owned()),
            None => ("!".to_owned(), text),
        };
        if name.contains(is_flow) {
            let reason = "tag suffix cannot contain flow indicator characters";
            return Err(self.scan.wrong(reason));
        }
        let prefix = match (self.handles.get(&handle), handle.as_str()) {
            (Some(prefix), _) => prefix.clone(),
            (None, "!") => handle,
            (None, "!!") => "tag:yaml.org,2002:".to_owned(),
            (None, _) => {
                let reason = format!("undeclared tag handle \"{handle}\"");
                return Err(self.scan.wrong(&reason));
            }
        };
        self.node.tag = Some(prefix + &name);
        Ok(())
    }

    pub(super) fn alias(&mut self) -> Result<bool, Failure> {
        if self.scan.here() != '*' {
            return Ok(false);
        }
        let name = self.name("name of an alias node must contain at least one character")?;
        let Some((value, nodes)) = self.anchors.get(&name).cloned() else {
            let reason = format!("unidentified alias \"{name}\"");
            return Err(self.scan.wrong(&reason));
        };
        self.count(nodes)?;
        self.node.value = value;
        self.scan.skip(true)?;
        Ok(true)
    }
}
