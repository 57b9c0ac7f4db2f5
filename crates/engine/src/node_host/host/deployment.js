// Runs the flow set that the engine sends. One at a time, in order.
"use strict";
const { settle } = require("routing.js");

let turn = Promise.resolve();

// The end of a start: without an error, or with the one that kept the flows from starting.
function started(events) {
    return new Promise((resolve) => {
        const finish = (error) => {
            events.removeListener("flows:started", onStarted);
            events.removeListener("runtime-event", onEvent);
            resolve(error);
        };
        const onStarted = () => finish(undefined);
        const onEvent = ({ id, payload }) => {
            if (id !== "runtime-state" || !payload?.error) return;
            const names = payload.types ?? payload.modules?.map((module) => module.module) ?? [];
            finish(`${payload.error}: ${names.join(", ")}`);
        };
        events.on("flows:started", onStarted);
        events.on("runtime-event", onEvent);
    });
}

async function run({ runtime, provide }, { flows, credentials, kind, environment }) {
    Object.assign(process.env, environment);
    await provide(flows.map((element) => element.type));
    const end = started(runtime.events);
    // Starts flows that are stopped too.
    await runtime.nodes.setFlows(flows, credentials, kind, true, true);
    return end;
}

// Deploys; resolves with the text of an error, or undefined.
function deploy(host, frame) {
    const result = turn.then(() => {
        settle(false);
        return run(host, frame);
    });
    turn = result.catch(() => {}).then(() => settle(true));
    return result.catch((error) => error?.message ?? String(error));
}

// Stops all nodes; they are not gone, so that none deletes its data.
function stop({ runtime }) {
    const result = turn.then(() => {
        settle(false);
        return runtime.nodes.stopFlows("full", undefined, true);
    });
    turn = result.catch(() => {});
    return turn;
}

module.exports = { deploy, stop, started };
