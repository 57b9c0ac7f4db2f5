// Node-RED's runtime, loaded from the user's directory, with the node packages that are there. It has no editor, no
// admin API of its own, and listens to nothing but the Unix sockets of http.js.
"use strict";
const path = require("node:path");
const { createRequire } = require("node:module");
const { coreNodes } = require("core_nodes.js");
const http = require("http.js");
const storage = require("storage.js");
const { stores } = require("context.js");
const { watchLoading } = require("culprit.js");
const { regularFilesOnly } = require("regular.js");
const { publish, redirect, logging, warn } = require("reports.js");
const { onSend } = require("routing.js");
const { started } = require("deployment.js");

// Stands for native nodes inside subflow definitions; always disabled.
const STAND_IN = "flowgate-native";

function settings(directory, frame) {
    return {
        userDir: directory,
        storageModule: storage,
        contextStorage: stores(frame.stores),
        logging: logging(),
        credentialSecret: false,
        httpAdminRoot: false,
        httpNodeRoot: frame.root,
        disableEditor: true,
        nodeCloseTimeout: frame.closeTimeout,
        editorTheme: { projects: { enabled: false } },
        telemetry: { enabled: false },
        externalModules: {
            autoInstall: false,
            palette: { allowInstall: false, allowUpload: false, denyList: frame.leftOut },
            modules: { allowInstall: false },
        },
    };
}

// The node sets of the packages that were found: `{id, module, version, types, html, error}`. `html` is the edit form of a
// packaged subflow, which the runtime makes; those of all others are files.
function sets(require, nodes) {
    const { getFullNodeInfo } = require("@node-red/registry/lib/registry");
    return nodes.getNodeList().map((set) => {
        const types = set.types.filter((type) => nodes.getType(type));
        return {
            id: set.id,
            module: set.module,
            version: set.version,
            types,
            html: types.some((type) => nodes.getType(type).subflow) ? getFullNodeInfo(set.id).config : undefined,
            error: set.err === undefined ? undefined : String(set.err.message ?? set.err.code ?? set.err),
        };
    });
}

// Starts the runtime: `{runtime, provide, sets, version}`. `provide` registers native nodes that a flow set needs here.
async function start(frame) {
    const directory = process.cwd();
    const require = createRequire(path.join(directory, "package.json"));
    const util = require("@node-red/util");
    const api = require("@node-red/runtime");
    storage.disable(frame.disabled);
    const configured = settings(directory, frame);
    util.init(configured);
    const endpoints = http.server();
    api.init(configured, endpoints, { auth: { needsPermission: http.needsPermission } });
    http.watchRoutes(api.httpAdmin);
    const express = createRequire(require.resolve("@node-red/runtime"))("express");
    const serve = http.attach(express, endpoints, api, frame);
    redirect(require("@node-red/runtime/lib/flows/Flow"), require("@node-red/runtime/lib/flows/Subflow"));
    const runtime = api._;
    const ready = started(runtime.events);
    const loaded = watchLoading();
    const found = regularFilesOnly(warn);
    await api.start();
    await ready;
    found();
    loaded();
    await serve();
    const { inert, provide } = coreNodes(require, runtime.nodes);
    inert(STAND_IN);
    inert("global-config");
    runtime.hooks.add("onSend.flowgate", onSend);
    runtime.events.on("comms", publish);
    return { runtime, provide, sets: sets(require, runtime.nodes), version: await api.version() };
}

module.exports = { start };
