// The storage of Node-RED's runtime: nothing. The gateway keeps flows and credentials; nothing here writes to the user's
// directory.
"use strict";

let settings = {};

module.exports = {
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
