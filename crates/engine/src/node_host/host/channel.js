// The two sockets to the engine: descriptor 3 brings its frames, descriptor 4 takes ours and answers questions.
//
// A frame is the length of its JSON and of its attachments (both 32 bits, little endian), then both. Writing blocks
// until the engine has room, as a slow native node would block Node-RED: nothing piles up here.
"use strict";
const fs = require("node:fs");
const net = require("node:net");

const FROM_ENGINE = 3;
const TO_ENGINE = 4;
const HEAD = 8;
// Bytes of one frame; the engine has the same limit.
const MAX_FRAME = 64 * 1024 * 1024;
// Bytes that wait for the end of a callback: as many as the engine reads at once.
const MAX_PENDING = 64 * 1024;

function writeAll(bytes) {
    for (let at = 0; at < bytes.length; ) {
        at += fs.writeSync(TO_ENGINE, bytes, at, bytes.length - at);
    }
}

function readExactly(length) {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; ) {
        const count = fs.readSync(TO_ENGINE, bytes, at, length - at);
        if (count === 0) process.exit(0);
        at += count;
    }
    return bytes;
}

// What is written together: the frames of one callback, if they are small.
let pending = [];
let pendingBytes = 0;

// Writes what was sent.
function flush() {
    if (pending.length === 0) return;
    const frames = pending;
    [pending, pendingBytes] = [[], 0];
    writeAll(Buffer.concat(frames));
}

// Sends a frame, which is written when the callback that runs has ended. Throws a RangeError if it is too large; then
// nothing was sent.
function send(frame, attachments = []) {
    const json = Buffer.from(JSON.stringify(frame));
    const attached = attachments.reduce((sum, bytes) => sum + bytes.length, 0);
    if (json.length + attached > MAX_FRAME) {
        throw new RangeError(`the message is larger than ${MAX_FRAME} bytes`);
    }
    const head = Buffer.allocUnsafe(HEAD);
    head.writeUInt32LE(json.length, 0);
    head.writeUInt32LE(attached, 4);
    if (pending.length === 0) queueMicrotask(flush);
    pending.push(head, json, ...attachments);
    pendingBytes += HEAD + json.length + attached;
    // A node may write into its buffers when it has sent them.
    if (attached > 0 || pendingBytes > MAX_PENDING) flush();
}

// A package may end the process.
process.on("exit", flush);

// Sends a frame at once: the process may be about to end.
function sendNow(frame) {
    send(frame);
    flush();
}

// Sends a question, and blocks until the engine has answered it.
function ask(frame, attachments) {
    send(frame, attachments);
    flush();
    const head = readExactly(HEAD);
    const json = readExactly(head.readUInt32LE(0));
    return { frame: JSON.parse(json), attachments: readExactly(head.readUInt32LE(4)) };
}

// Calls `receive(frame, attachments)` for each frame of the engine, and `taken(bytes)` after those that came together.
// The process ends with the channel.
function listen(receive, taken) {
    const socket = new net.Socket({ fd: FROM_ENGINE, readable: true, writable: false });
    let waiting = [];
    let length = 0;
    let needed = HEAD;
    socket.on("data", (chunk) => {
        waiting.push(chunk);
        length += chunk.length;
        if (length < needed) return;
        let bytes = waiting.length === 1 ? waiting[0] : Buffer.concat(waiting);
        let complete = 0;
        for (;;) {
            needed = HEAD;
            if (bytes.length < needed) break;
            const json = bytes.readUInt32LE(0);
            needed += json + bytes.readUInt32LE(4);
            if (bytes.length < needed) break;
            receive(JSON.parse(bytes.subarray(HEAD, HEAD + json)), bytes.subarray(HEAD + json, needed));
            complete += needed;
            bytes = bytes.subarray(needed);
        }
        waiting = [bytes];
        length = bytes.length;
        if (complete > 0) taken(complete);
    });
    socket.on("close", () => process.kill(-process.pid, "SIGKILL"));
    socket.on("error", () => socket.destroy());
}

module.exports = { send, sendNow, ask, listen };
