// Packaged subflows (`RED.nodes.registerSubflow`): one node for the engine, a flow of nodes here. What their inner nodes send
// and report leaves in the name of that one node.
"use strict";

// The outermost packaged subflow that a flow is, or is in; undefined: none.
function packagedSubflow(flow) {
    let found;
    for (let at = flow; at; at = at.parent) {
        if (typeof at.TYPE === "string" && at.TYPE.startsWith("module:")) found = at;
    }
    return found;
}

// The id by which the engine knows a node.
function idForEngine(node) {
    return packagedSubflow(node._flow)?.id ?? node.id;
}

// The types in the packaged subflows among these types, and those types.
function withInnerTypes(types, nodes) {
    const all = new Set();
    const left = [...types];
    while (left.length > 0) {
        const type = left.pop();
        if (all.has(type)) continue;
        all.add(type);
        const inner = nodes.getType(type)?.subflow?.flow;
        if (Array.isArray(inner)) left.push(...inner.map((element) => element.type));
    }
    return all;
}

module.exports = { packagedSubflow, idForEngine, withInnerTypes };
