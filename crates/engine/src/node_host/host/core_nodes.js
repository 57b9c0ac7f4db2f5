// Node-RED's own nodes that run here: config nodes that packages use too, and the nodes inside packaged subflows. Their real
// files are in @node-red/nodes, and loaded when a flow set first needs them.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { withInnerTypes } = require("packaged.js");

// Without @node-red/nodes, these are nodes that do nothing: packages find them optional.
const CONFIG_NODES = ["tls-config", "http proxy", "mqtt-broker"];
const CONTAINER = /^(tab|group|subflow(:.*)?)$/;

// Of an MQTT broker that native nodes use too, there are two connections: a server closes the first of two that have one
// client identifier (MQTT 3.1.1, section 3.1.4). What tells others that the client is there is sent by the engine's.
function secondConnection(config) {
    const second = { ...config, birthTopic: "", closeTopic: "", willTopic: "" };
    if (config.clientid) second.clientid = `${config.clientid}-node-host`;
    return second;
}

// Hands brokers that the engine connects to as well (`_twice`) other options.
function withSecondConnection(api) {
    const { registerType } = api.nodes;
    api.nodes.registerType = (type, constructor, options) => {
        if (type !== "mqtt-broker") return registerType(type, constructor, options);
        function Broker(config) {
            constructor.call(this, config._twice ? secondConnection(config) : config);
        }
        return registerType(type, Broker, options);
    };
    return api;
}

// The files of @node-red/nodes by the types that they register; `undefined`: the package is not there.
function filesByType(require) {
    let directory;
    try {
        directory = path.dirname(require.resolve("@node-red/nodes/package.json"));
    } catch {
        return undefined;
    }
    const core = path.join(directory, "core");
    const types = new Map();
    for (const folder of fs.readdirSync(core)) {
        for (const name of fs.readdirSync(path.join(core, folder))) {
            if (!name.endsWith(".js")) continue;
            const file = path.join(core, folder, name);
            const text = fs.readFileSync(file, "utf8");
            for (const [, type] of text.matchAll(/registerType\(\s*["']([^"']+)["']/g)) types.set(type, file);
        }
    }
    return { types, locales: path.join(directory, "locales") };
}

// A function that registers what elements of these types need and no package has.
function coreNodes(require, nodes) {
    const { createNodeApi } = require("@node-red/registry/lib/util");
    const { i18n, log } = require("@node-red/util");
    let files;

    function inert(type) {
        nodes.registerType("flowgate", type, function (definition) {
            nodes.createNode(this, definition);
        });
    }

    async function load(file) {
        const name = path.basename(file, ".js").replace(/^\d+-/, "");
        const api = createNodeApi({ id: `node-red/${name}`, module: "node-red", namespace: "node-red", file });
        await require(file)(withSecondConnection(api));
    }

    async function find() {
        files = filesByType(require) ?? { types: new Map() };
        if (files.locales) await i18n.registerMessageCatalog("node-red", files.locales, "messages.json");
    }

    async function provide(types) {
        for (const type of withInnerTypes(types, nodes)) {
            if (CONTAINER.test(type) || nodes.getType(type)) continue;
            if (files === undefined) await find();
            const file = files.types.get(type);
            if (file) await load(file);
            else if (CONFIG_NODES.includes(type)) inert(type);
            else log.error(`nodes of type ${type} do not run: neither a package nor @node-red/nodes in the directory has them`);
        }
    }
    return { inert, provide };
}

module.exports = { coreNodes };
