// The flow engine under load, beside a Node-RED of the same run: how long others wait, how much memory waiting messages
// take, how costs grow. One row a case; each starts a runtime of its own.
//
//   node engine.mjs FLOWGATE [CASE]     see tests/engine-load

import dgram from 'node:dgram';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { Gateway, NodeRed, WebSocket, median, pause, percentile, until } from './parts.mjs';

const CONFIG = `
server = { listen = ["127.0.0.1:0"], workers = 1 }
log = { format = "json", access = false }
`;
const SECONDS = 5;
const program = path.resolve(process.argv[2]);
const only = process.argv[3] ?? '';
const MB = (kib) => Math.round(kib / 1024);
const ms = (value) => Math.round(value * 10) / 10;

/** A runtime under test: flowgate's engine, or Node-RED. */
class Runtime {
    static async flowgate(threads = 1) {
        const gateway = new Gateway('engine-load', program, `${CONFIG}engine = { threads = ${threads} }\n`);
        await gateway.start();
        const token = await gateway.token();
        return new Runtime(gateway, `https://127.0.0.1:${gateway.port}`, { Authorization: `Bearer ${token}` });
    }

    static async nodeRed() {
        const port = await freePort();
        const red = new NodeRed(port);
        // A full set of 4,000 endpoints is larger than what Node-RED takes by default.
        fs.appendFileSync(path.join(red.directory, 'settings.js'), 'module.exports.apiMaxLength = "200mb";\n');
        await red.start((status) => status === 404 || status === 200);
        return new Runtime(red, `http://127.0.0.1:${port}`, {});
    }

    constructor(process, base, headers) {
        this.process = process;
        this.base = base;
        this.headers = headers;
        this.client = base.startsWith('https') ? https : http;
        this.agent = new this.client.Agent({ keepAlive: true, rejectUnauthorized: false });
        this.peak = 0;
        this.sampler = setInterval(() => (this.peak = Math.max(this.peak, this.rss())), 20);
    }

