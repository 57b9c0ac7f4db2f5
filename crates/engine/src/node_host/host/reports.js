// Errors, status, completed messages and log lines: the engine has the catch, status and complete nodes, so that it gets
// what Node-RED's flows would hand to theirs.
"use strict";
const { send } = require("channel.js");
const { encode } = require("values.js");
const { packagedSubflow } = require("packaged.js");

// A level of Node-RED's log.
const WARN = 30;

// Characters of the text of a status, and of a line of the log: the engine takes no longer ones.
const MAX_STATUS = 8 * 1024;
const MAX_TEXT = 64 * 1024;

// The nodes whose completed messages the engine wants.
let watched = new Set();

function watch(ids) {
    watched = new Set(ids);
}

// An encoded value, or the reason why there is none.
function encodedOr(value, otherwise) {
    try {
        return encode(value);
    } catch (error) {
        return encode(otherwise(error));
    }
}

function shortened(text, length = MAX_TEXT) {
    return text.length > length ? `${text.slice(0, length)}…` : text;
}

function shortenedStatus(status) {
    if (typeof status === "string") return shortened(status, MAX_STATUS);
    return typeof status?.text === "string" ? { ...status, text: shortened(status.text, MAX_STATUS) } : status;
}

// A line of Node-RED's log: a text, an error, or an object that is not too large.
function logged(msg) {
    if (typeof msg !== "object" || msg === null) return shortened(String(msg));
    if (msg instanceof Error) {
        if (msg.message.length <= MAX_TEXT) return msg;
        return Object.assign(new Error(shortened(msg.message)), { name: msg.name });
    }
    try {
        const text = JSON.stringify(msg) ?? String(msg);
        return text.length > MAX_TEXT ? shortened(text) : msg;
    } catch {
        return msg;
    }
}

function report(frame, value, message) {
    const content = encodedOr({ value, message }, (error) => ({
        value: typeof value === "string" ? value : String(error.message),
        message: message && { _msgid: message._msgid, topic: message.topic },
    }));
    try {
        send({ ...frame, content: content.json, escaped: content.escaped }, content.attachments);
    } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        const small = encode({ value: error.message, message: message && { _msgid: message._msgid } });
        send({ ...frame, content: small.json, escaped: small.escaped });
    }
}

// `reporting`: the packaged subflow that the node is in, whose catch nodes have not taken the error.
function handleError(node, error, message, reporting) {
    report({ t: "error", node: (reporting ?? node).id }, error instanceof Error ? error : String(error), message ?? undefined);
    return true;
}

// `isInner`: it is the status of a node inside a packaged subflow, which is not shown.
function handleStatus(node, status, reporting, isInner) {
    if (!isInner) report({ t: "status", node: node.id }, shortenedStatus(status));
    return true;
}

function handleComplete(node, message) {
    if (watched.has(node.id)) report({ t: "complete", node: node.id }, undefined, message);
}

// What packages publish for their parts of the editor (`RED.comms.publish`). What JSON cannot hold is not sent, as in
// Node-RED.
function publish({ topic, data, retain }) {
    if (typeof topic !== "string") return;
    try {
        send({ t: "published", topic, data, retain: Boolean(retain) });
    } catch (error) {
        report({ t: "log", level: WARN }, `a message of topic ${topic.slice(0, 1024)} for editors was not sent: ${error.message}`);
    }
}

// A line of the log that is of no node.
function warn(error) {
    report({ t: "log", level: WARN }, shortened(error.message));
}

// Sends the reports of all flows to the engine, except of those inside packaged subflows, which have catch and status nodes of
// their own. `Flow` and `Subflow` are modules of the runtime.
function redirect(Flow, Subflow) {
    const reports = { handleError, handleStatus, handleComplete };
    const { prototype } = Flow.Flow;
    for (const [name, report] of Object.entries(reports)) {
        const original = prototype[name];
        if (typeof original !== "function") {
            throw new Error(`this version of @node-red/runtime has no Flow.${name}`);
        }
        prototype[name] = function (...given) {
            return (packagedSubflow(this) ? original : report).apply(this, given);
        };
    }
    const { create } = Subflow;
    Subflow.create = (parent, ...given) => {
        const made = create(parent, ...given);
        return packagedSubflow(parent) ? made : Object.assign(made, reports);
    };
}

// The `logging` of Node-RED's settings.
function logging() {
    const handler = () => (line) => {
        report({ t: "log", level: line.level, node: line.id }, logged(line.msg));
    };
    return { console: { level: "off" }, engine: { level: "info", metrics: false, audit: false, handler } };
}

module.exports = { watch, publish, redirect, logging, warn, handleError };
