// Refuses to read what is no regular file while the runtime looks for packages: a FIFO or a device as package.json would
// keep it waiting, and the package that came before would be to blame.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

// Bytes of a package.json; the engine reads no longer ones either.
const MAX_PACKAGE = 16 * 1024 * 1024;

// The reason why a file is not read; undefined: it is, or there is none.
function refusal(file) {
    if (typeof file !== "string") return undefined;
    const facts = fs.statSync(file, { throwIfNoEntry: false });
    if (facts === undefined || facts.isDirectory()) return undefined;
    const isTooLarge = path.basename(file) === "package.json" && facts.size > MAX_PACKAGE;
    if (facts.isFile() && !isTooLarge) return undefined;
    const reason = isTooLarge ? "too large" : "no regular file";
    return Object.assign(new Error(`${file} is ${reason}: it is not read`), { code: "EINVAL" });
}

// Until the function that is returned is called. `refused` gets each error, once for a file.
function regularFilesOnly(refused) {
    const { readFile, readFileSync } = fs;
    const read = fs.promises.readFile;
    const known = new Set();
    const refuse = (file) => {
        const error = refusal(file);
        if (error !== undefined && !known.has(file)) {
            known.add(file);
            refused(error);
        }
        return error;
    };
    fs.readFileSync = (file, ...rest) => {
        const error = refuse(file);
        if (error !== undefined) throw error;
        return readFileSync(file, ...rest);
    };
    fs.readFile = (file, ...rest) => {
        const error = refuse(file);
        if (error === undefined) return readFile(file, ...rest);
        process.nextTick(rest.at(-1), error);
    };
    fs.promises.readFile = async (file, ...rest) => {
        const error = refuse(file);
        if (error !== undefined) throw error;
        return read(file, ...rest);
    };
    return () => {
        Object.assign(fs, { readFile, readFileSync });
        fs.promises.readFile = read;
    };
}

module.exports = { refusal, regularFilesOnly };
