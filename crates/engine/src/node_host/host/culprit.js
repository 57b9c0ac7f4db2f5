// Names the package that is to blame if the process ends: the one being loaded, or the first in an error's stack.
"use strict";
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { sendNow } = require("channel.js");
const { refusal } = require("regular.js");

// The outermost package with nodes, if the file is in one: what a package has installed for itself counts as its own.
function packageOf(file) {
    for (const found of file.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/]+)/g)) {
        const name = found[1];
        if (name.startsWith("@node-red/")) continue;
        try {
            const directory = file.slice(0, found.index + found[0].length);
            const description = path.join(directory, "package.json");
            if (refusal(description) !== undefined) continue;
            const facts = JSON.parse(fs.readFileSync(description, "utf8"));
            if (facts["node-red"] !== undefined) return name;
        } catch {
            // No package.
        }
    }
    return undefined;
}

// The first package with nodes in the stack of an error.
function blamed(error) {
    const files = String(error?.stack ?? "").matchAll(/(?:file:\/\/)?(\/[^():\n]+):\d+/g);
    for (const [, file] of files) {
        const name = packageOf(file);
        if (name !== undefined) return name;
    }
    return undefined;
}

// Tells the engine which package is being loaded, until `done` is called. Files of node sets are required by their
// whole path.
function watchLoading() {
    const load = Module._load;
    let last;
    Module._load = function (request, ...rest) {
        const name = path.isAbsolute(request) ? packageOf(request) : undefined;
        if (name !== undefined && name !== last) sendNow({ t: "loading", package: (last = name) });
        return load.call(this, request, ...rest);
    };
    return () => {
        Module._load = load;
        if (last !== undefined) sendNow({ t: "loading" });
    };
}

module.exports = { blamed, watchLoading };
