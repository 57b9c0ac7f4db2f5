// The node host under load. `chaos`: what native flows notice when the host is killed every 5 s, beside the same without
// kills. `figures`: what a message through a foreign node costs, and the memory, beside a Node-RED with the same packages.
//
// `start`: when native flows are live after a start, with and without a host, by turns.
//
//   node node_host.mjs FLOWGATE chaos|figures|start [SECONDS]     see tests/node-host-load

import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { Gateway, NodeRed, median, pause, percentile, until } from './parts.mjs';

const tests = path.resolve(import.meta.dirname, '..');
const PACKAGES = ['node-red-node-random', 'node-red-node-smooth', 'node-red-contrib-queue-gate'];
const [program, what, seconds = '120'] = process.argv.slice(2);
/** Milliseconds between two kills. */
const KILLS = 5000;
const WITHOUT_HOST = `
server = { listen = ["127.0.0.1:0"], workers = 1 }
log = { format = "json", access = false }
`;
const CONFIG = `${WITHOUT_HOST}[engine.node_host]
directory = "user"
`;
/** Messages on their way when as many as possible are sent. */
const IN_FLIGHT = 256;
/** Starts that are measured of each. */
const STARTS = 15;

/** A user directory with the packages, and with Node-RED's runtime where flowgate needs it. */
function install(directory, withRuntime) {
    const modules = path.join(directory, 'node_modules');
    fs.mkdirSync(modules, { recursive: true });
    const link = (from, name) => fs.symlinkSync(path.join(tests, from, 'node_modules', name), path.join(modules, name));
    PACKAGES.forEach((name) => link('node_host', name));
    if (withRuntime) link('.', '@node-red');
}

function gatewayWith(config) {
    const gateway = new Gateway('node-host', path.resolve(program), config);
    install(path.join(gateway.directory, 'user'), true);
    return gateway;
}

/** A runtime: processes, and how to deploy. */
async function flowgate() {
    const gateway = gatewayWith(CONFIG);
    await gateway.start();
    await until('the host is ready', () => gateway.log.some((line) => line.includes('the node host is ready')));
    const token = await gateway.token();
    const deploy = async (flows) => {
        const { status, body } = await gateway.deploy(token, flows);
        if (status !== 200) throw new Error(`POST /flows: ${status} ${body}`);
    };
    return { name: 'flowgate', deploy, pids: () => [gateway.child.pid, ...childrenOf(gateway.child.pid)], remove: () => gateway.remove() };
}

async function nodeRed() {
    const red = new NodeRed(await freePort());
    install(red.directory, false);
    await red.start((status) => status === 404);
    const deploy = async (flows) => {
        const headers = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2' };
        const { status } = await fetch(`http://127.0.0.1:${red.port}/flows`, { method: 'POST', headers, body: JSON.stringify({ flows }) });
        if (status !== 200) throw new Error(`POST /flows: ${status}`);
    };
    return { name: 'Node-RED', deploy, pids: () => [red.child.pid], remove: () => red.remove() };
}

const childrenOf = (pid) =>
    fs.readdirSync(`/proc/${pid}/task`).flatMap((task) => fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number));

const freePort = () =>
    new Promise((done) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => done(port));
        });
    });

/** Lines to a port come back through these nodes between two function nodes: `[type, properties]` each. */
function echo(tab, port, nodes) {
    const id = (n) => `${tab}${n}`;
    const pass = ['function', { func: 'return msg', outputs: 1 }];
    const tcp = { server: 'server', host: '', port: String(port), datamode: 'stream', datatype: 'utf8', newline: '\\n', topic: '' };
    const all = [['tcp in', tcp], pass, ...nodes, pass, ['function', { func: 'msg.payload += "\\n"; return msg', outputs: 1 }], ['tcp out', { beserver: 'reply', base64: false, end: false }]];
    return [{ id: tab, type: 'tab', label: tab }, ...all.map(([type, more], n) => ({ id: id(n), z: tab, type, x: 1, y: 1, ...more, wires: n + 1 < all.length ? [[id(n + 1)]] : [] }))];
}
const native = ['function', { func: 'msg.random = 7; return msg', outputs: 1 }];
const foreign = ['random', { low: '7', high: '7', inte: 'true', property: 'random' }];

