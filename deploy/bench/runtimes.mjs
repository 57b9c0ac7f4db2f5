// flowgate's engine and Node-RED with the same flows: start, memory, deployments, requests that flows answer.

import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import { Gateway, NodeRed, median, pause, until } from '../../tests/load/parts.mjs';
import { send } from './loads.mjs';
import { MEASURED, memory, pin, processorTime } from './processes.mjs';
import { freePort } from './ports.mjs';

const NODES = 10_000;
const ROUNDS = 7;
const SECONDS = 3;
/** Before memory is measured: what the start or a deployment has needed for a moment is given back. */
const REST = 15_000;

/** A page that flows answer, and tabs of a hundred nodes. `mark`: what the first of them says. */
export function flows(nodes, mark) {
    const tabs = Array.from({ length: nodes / 100 }, (_, tab) => {
        const z = `tab${tab}`;
        const node = (at) => ({
            id: `n${tab}-${at}`, z, type: 'change', name: tab + at ? '' : mark, x: 100, y: at * 40,
            rules: [{ t: 'set', p: 'payload', pt: 'msg', to: String(at), tot: 'num' }], wires: [[`n${tab}-${(at + 1) % 99}`]],
        });
        return [{ id: z, type: 'tab', label: `Tab ${tab}` }, ...Array.from({ length: 99 }, (_, at) => node(at))];
    });
    return [
        { id: 'page', type: 'tab', label: 'Page' },
        { id: 'in', z: 'page', type: 'http in', method: 'get', url: '/page', x: 100, y: 40, wires: [['code']] },
        { id: 'code', z: 'page', type: 'function', func: 'msg.payload = "hello " + msg.req.query.name; return msg', outputs: 1, x: 200, y: 40, wires: [['out']] },
        { id: 'out', z: 'page', type: 'http response', x: 300, y: 40, wires: [] },
        ...tabs.flat(),
    ];
}

export async function runtimeFigures(program) {
    const runtimes = [await flowgate(program), await nodeRed()];
    const values = Object.fromEntries(runtimes.map((runtime) => [runtime.name, []]));
    for (const runtime of runtimes) {
        pin(runtime.pid(), MEASURED);
        await deploy(runtime, flows(0), 'full');
        await pause(REST);
        values[runtime.name].push(['memory with four nodes (PSS)', 'MiB', memory(runtime.pid())]);
        values[runtime.name].push(['request that flows answer, processor time', 'µs', await requests(runtime)]);
        values[runtime.name].push([`deployment, ${NODES.toLocaleString('en')} nodes, all`, 'ms', await deployments(runtime, 'full')]);
        values[runtime.name].push([`deployment, ${NODES.toLocaleString('en')} nodes, one changed`, 'ms', await deployments(runtime, 'nodes')]);
        await pause(REST);
        values[runtime.name].push([`memory with ${NODES.toLocaleString('en')} nodes (PSS)`, 'MiB', memory(runtime.pid())]);
        console.error(runtime.name, values[runtime.name]);
        await runtime.end();
    }
    return values.flowgate.map(([what, unit], at) => ({
        what, unit, values: Object.fromEntries(runtimes.map(({ name }) => [name, values[name][at][2]])),
    }));
}

/** flowgate with its own engine. */
export async function flowgate(program) {
    const gateway = new Gateway('bench', program, `
        server = { listen = ["127.0.0.1:0"], workers = 1 }
        log = { format = "json", access = false }
        [[route]]
        path = "/page"
        prefix = true
        public = true`);
    await gateway.start();
    return {
        name: 'flowgate', pid: () => gateway.child.pid, base: `https://127.0.0.1:${gateway.port}`,
        headers: { Authorization: `Bearer ${await gateway.token()}` }, client: https, directory: gateway.directory,
        end: () => gateway.stop().then(() => gateway.remove()),
    };
}

async function nodeRed() {
    const port = await freePort();
    const red = new NodeRed(port);
    fs.appendFileSync(path.join(red.directory, 'settings.js'), 'module.exports.apiMaxLength = "200mb";\n');
    await red.start((status) => status > 0);
    return {
        name: 'Node-RED', pid: () => red.child.pid, base: `http://127.0.0.1:${port}`,
        headers: {}, client: http, directory: red.directory, end: () => red.remove(),
    };
}

/** Milliseconds from the request until the page answers again with the flows that were sent. */
async function deployments(runtime, type) {
    const times = [];
    await deploy(runtime, flows(NODES, 'first'), 'full');
    for (let round = 0; round < ROUNDS; round++) {
        const set = flows(NODES, `${type} ${round}`);
        const body = JSON.stringify({ flows: set });
        const began = performance.now();
        await deploy(runtime, set, type, body);
        times.push(performance.now() - began);
        await pause(300);
    }
    return median(times);
}

/** Deploys the flows; returns when their page answers. */
export async function deploy(runtime, set, type, body = JSON.stringify({ flows: set })) {
    const headers = { ...runtime.headers, 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', 'Node-RED-Deployment-Type': type };
    const status = await ask(runtime, 'POST', '/flows', headers, body);
    if (status !== 200) throw new Error(`${runtime.name}: POST /flows: ${status}`);
    // Node-RED answers before its nodes have started.
    await until('the page answers', async () => (await ask(runtime, 'GET', '/page?name=you', {})) === 200);
}

function ask(runtime, method, url, headers, body) {
    return new Promise((done, failed) => {
        const request = runtime.client.request(runtime.base + url, { method, headers, agent: false, rejectUnauthorized: false }, (response) => {
            response.resume().on('end', () => done(response.statusCode)).on('error', failed);
        });
        request.on('error', failed).end(body);
    });
}

/** Processor time of a request; over TLS at flowgate, without at Node-RED. */
async function requests(runtime) {
    const samples = [];
    for (let round = 0; round < 4; round++) {
        const before = processorTime(runtime.pid());
        const count = await send({ what: 'page', path: '/page?name=you', connections: 32 }, runtime.base, 'none', SECONDS, runtime.directory);
        samples.push((processorTime(runtime.pid()) - before) / count);
    }
    return median(samples.slice(1));
}
