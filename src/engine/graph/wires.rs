//! The wires of a subflow instance: where its input leads, and what the nodes inside are wired to.

use super::{Definition, Instance, Wires};
use crate::flows::Node;
use rustc_hash::FxHashMap;
use smol_str::{SmolStr, format_smolstr};

/// Outputs of a node, at most, that a subflow's output may name.
const MAX_PORTS: usize = 1024;

/// Where the input of an instance leads: the wires of `in[0]`, and for an output wired straight to the
/// input the instance's own targets.
pub(super) fn input_wires(
    definition: &Definition,
    template: &str,
    instance: &Instance<'_>,
    ids: &FxHashMap<SmolStr, SmolStr>,
) -> Vec<SmolStr> {
    let input = definition.inputs.first().into_iter().flat_map(|p| &p.wires);
    let mut targets: Vec<SmolStr> = input.filter_map(|w| ids.get(&w.id).cloned()).collect();
    for (output, port) in definition.outputs.iter().enumerate() {
        if port.wires.iter().any(|w| w.id == template) {
            targets.extend(instance.outer.get(output).into_iter().flatten().cloned());
        }
    }
    targets
}

/// The wires of a node inside: its own, plus the instance's targets where an output of the subflow is fed by it.
pub(super) fn inner_wires(
    node: &Node,
    definition: &Definition,
    instance: &Instance<'_>,
    ids: &FxHashMap<SmolStr, SmolStr>,
) -> Wires {
    let own = node.wires.iter();
    let mut wires: Wires = own
        .map(|w| w.iter().filter_map(|id| ids.get(id).cloned()).collect())
        .collect();
    let mut append = |port: usize, targets: &[SmolStr]| {
        if let Some(output) = wires.get_mut(port) {
            output.extend(targets.iter().cloned());
        } else if port < MAX_PORTS {
            wires.resize(port + 1, Vec::new());
            wires[port].extend(targets.iter().cloned());
        }
    };
    for (output, port) in definition.outputs.iter().enumerate() {
        for wire in port.wires.iter().filter(|w| w.id == node.id) {
            append(
                wire.port,
                instance.outer.get(output).map_or(&[], Vec::as_slice),
            );
        }
    }
    for wire in definition
        .status
        .iter()
        .flat_map(|p| &p.wires)
        .filter(|w| w.id == node.id)
    {
        append(wire.port, &[format_smolstr!("{}:status", instance.id)]);
    }
    wires
}