    request(method, url, { headers = {}, body, patience = 120_000 } = {}) {
        return new Promise((done, failed) => {
            const options = { method, agent: this.agent, timeout: patience, headers: { ...this.headers, ...headers } };
            const request = this.client.request(this.base + url, options, (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece)).on('error', failed);
                response.on('end', () => done({ status: response.statusCode, body: Buffer.concat(pieces) }));
            });
            request.on('error', failed).on('timeout', () => request.destroy(new Error('no response')));
            request.end(body);
        });
    }

    async deploy(flows, type = 'full') {
        const headers = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', 'Node-RED-Deployment-Type': type };
        const began = performance.now();
        const response = await this.request('POST', '/flows', { headers, body: JSON.stringify({ flows }) });
        if (response.status !== 200) throw new Error(`POST /flows: ${response.status} ${response.body}`);
        return performance.now() - began;
    }

    /** Deploys, and waits until the last endpoint answers: Node-RED responds before its nodes have started. */
    async deployLive(flows, url, type) {
        const began = performance.now();
        await this.deploy(flows, type);
        await until(`${url} answers`, async () => (await this.request('GET', url)).status === 200);
        return performance.now() - began;
    }

    inject(id) {
        return this.request('POST', `/inject/${id}`);
    }

    status(field) {
        return Number(fs.readFileSync(`/proc/${this.process.child.pid}/status`, 'utf8').match(new RegExp(`^${field}:\\s+(\\d+)`, 'm'))?.[1] ?? 0);
    }

    rss() {
        try {
            return this.status('VmRSS');
        } catch {
            return 0;
        }
    }

    /** Processor time in ms. */
    cpu() {
        const fields = fs.readFileSync(`/proc/${this.process.child.pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
        return (Number(fields[11]) + Number(fields[12])) * 10;
    }

    async end() {
        clearInterval(this.sampler);
        this.agent.destroy();
        this.process.remove();
    }
}

const freePort = () =>
    new Promise((done) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => done(port));
        });
    });

let ids = 0;
/** Nodes of a tab: `[type, properties, wires]`, wired by the names that `id` gives. */
function tab(name, ...nodes) {
    const z = `tab${name}`;
    return [{ id: z, type: 'tab', label: name }, ...nodes.map(([type, properties, ...wires]) => ({ id: `n${++ids}`, z, type, x: 1, y: 1, ...properties, wires }))];
}
const page = (name) => tab(`page-${name}`,
    ['http in', { id: `in-${name}`, method: 'get', url: `/${name}` }, [`out-${name}`]],
    ['http response', { id: `out-${name}` }]);
/** A page that shows what flows have counted. */
const totalPage = () => tab('total',
    ['http in', { method: 'get', url: '/total' }, ['read']],
    ['function', { id: 'read', ...code('msg.payload = String(global.get("total") || 0); return msg') }, ['say']],
    ['http response', { id: 'say' }]);
const total = async (runtime) => Number((await runtime.request('GET', '/total')).body);
const code = (func, more) => ({ func, outputs: 1, ...more });
const inject = (id) => ({ id, props: [{ p: 'payload' }], payload: '1', payloadType: 'num', repeat: '', once: false });
const udpOut = (port) => ({ addr: '127.0.0.1', port: String(port), iface: '', ipv: 'udp4', outport: '', base64: false, multicast: 'false' });

/** Counts and keeps the datagrams that flows send. */
async function sink() {
    const socket = dgram.createSocket('udp4');
    await new Promise((done) => socket.bind(0, '127.0.0.1', done));
    const received = [];
    socket.on('message', (data) => received.push({ at: performance.now(), text: String(data) }));
    return { port: socket.address().port, received, close: () => socket.close() };
}

/** Requests a page every 10 ms for some seconds. */
async function waits(runtime, url, seconds = SECONDS) {
    const times = [];
    for (const end = performance.now() + seconds * 1000; performance.now() < end; await pause(10)) {
        const began = performance.now();
        const { status } = await runtime.request('GET', url).catch(({ message }) => ({ status: message }));
        if (status !== 200) throw new Error(`GET ${url}: ${status}`);
        times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    return { p50: ms(percentile(times, 0.5)), p99: ms(percentile(times, 0.99)), worst: ms(times.at(-1)) };
}

/** Messages that go round in a function node of another tab. */
const circling = (count) => async (runtime) => {
    const busy = tab('busy',
        ['inject', inject('go'), ['make']],
        ['function', { id: 'make', ...code(`return [Array.from({ length: ${count} }, (_, n) => ({ payload: n }))]`) }, ['turn']],
        ['function', { id: 'turn', ...code('msg.payload++; return msg') }, ['turn']]);
    await runtime.deployLive([...busy, ...page('quiet')], '/quiet');
    await waits(runtime, '/quiet', 1);
    await runtime.inject('go');
    await pause(500);
    return waits(runtime, '/quiet');
};

/** 100 senders, as fast as the runtime reads; every byte it took is counted by the flow. */
const tcpFlood = (datatype) => async (runtime) => {
    const port = await freePort();
    const last = 12;
    const changes = Array.from({ length: last }, (_, n) => ['change', { id: `c${n}`, rules: [{ t: 'set', p: 'a', pt: 'msg', to: String(n), tot: 'num' }] }, [n + 1 < last ? `c${n + 1}` : 'count']]);
    await runtime.deploy([...tab('flood',
        ['tcp in', { server: 'server', host: '', port: String(port), datamode: 'stream', datatype, newline: datatype === 'utf8' ? '\\n' : '', topic: '' }, ['c0']],
        ...changes,
        ['function', { id: 'count', ...code('global.set("total", (global.get("total") || 0) + msg.payload.length + ' + (datatype === 'utf8' ? 1 : 0) + '); return null') }]),
        ...totalPage()]);
    await until('the listener is up', () => new Promise((done) => net.connect(port, '127.0.0.1').on('connect', function () { this.destroy(); done(true); }).on('error', () => done(false))));
    const line = Buffer.from(`${'x'.repeat(1023)}\n`.repeat(64));
    const sockets = await Promise.all(Array.from({ length: 100 }, () => new Promise((done) => {
        const socket = net.connect(port, '127.0.0.1', () => done(socket));
        socket.on('error', () => {});
    })));
    const end = performance.now() + SECONDS * 1000;
    await Promise.all(sockets.map(async (socket) => {
        while (performance.now() < end && !socket.destroyed) {
            if (!socket.write(line)) await Promise.race([new Promise((done) => socket.once('drain', done)), pause(SECONDS * 1000)]);
            else await new Promise(setImmediate);
        }
        // All that was written is with the system, or with the runtime.
        await new Promise((done) => socket.once('close', done).end(done));
    }));
    const handedOver = sockets.reduce((sum, socket) => sum + socket.bytesWritten, 0);
    const began = performance.now();
    await until('all bytes are counted', async () => (await total(runtime)) >= handedOver, 120_000).catch(() => {});
    return {
        'handed over MB': MB(handedOver / 1024),
        'bytes not counted': handedOver - (await total(runtime)),
        'counted after s': ms((performance.now() - began) / 1000),
        'peak RSS MB': MB(runtime.peak),
    };
};

/** A node that is wired twice to itself: the messages double. */
async function doubling(runtime) {
    await runtime.deploy([...tab('loop',
        ['inject', inject('go'), ['twice']],
        ['change', { id: 'twice', rules: [] }, ['twice', 'twice']]), ...page('quiet')]);
    await runtime.inject('go');
    let responses = 0;
    for (const end = performance.now() + 10_000; performance.now() < end && runtime.rss() < 6 << 20; await pause(500)) {
        responses += await runtime.request('GET', '/quiet', { patience: 2000 }).then(() => 1, () => 0);
    }
    const peak = runtime.peak;
    const ended = await Promise.race([runtime.deployLive(page('after'), '/after').then(ms), pause(30_000).then(() => 'never')]).catch(({ message }) => message);
    return { 'peak RSS MB': MB(peak), 'responses of 20': responses, 'next deployment ms': ended };
}

/** Large WebSocket frames to a flow that is busy. */
async function frames(runtime) {
    const flows = [{ id: 'listener', type: 'websocket-listener', path: '/ws', wholemsg: 'false' }, ...tab('frames',
        ['websocket in', { server: 'listener', client: '' }, ['work']],
        ['function', { id: 'work', ...code('const end = Date.now() + 50; while (Date.now() < end); global.set("total", (global.get("total") || 0) + 1); return null') }]),
        ...totalPage()];
    await runtime.deployLive(flows, '/total');
    const before = runtime.rss();
    const socket = new WebSocket(`${runtime.base.replace('http', 'ws')}/ws`, { rejectUnauthorized: false, headers: runtime.headers });
    await new Promise((done) => socket.on('open', done));
    const frame = Buffer.alloc(4 << 20, 'x');
    for (let n = 0; n < 60; n++) socket.send(frame);
    await until('all is sent', () => socket.bufferedAmount === 0, 60_000);
    await until('all frames are counted', async () => (await total(runtime)) >= 60, 60_000).catch(() => {});
    socket.terminate();
    return { 'frames counted': await total(runtime), 'RSS before MB': MB(before), 'peak RSS MB': MB(runtime.peak) };
}

/** Work per message inside a function, measured by messages through it. */
const perMessage = (func, { setup = '', count = 2000, outputs = 1 } = {}) => async (runtime) => {
    const { port, received, close } = await sink();
    await runtime.deployLive([...page('live'), ...tab('cost',
        ['inject', inject('go'), ['make']],
        ['function', { id: 'make', ...code(`${setup}; return [Array.from({ length: ${count} }, (_, n) => ({ payload: n }))]`) }, ['work']],
        ['function', { id: 'work', ...code(func, { outputs }) }, ['last']],
        ['switch', { id: 'last', property: 'payload', propertyType: 'msg', rules: [{ t: 'eq', v: String(count - 1), vt: 'num' }], checkall: 'true', outputs: 1 }, ['text']],
        ['change', { id: 'text', rules: [{ t: 'set', p: 'payload', pt: 'msg', to: 'done', tot: 'str' }] }, ['out']],
        ['udp out', { id: 'out', ...udpOut(port) }])], '/live');
    const costs = [];
    for (let round = 1; round <= 4; round++) {
        const before = runtime.cpu();
        await runtime.inject('go');
        await until('the last message arrives', () => received.length >= round, 120_000);
        costs.push(((runtime.cpu() - before) * 1000) / count);
    }
    close();
    return { 'µs CPU a message': ms(median(costs.slice(1))) };
};

const MARK = [{ t: 'set', p: 'mark', pt: 'msg', to: '1', tot: 'num' }];
/** A message that goes through ten functions and round again, with this payload; or five, each with a change node behind it. */
const inARow = (payload, touch, turns, isMixed) => async (runtime) => {
    const steps = 10;
    const touches = Array.from({ length: steps }, (_, n) => [
        ...(isMixed && n % 2 ? ['change', { id: `step${n}`, rules: MARK }] : ['function', { id: `step${n}`, ...code(touch) }]),
        [n + 1 < steps ? `step${n + 1}` : 'again']]);
    await runtime.deploy([...tab('row',
        ['inject', inject('go'), ['make']],
        ['function', { id: 'make', ...code(`msg.left = ${turns}; msg.payload = ${payload}; return msg`) }, ['step0']],
        ...touches,
        ['function', { id: 'again', ...code('if (--msg.left > 0) return msg; global.set("total", 1); return null') }, ['step0']]),
    ...totalPage()]);
    await until('the flow answers', async () => (await total(runtime)) === 0);
    const before = runtime.cpu();
    await runtime.inject('go');
    await until('the last turn is done', async () => (await total(runtime)) === 1, 120_000);
    return { 'µs CPU a node': ms(((runtime.cpu() - before) * 1000) / (turns * (steps + 1))) };
};
const RECORDS = 'Array.from({ length: 1000 }, (_, n) => ({ id: n, name: "n" + n, value: n / 3 }))';

/** Full deployments of many endpoints. */
const endpoints = (count) => async (runtime) => {
    const flows = Array.from({ length: count / 100 }, (_, t) => tab(`many${t}`,
        ...Array.from({ length: 100 }, (_, n) => ['http in', { method: 'get', url: `/e/${t}/${n}` }, [`answer${t}`]]),
        ['http response', { id: `answer${t}` }])).flat();
    const times = [];
    for (let round = 0; round < 5; round++) times.push(await runtime.deployLive([...flows, ...page(`live${round}`)], `/live${round}`));
    return { 'full, live, ms': ms(median(times)) };
};

/** Memory that remains after full deployments of many nodes; idle is a runtime with a page. */
async function deployments(runtime) {
    const flows = (edit) => Array.from({ length: 100 }, (_, t) => tab(`many${t}`,
        ...Array.from({ length: 100 }, (_, n) => ['change', { id: `c${t}-${n}`, name: `step ${n}`, rules: [{ t: 'set', p: 'payload', pt: 'msg', to: String(edit), tot: 'num' }] }, n < 99 ? [`c${t}-${n + 1}`] : []]))).flat();
    await runtime.deployLive(page('idle'), '/idle');
    await pause(3000);
    const idle = runtime.rss();
    for (let edit = 1; edit <= 5; edit++) await runtime.deployLive([...flows(edit), ...page(`live${edit}`)], `/live${edit}`);
    await pause(5000);
    return { 'RSS idle MB': MB(idle), 'RSS above idle MB': ms((runtime.rss() - idle) / 1024), 'peak RSS MB': MB(runtime.peak) };
}

/** Deployments of kind `nodes` after an edit inside a subflow. */
const instances = (count) => async (runtime) => {
    const used = Array.from({ length: count / 50 }, (_, t) => tab(`use${t}`, ...Array.from({ length: 50 }, () => ['subflow:sub', {}, []]))).flat();
    const flows = (edit) => [
        { id: 'sub', type: 'subflow', name: 'sub', in: [{ x: 1, y: 1, wires: [{ id: 'inside' }] }], out: [{ x: 1, y: 1, wires: [{ id: 'inside2', port: 0 }] }] },
        { id: 'inside', z: 'sub', type: 'change', x: 1, y: 1, rules: [{ t: 'set', p: 'payload', pt: 'msg', to: String(edit), tot: 'num' }], wires: [['inside2']] },
        { id: 'inside2', z: 'sub', type: 'change', x: 1, y: 1, rules: [], wires: [[]] },
        ...used,
        ...page(`edit${edit}`),
    ];
    await runtime.deploy(flows(0));
    const times = { nodes: [], full: [] };
    let edit = 0;
    for (const type of Array.from({ length: 11 }, () => ['nodes', 'full']).flat()) times[type].push(await runtime.deployLive(flows(++edit), `/edit${edit}`, type));
    return { 'nodes ms': ms(median(times.nodes)), 'full ms': ms(median(times.full)) };
};

/** A function that blocks 300 of every 350 ms, and a timer on another tab. */
async function blocking(runtime) {
    const { port, received, close } = await sink();
    await runtime.deployLive([...page('quiet'), ...tab('block',
        ['inject', { ...inject('go'), repeat: '0.35' }, ['work']],
        ['function', { id: 'work', ...code('const end = Date.now() + 300; while (Date.now() < end); return null') }]),
        ...tab('timer', ['inject', { ...inject('tick'), repeat: '0.1', payload: '', payloadType: 'date' }, ['text']],
            ['function', { id: 'text', ...code('msg.payload = String(msg.payload); return msg') }, ['out']], ['udp out', { id: 'out', ...udpOut(port) }])], '/quiet');
    const page1 = await waits(runtime, '/quiet');
    const gaps = received.slice(1).map(({ at }, n) => at - received[n].at - 100).sort((a, b) => a - b);
    close();
    return { 'p99 ms': page1.p99, 'timer late p99 ms': ms(percentile(gaps, 0.99)) };
}

/** The same, with several threads of flowgate's engine. */
const onThreads = (threads, measure) => Object.assign((runtime) => measure(runtime), { threads });

/** A search that backtracks, in a switch node, and a page of another tab. */
async function backtracking(runtime) {
    await runtime.deployLive([...page('quiet'), ...tab('search',
        ['inject', { ...inject('go'), props: [{ p: 'payload' }], payload: `${'a'.repeat(30)}!`, payloadType: 'str' }, ['test']],
        ['switch', { id: 'test', property: 'payload', propertyType: 'msg', rules: [{ t: 'regex', v: '^(a+)+$', vt: 'str', case: false }], checkall: 'true', outputs: 1 }, []])], '/quiet');
    setTimeout(() => runtime.inject('go').catch(() => {}), 500);
    const { worst } = await waits(runtime, '/quiet');
    return { 'worst ms': worst };
}

/** 200,000 messages to a debug node; one editor reads, another does not. */
async function debugFlood(runtime) {
    const { port, received, close } = await sink();
    await runtime.deploy(tab('flood',
        ['inject', inject('go'), ['make']],
        ['function', { id: 'make', ...code('for (let n = 0; n < 200000; n++) node.send({ payload: n }); node.send({ payload: "last" }); return null') }, ['show', 'last']],
        ['switch', { id: 'last', property: 'payload', propertyType: 'msg', rules: [{ t: 'eq', v: 'last', vt: 'str' }], checkall: 'true', outputs: 1 }, ['ended']],
        ['udp out', { id: 'ended', ...udpOut(port) }],
        ['debug', { id: 'show', active: true, tosidebar: true, console: false, tostatus: false, complete: 'payload', targetType: 'msg' }]));
    const open = () => new Promise((done) => {
        const socket = new WebSocket(`${runtime.base.replace('http', 'ws')}/comms`, { rejectUnauthorized: false });
        socket.on('open', () => {
            const token = runtime.headers.Authorization?.split(' ')[1];
            if (token) socket.send(JSON.stringify({ auth: token }));
            else socket.send(JSON.stringify({ subscribe: 'debug' }));
        });
        socket.on('message', (data) => String(data).includes('"auth":"ok"') && socket.send(JSON.stringify({ subscribe: 'debug' })));
        setTimeout(() => done(socket), 300);
    });
    const [reader, stalled] = [await open(), await open()];
    stalled._socket.pause();
    let [newest, shown, lost] = [0, 0, 0];
    reader.on('message', (data) => {
        for (const { topic, data: message } of [JSON.parse(String(data))].flat()) {
            if (topic !== 'debug') continue;
            if (message.id === 'show') shown++;
            else lost += Number(/^(\d+) messages were lost/.exec(message.msg)?.[1] ?? 0);
            if (message.id === 'show' && message.msg === 'last') newest = performance.now();
        }
    });
    await runtime.inject('go');
    const patience = 90_000;
    await until('the flood has ended', () => received.length > 0, patience).catch(() => {});
    await until('the newest message is shown', () => newest, patience).catch(() => {});
    for (const socket of [reader, stalled]) socket.terminate();
    close();
    const late = newest && received.length ? ms(newest - received[0].at) : 'never (90 s)';
    return { 'newest after the flood ms': late, shown, 'counted as lost': lost, missing: 200_001 - shown - lost, 'peak RSS MB': MB(runtime.peak) };
}

/** 60 functions, as flows declare them to use some of them. */
const HELPERS = Array.from({ length: 60 }, (_, n) => `function helper${n}(value, unit) { return { text: (value * ${n}).toFixed(1) + unit, isHigh: value > ${n} }; }\n`).join('');
/** Memory of function nodes that have run once. */
const functions = (count, helpers = '') => async (runtime) => {
    const nodes = Array.from({ length: count }, (_, n) => ['function', { id: `f${n}`, ...code(`${helpers}msg.payload = 1; return msg`) }, n + 1 < count ? [`f${n + 1}`] : ['say']]);
    await runtime.deploy([...page('idle')]);
    await pause(1000);
    const before = runtime.rss();
    await runtime.deploy([...tab('chain', ['http in', { method: 'get', url: '/chain' }, ['f0']], ...nodes, ['http response', { id: 'say' }])]);
    await runtime.request('GET', '/chain');
    await pause(1000);
    return { 'KB a node': Math.round((runtime.rss() - before) / count) };
};

const BIG = 'flow.set("big", Object.fromEntries(Array.from({ length: 10000 }, (_, n) => ["k" + n, n])))';
const CASES = {
    'http beside 2,000 circling messages': circling(2000),
    'http beside 20,000 circling messages': circling(20_000),
    'tcp flood, buffers': tcpFlood('buffer'),
    'tcp flood, lines': tcpFlood('utf8'),
    'a node wired twice to itself': doubling,
    '60 frames of 4 MB': frames,
    'debug flood of 200,000': debugFlood,
    'flow.get of 10,000 entries': perMessage('flow.get("big").k5; return msg', { setup: BIG, count: 5000 }),
    'flow.get, change, flow.set': perMessage('const b = flow.get("big"); b.k5 = msg.payload; flow.set("big", b); return msg', { setup: BIG, count: 5000 }),
    'a backtracking search': backtracking,
    '1,000 endpoints': endpoints(1000),
    '2,000 endpoints': endpoints(2000),
    '4,000 endpoints': endpoints(4000),
    '10,000 nodes deployed five times': deployments,
    '250 instances': instances(250),
    '500 instances': instances(500),
    '1,000 instances': instances(1000),
    'a function that blocks': blocking,
    'a function that blocks, two threads': onThreads(2, blocking),
    'return msg': perMessage('return msg', { count: 80_000 }),
    'node.send(msg)': perMessage('node.send(msg); return null', { count: 80_000 }),
    'functions in a row, a number': inARow('1', 'msg.payload++; return msg', 20_000),
    'functions in a row, 1,000 records': inARow(RECORDS, 'msg.payload[0].value++; return msg', 10_000),
    'functions and change nodes in turns, 1,000 records': inARow(RECORDS, 'msg.payload[0].value++; return msg', 10_000, true),
    'functions in a row, a buffer of 64 KiB': inARow('Buffer.alloc(65536)', 'msg.payload[0]++; return msg', 10_000),
    'function nodes that ran once': functions(500),
    'function nodes with 60 helpers that ran once': functions(200, HELPERS),
};

for (const [name, measure] of Object.entries(CASES)) {
    if (!name.includes(only)) continue;
    console.log(name);
    for (const [peer, make] of [['flowgate', Runtime.flowgate], ['Node-RED', Runtime.nodeRed]]) {
        const runtime = await make(measure.threads);
        const figures = await measure(runtime).catch((error) => ({ failed: error.message }));
        await runtime.end();
        console.log(`    ${peer.padEnd(10)}${Object.entries(figures).map(([key, value]) => `${key} ${value}`).join(', ')}`);
    }
}
process.exit();
