// Errors, status, completed messages and log lines: the engine has the catch, status and complete nodes, so that it gets
// what Node-RED's flows would hand to theirs.
"use strict";
const { send } = require("channel.js");
const { encode } = require("values.js");
const { packagedSubflow } = require("packaged.js");

// A level of Node-RED's log.
const WARN = 30;

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
    if (!isInner) report({ t: "status", node: node.id }, status);
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
        report({ t: "log", level: WARN }, `a message of topic ${topic} for editors was not sent: ${error.message}`);
    }
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
        const value = line.msg instanceof Error ? line.msg : typeof line.msg === "object" ? line.msg : String(line.msg);
        report({ t: "log", level: line.level, node: line.id }, value);
    };
    return { console: { level: "off" }, engine: { level: "info", metrics: false, audit: false, handler } };
}

module.exports = { watch, publish, redirect, logging, handleError };
