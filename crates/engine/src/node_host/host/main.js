// The node host: starts the runtime as the engine's first frame says, then does what its frames ask for.
"use strict";
const { send, sendNow, listen } = require("channel.js");
const { blamed } = require("culprit.js");
const { decode, release, unused } = require("values.js");
const { watch, handleError } = require("reports.js");
const { deliver } = require("routing.js");
const { start } = require("runtime.js");
const { deploy, stop } = require("deployment.js");
const { report } = require("http.js");

// How often the engine is told of its values that are no longer used here, in milliseconds.
const RELEASE_INTERVAL = 1000;

// `{runtime, provide}` of runtime.js.
let host;

async function begin(frame) {
    try {
        host = await start(frame);
        report();
        send({ t: "ready", sets: host.sets, version: host.version, node: process.version });
    } catch (error) {
        sendNow({ t: "failed", error: error?.message ?? String(error) });
        process.exit(1);
    }
}

const ACTIONS = {
    start: begin,
    async deploy(frame) {
        const error = await deploy(host, frame);
        report();
        send({ t: "deployed", number: frame.number, error });
    },
    stop: async (frame) => {
        await stop(host);
        send({ t: "deployed", number: frame.number });
    },
    message(frame, attachments) {
        if (!deliver(host.runtime.nodes, frame, attachments)) {
            const message = decode(frame.message, attachments, frame.escaped);
            handleError({ id: frame.node }, "the node does not run in the node host", message);
        }
    },
    watch: (frame) => watch(frame.nodes),
    release: (frame) => release(frame.ids),
    ping: () => send({ t: "pong", rss: process.memoryUsage.rss() }),
};

listen(
    (frame, attachments) => ACTIONS[frame.t](frame, attachments),
    (bytes) => send({ t: "taken", bytes }),
);

setInterval(() => {
    const ids = unused();
    if (ids.length > 0) send({ t: "release", ids });
}, RELEASE_INTERVAL).unref();

// A package that throws outside of its handlers ends the host, as it would end Node-RED; the engine starts it again.
process.on("uncaughtException", (error) => {
    try {
        sendNow({ t: "failed", error: error?.stack ?? String(error), package: blamed(error) });
    } finally {
        process.exit(1);
    }
});
