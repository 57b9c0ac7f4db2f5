// The storage of Node-RED's runtime: nothing. The gateway keeps flows and credentials; nothing here writes to the user's
// directory.
"use strict";

let settings = {};

// Makes the registry find these node sets (`package/set`) disabled when it loads them.
function disable(sets) {
    const nodes = { "node-red": { name: "node-red", nodes: {} } };
    for (const id of sets) {
        const at = id.lastIndexOf("/");
        const [module, name] = [id.slice(0, at), id.slice(at + 1)];
        nodes[module] ??= { name: module, nodes: {} };
        nodes[module].nodes[name] = { id, module, name, types: [], enabled: false };
    }
    settings = { nodes };
}

module.exports = {
    disable,
    init: async () => {},
    getFlows: async () => [],
    saveFlows: async () => {},
    getCredentials: async () => ({}),
    saveCredentials: async () => {},
    getSettings: async () => settings,
    saveSettings: async (changed) => {
        settings = changed;
    },
    getSessions: async () => ({}),
    saveSessions: async () => {},
    getLibraryEntry: async () => [],
    saveLibraryEntry: async () => {
        throw new Error("the node host has no library");
    },
};
