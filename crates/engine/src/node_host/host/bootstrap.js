// Reads the other files of the host from descriptor 4 and runs main.js. Passed to Node.js as --eval, so that nothing of
// the host is on disk.
"use strict";
const fs = require("node:fs");
const vm = require("node:vm");

function read(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
        const count = fs.readSync(4, bytes, at, length - at);
        if (count === 0) process.exit(1);
        at += count;
    }
    return bytes;
}

const sources = JSON.parse(read(read(4).readUInt32LE(0)));
const loaded = new Map();
function load(name) {
    if (!Object.hasOwn(sources, name)) return require(name);
    if (!loaded.has(name)) {
        const module = { exports: {} };
        loaded.set(name, module);
        const file = vm.compileFunction(sources[name], ["require", "module"], { filename: `flowgate:${name}` });
        file(load, module);
    }
    return loaded.get(name).exports;
}
load("main.js");
