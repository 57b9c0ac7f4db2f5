//! What the outputs of a running node are wired to.

use std::slice;

/// The slots of the nodes that receive what a node sends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Targets {
    /// One at the first output, and none at any other, as most nodes have: it has no memory of its
    /// own.
    One(u32),
    /// By output.
    Many(Box<[Box<[u32]>]>),
}

impl Targets {
    /// Those at one output.
    pub(crate) fn of(&self, output: usize) -> &[u32] {
        match self {
            Self::One(target) if output == 0 => slice::from_ref(target),
            Self::One(_) => &[],
            Self::Many(outputs) => outputs.get(output).map_or(&[], |targets| targets),
        }
    }

    /// Those at all outputs, by output up to the last one that has any.
    pub(crate) fn by_output(&self) -> impl Iterator<Item = &[u32]> {
        let outputs = match self {
            Self::One(_) => 1,
            Self::Many(outputs) => outputs.len(),
        };
        (0..outputs).map(|output| self.of(output))
    }
}

impl Default for Targets {
    /// Nothing is wired.
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl FromIterator<Box<[u32]>> for Targets {
    fn from_iter<I: IntoIterator<Item = Box<[u32]>>>(outputs: I) -> Self {
        let mut outputs: Vec<_> = outputs.into_iter().collect();
        while outputs.pop_if(|last| last.is_empty()).is_some() {}
        match outputs.as_slice() {
            [only] if only.len() == 1 => Self::One(only[0]),
            _ => Self::Many(outputs.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(outputs: &[&[u32]]) -> Targets {
        outputs.iter().map(|ids| Box::from(*ids)).collect()
    }

    #[test]
    fn every_output_has_its_targets_and_others_have_none() {
        let cases: [&[&[u32]]; 6] = [
            &[],
            &[&[]],
            &[&[7]],
            &[&[7], &[]],
            &[&[], &[7]],
            &[&[7, 8], &[], &[9]],
        ];
        for outputs in cases {
            let targets = targets(outputs);
            for (output, expected) in outputs.iter().enumerate() {
                assert_eq!(targets.of(output), *expected, "{outputs:?}");
            }
            assert!(targets.of(outputs.len()).is_empty(), "{outputs:?}");
            let all: Vec<&[u32]> = targets.by_output().collect();
            assert_eq!(all.concat(), outputs.concat(), "{outputs:?}");
        }
    }

    #[test]
    fn the_wire_of_most_nodes_has_no_memory_of_its_own() {
        assert_eq!(targets(&[&[7]]), Targets::One(7));
        assert_eq!(size_of::<Targets>(), size_of::<Box<[u32]>>());
    }
}