/** A client that sends numbered lines at a rate, and knows how long each took. */
class Lines {
    static async to(port) {
        const lines = new Lines();
        await until(`port ${port} is open`, () => new Promise((done) => {
            lines.socket = net.connect(port, '127.0.0.1', () => done(true)).on('error', () => done(false));
        }));
        Object.assign(lines, { sent: [], took: [], rest: '' });
        lines.socket.setNoDelay(true).on('data', (data) => lines.receive(String(data)));
        return lines;
    }

    receive(text) {
        const all = (this.rest + text).split('\n');
        this.rest = all.pop();
        for (const line of all) this.took.push(performance.now() - this.sent[Number(line)]);
    }

    async run(rate, ms) {
        const began = performance.now();
        for (let passed = 0; passed < ms; passed = performance.now() - began) {
            for (const due = (passed * rate) / 1000; this.sent.length < due; ) {
                this.socket.write(`${this.sent.push(performance.now()) - 1}\n`);
            }
            await pause(2);
        }
    }

    /** Keeps this many lines on their way. Returns how many came back a second. */
    async saturate(inFlight, ms) {
        const [began, before] = [performance.now(), this.took.length];
        while (performance.now() - began < ms) {
            let batch = '';
            while (this.sent.length - this.took.length < inFlight) batch += `${this.sent.push(performance.now()) - 1}\n`;
            if (batch) this.socket.write(batch);
            await new Promise(setImmediate);
        }
        return ((this.took.length - before) * 1000) / (performance.now() - began);
    }

    async all(patience) {
        await until('all lines are back', () => this.took.length >= this.sent.length, patience).catch(() => {});
    }

    figures() {
        const sorted = [...this.took].sort((a, b) => a - b);
        const ms = (p) => percentile(sorted, p).toFixed(2);
        return `sent ${this.sent.length}, lost ${this.sent.length - this.took.length}, p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms, worst ${ms(1)} ms`;
    }
}

/** One run: native lines and lines through the host; with or without kills. */
async function chaos(isKilled) {
    const runtime = await flowgate();
    const ports = [await freePort(), await freePort()];
    await runtime.deploy([...echo('native', ports[0], [native]), ...echo('foreign', ports[1], [foreign])]);
    const [ours, theirs] = [await Lines.to(ports[0]), await Lines.to(ports[1])];
    let kills = 0;
    const killer = setInterval(() => {
        if (isKilled) runtime.pids().slice(1).forEach((pid) => ++kills && process.kill(pid, 'SIGKILL'));
    }, KILLS);
    await Promise.all([ours.run(500, seconds * 1000), theirs.run(500, seconds * 1000)]);
    clearInterval(killer);
    await ours.all(30_000);
    await theirs.all(isKilled ? 10_000 : 30_000);
    console.log(`${isKilled ? `${kills} kills` : 'no kills'}\n  native:  ${ours.figures()}\n  foreign: ${theirs.figures()}`);
    runtime.remove();
    if (ours.took.length !== ours.sent.length) process.exitCode = 1;
}

/** Processor time in ms. */
const cpu = (pids) =>
    pids.reduce((sum, pid) => {
        const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
        return sum + (Number(fields[11]) + Number(fields[12])) * 10;
    }, 0);
