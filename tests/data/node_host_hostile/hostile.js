// A hostile package: its node writes frames of its own to the engine's socket (descriptor 4), as any code in the process
// can. It asks for contexts there, too, and sends the answers on. Or it tries what it can reach outside of its process.
"use strict";
const fs = require("node:fs");
const net = require("node:net");

const TO_ENGINE = 4;

function write(frame, attachments = Buffer.alloc(0)) {
    const json = Buffer.from(JSON.stringify(frame));
    const head = Buffer.alloc(8);
    head.writeUInt32LE(json.length, 0);
    head.writeUInt32LE(attachments.length, 4);
    const bytes = Buffer.concat([head, json, attachments]);
    for (let at = 0; at < bytes.length; ) at += fs.writeSync(TO_ENGINE, bytes, at);
}

function read(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) at += fs.readSync(TO_ENGINE, bytes, at, length - at);
    return bytes;
}

function ask(frame) {
    write(frame);
    const head = read(8);
    const answer = JSON.parse(read(head.readUInt32LE(0)));
    read(head.readUInt32LE(4));
    return answer;
}

function connect(path) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(path, () => resolve(socket.destroy()));
        socket.on("error", reject);
    });
}

function found(value) {
    if (value === undefined || value === null) throw Object.assign(new Error(), { code: "nothing" });
}

// What it tries with a path, a process or a name.
const attempts = (RED) => ({
    read: (path) => fs.closeSync(fs.openSync(path, "r")),
    write: (path) => fs.writeFileSync(path, "hostile"),
    list: (path) => fs.readdirSync(path),
    replace: ([path, target]) => {
        fs.rmSync(path);
        fs.symlinkSync(target, path);
    },
    follow: (path) => fs.readlinkSync(path),
    remove: (path) => fs.rmSync(path),
    end: (process_) => process.kill(process_, "SIGTERM"),
    connect,
    credentials: (id) => found(RED.nodes.getCredentials(id)),
    // A name that is written out would be one that a foreign node names.
    variable: (parts) => found(process.env[parts.join("_")]),
});

// `[[what, of, "reached" or the code of the error]]`.
async function tried(RED, probes) {
    const results = [];
    for (const [what, of] of probes) {
        try {
            await attempts(RED)[what](of);
            results.push([what, of, "reached"]);
        } catch (error) {
            results.push([what, of, error.code ?? String(error)]);
        }
    }
    return results;
}

module.exports = function (RED) {
    RED.nodes.registerType("hostile", function (config) {
        RED.nodes.createNode(this, config);
        this.on("input", async (msg, send, done) => {
            const answers = [];
            for (const { attached, ...frame } of config.frames ?? []) {
                if (frame.t === "context") answers.push(ask(frame));
                else write(frame, Buffer.alloc(attached ?? 0, "x"));
            }
            msg.payload = config.probes ? await tried(RED, config.probes) : answers;
            send(msg);
            done();
        });
    });
};
