// Messages between the nodes here and those of the engine. Nodes here reach each other by reference, as in Node-RED;
// what goes to others leaves in the order in which it was sent.
"use strict";
const { send } = require("channel.js");
const { encode, decode } = require("values.js");
const { idForEngine, packagedSubflow } = require("packaged.js");

// Whether a node of this id lives here, by id; empty while nodes start and stop.
const here = new Map();
let isStable = false;

// From now on nodes start and stop, or no longer do.
function settle(stable) {
    isStable = stable;
    here.clear();
}

// Instances of subflows are the engine's, which knows their inputs; those inside packaged subflows are not.
function livesHere(flow, id) {
    const known = here.get(id);
    if (known !== undefined) return known;
    const node = flow.getNode(id);
    const lives = node !== undefined && node !== null && typeof node.receive === "function" && !isInstance(node);
    if (isStable) here.set(id, lives);
    return lives;
}

function isInstance(node) {
    return typeof node.type === "string" && node.type.startsWith("subflow:") && !packagedSubflow(node._flow);
}

function leave(source, message, targets) {
    try {
        const { json, attachments, escaped } = encode(message);
        send({ t: "message", node: idForEngine(source), to: targets, message: json, escaped }, attachments);
    } catch (error) {
        source.error(error, { _msgid: message._msgid, topic: message.topic });
    }
}

// The hook onSend: takes out the events of messages that leave, several targets of one message at a time.
function onSend(events) {
    let kept = 0;
    let last;
    const flush = () => last && leave(last.node, last.message, last.targets);
    for (const event of events) {
        const { node } = event.source;
        if (livesHere(node._flow, event.destination.id)) {
            events[kept++] = event;
        } else if (last && last.message === event.msg) {
            last.targets.push(event.destination.id);
        } else {
            flush();
            last = { node, message: event.msg, targets: [event.destination.id] };
        }
    }
    events.length = kept;
    flush();
}

// Hands a message of the engine to its node; false if there is none.
function deliver(nodes, frame, attachments) {
    const node = nodes.getNode(frame.node);
    if (!node || typeof node.receive !== "function") return false;
    node.receive(decode(frame.message, attachments, frame.escaped));
    return true;
}

module.exports = { settle, onSend, deliver };