const pss = (pids) =>
    pids.reduce((sum, pid) => sum + Number(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8').match(/^Pss:\s+(\d+)/m)[1]), 0) / 1024;

/** Messages at 1,000 a second. */
async function measured(runtime, name, nodes) {
    const port = await freePort();
    await runtime.deploy(echo('flow', port, nodes));
    const lines = await Lines.to(port);
    await lines.run(1000, 2000);
    const [before, from] = [cpu(runtime.pids()), lines.sent.length];
    lines.took = [];
    await lines.run(1000, 8_000);
    await lines.all(10_000);
    const spent = ((cpu(runtime.pids()) - before) * 1000) / (lines.sent.length - from);
    const sorted = lines.took.sort((a, b) => a - b);
    console.log(`${runtime.name}, ${name}, 1,000 a second: ${spent.toFixed(0)} µs CPU a message, p50 ${(percentile(sorted, 0.5) * 1000).toFixed(0)} µs, p99 ${(percentile(sorted, 0.99) * 1000).toFixed(0)} µs`);
    lines.socket.destroy();
    await pause(200);
    await saturated(runtime, name, nodes);
}

/** As many messages as it takes, with a number of them on their way. */
async function saturated(runtime, name, nodes) {
    const port = await freePort();
    await runtime.deploy(echo('flow', port, nodes));
    const lines = await Lines.to(port);
    await lines.saturate(IN_FLIGHT, 2000);
    await lines.all(10_000);
    const [before, from] = [cpu(runtime.pids()), lines.took.length];
    const rate = await lines.saturate(IN_FLIGHT, 8000);
    await lines.all(10_000);
    const spent = ((cpu(runtime.pids()) - before) * 1000) / (lines.took.length - from);
    console.log(`${runtime.name}, ${name}, ${IN_FLIGHT} on their way: ${spent.toFixed(1)} µs CPU a message, ${rate.toFixed(0)} a second`);
    lines.socket.destroy();
}

async function figures(make) {
    const runtime = await make();
    await runtime.deploy(echo('flow', await freePort(), [foreign]));
    await pause(5000);
    console.log(`${runtime.name}, PSS with ${PACKAGES.length} packages: ${pss(runtime.pids()).toFixed(0)} MiB`);
    await measured(runtime, 'native → native → native', [native]);
    await measured(runtime, 'native → foreign → native', [foreign]);
    await measured(runtime, 'native → 10 foreign → native', Array.from({ length: 10 }, () => foreign));
    runtime.remove();
}

/** Milliseconds from the start of the process until a native flow returns a line. */
async function startOf(gateway, port) {
    gateway.gone = false;
    const began = performance.now();
    const listening = gateway.start();
    while (!(await answers(port))) await pause(1);
    const took = performance.now() - began;
    await listening;
    gateway.signal('SIGTERM');
    await gateway.ended;
    return took;
}

const answers = (port) =>
    new Promise((done) => {
        const socket = net.connect(port, '127.0.0.1', () => socket.write('0\n'));
        socket.on('data', () => done(true) || socket.destroy()).on('error', () => done(false));
    });

async function starts() {
    const kinds = [];
    for (const [name, config, other] of [['without a host', WITHOUT_HOST, native], ['with a host', CONFIG, foreign]]) {
        const [gateway, port] = [gatewayWith(config), await freePort()];
        await gateway.start();
        const tabs = Array.from({ length: 100 }, (_, n) => n).map((n) => [{ id: `t${n}`, type: 'tab', label: `t${n}` }, { id: `n${n}`, z: `t${n}`, type: 'function', x: 1, y: 1, func: 'return msg', outputs: 1, wires: [] }]);
        const flows = [...echo('native', port, [native]), ...echo('other', await freePort(), [other]), ...tabs.flat()];
        const { status, body } = await gateway.deploy(await gateway.token(), flows);
        if (status !== 200) throw new Error(`POST /flows: ${status} ${body}`);
        gateway.signal('SIGTERM');
        await gateway.ended;
        kinds.push({ name, gateway, port, took: [] });
    }
    for (let n = 0; n < STARTS; n++) {
        for (const { gateway, port, took } of kinds) took.push(await startOf(gateway, port));
    }
    for (const { name, gateway, took } of kinds) {
        const sorted = took.sort((a, b) => a - b);
        console.log(`native flows are live ${name}: median ${median(sorted).toFixed(1)} ms, ${sorted[0].toFixed(1)} to ${sorted.at(-1).toFixed(1)} ms in ${STARTS} starts`);
        gateway.remove();
    }
}

if (what === 'start') {
    await starts();
} else if (what === 'chaos') {
    await chaos(false);
    await chaos(true);
} else {
    await figures(flowgate);
    await figures(nodeRed);
}
process.exit();
