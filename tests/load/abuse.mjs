// What malicious clients cost: each kind of abuse beside a well-behaved client, and what is left of it afterwards.
//
//   node abuse.mjs FLOWGATE [KIND]     see tests/abuse

import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import readline from 'node:readline';
import zlib from 'node:zlib';
import { flows, Gateway, pause, processorTime, start, until } from './parts.mjs';

/** What a well-behaved client may have to wait, in ms, of a hundred requests the slowest but one. */
const BEARABLE = 50;
const CONFIG = `
server = { listen = ["127.0.0.1:0"], workers = 2 }
log = { format = "json", access = false }
limits = { connections_per_address = 4000 }
timeouts = { handshake = "5s", header = "5s", body_idle = "5s", keep_alive = "20s" }
auth.throttle = { per_address = 100000, per_user_and_address = 100000 }
editor.modules = ${JSON.stringify(path.resolve(import.meta.dirname, '../node_modules'))}
route = [{ path = "/hello", public = true }, { path = "/upload", public = true }, { path = "/long", public = true }, { path = "/ws", public = true }]
`;
/** Clients of their own addresses: one that abuses what is there for all, and one that does not. */
const [GREEDY, HONEST] = ['127.0.0.7', '127.0.0.8'];
/** A part of the editor that no buffer of the system holds, and a small one. */
const [LARGE_FILE, SMALL_FILE] = ['/vendor/monaco/dist/ts.worker.js', '/favicon.ico'];

const gateway = await new Gateway('abuse', path.resolve(process.argv[2]), CONFIG).start();
const token = await gateway.token();
const listener = [
    { id: 'tab-ws', type: 'tab', label: 'ws' },
    { id: 'listener', type: 'websocket-listener', path: '/ws', wholemsg: 'false' },
    { id: 'hears', z: 'tab-ws', type: 'websocket in', server: 'listener', client: '', x: 1, y: 1, wires: [[]] },
];
await gateway.deploy(token, [...flows('hello'), ...listener]);
/** A well-behaved client as a process of its own; the function gives how long it has waited since the last time. */
function probing(asked, url, from) {
    const probe = start(process.execPath, [path.join(import.meta.dirname, 'probe.mjs'), asked.port, url, '200', from], { stdio: ['pipe', 'pipe', 'inherit'] });
    const reports = readline.createInterface({ input: probe.stdout })[Symbol.asyncIterator]();
    const waited = async () => {
        probe.stdin.write('\n');
        return JSON.parse((await reports.next()).value);
    };
    return { probe, waited };
}
const { probe, waited } = probing(gateway, '/hello', '127.0.0.1');
let failed = false;

/** Frames (RFC 9113 §4.1), and fields as they are, none indexed (RFC 7541 §6.2.2). */
const frame = (kind, flags, stream, payload = Buffer.alloc(0)) => {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.length, 0, 3);
    head.writeUInt8(kind, 3);
    head.writeUInt8(flags, 4);
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, payload]);
};
const field = (name, value) => Buffer.concat([Buffer.from([0, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);
const number = (value) => Buffer.from([value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]);
const preface = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)]);
const head = (method, target) => Buffer.concat([field(':method', method), field(':scheme', 'https'), field(':path', target), field(':authority', 'x')]);
const get = head('GET', '/hello');
const bomb = Buffer.concat([get, Buffer.from([0x40, 1, 120, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4000, 121), Buffer.alloc(12_000, 0xbe)]);
const streams = (count, make) => Array.from({ length: count }, (_, n) => make(2 * n + 1));

/** Sends these frames on one connection; tells whether the gateway closed it. */
async function flood(frames) {
    const socket = await gateway.stream('h2');
    const closed = new Promise((done) => socket.on('close', () => done(true)));
    socket.on('error', () => {}).resume();
    socket.write(preface);
    for (let at = 0; at < frames.length && !socket.destroyed; at += 100) {
        const room = socket.write(Buffer.concat(frames.slice(at, at + 100)));
        if (!room) await Promise.race([new Promise((done) => socket.once('drain', done)), closed, pause(5000)]);
    }
    const end = await Promise.race([closed, pause(5000)]);
    socket.destroy();
    return end ? 'closed' : 'OPEN';
}

/** Many connections that say something and then wait until they are closed. */
async function crowd(count, say, opened, from) {
    const open = [];
    for (let n = 0; n < count; n++) {
        const socket = await gateway.stream('http/1.1', from);
        socket.on('error', () => {});
        const closed = new Promise((done) => socket.on('close', done));
        say(socket);
        open.push({ socket, closed });
    }
    const outcome = await opened?.();
    await Promise.race([Promise.all(open.map(({ closed }) => closed)), pause(60_000)]);
    open.forEach(({ socket }) => socket.destroy());
    return outcome ?? '';
}

const slowly = (text) => (socket) => {
    const timer = setInterval(() => socket.destroyed ? clearInterval(timer) : socket.write('x'), 700);
    socket.on('close', () => clearInterval(timer));
    socket.resume().write(text);
};

const sign = async (count) => {
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: count }, (_, n) => gateway.signIn('guessed', n % 2 ? undefined : 'wrong')));
    const statuses = answers.map(({ status }) => status).sort().join(' ').replace(/(\d+)( \1)*/g, (all, status) => `${all.split(' ').length}×${status}`);
    return `${statuses} in ${Math.round(performance.now() - began)} ms`;
};

/** The longest that a user may have to wait for a sign-in from an address that they have signed in from, in ms. */
const LONGEST_SIGN_IN = 5000;

/**
 * Sign-ins of users that do not exist, from several addresses at the same time, for five seconds. Meanwhile a user signs in
 * again and again at an address that they have signed in from before, and at one that is new to them each time.
 */
async function storm(addresses, each) {
    const home = '127.0.9.1';
    let news = 0;
    const away = () => `127.0.10.${++news}`;
    const status = (user, password, from) => gateway.signIn(user, password, { from }).then((answer) => answer.status, ({ code }) => code);
    if (await status('reader', undefined, home) !== 200) throw new Error('no sign-in before the storm');
    const end = performance.now() + 5000;
    const counts = {};
    const attackers = addresses.flatMap((from) => Array.from({ length: each }, async (_, n) => {
        for (let round = 0; performance.now() < end; round++) {
            const answer = await status(`user ${from} ${n} ${round}`, 'wrong', from);
            counts[answer] = (counts[answer] ?? 0) + 1;
        }
    }));
    const again = async (next) => {
        const waits = [];
        let refused = 0;
        await pause(200);
        while (performance.now() < end) {
            const began = performance.now();
            if (await status('reader', undefined, next()) === 200) waits.push(performance.now() - began);
            else refused++;
            await pause(50);
        }
        return { refused, worst: Math.round(Math.max(0, ...waits)), count: waits.length };
    };
    const [known, stranger] = await Promise.all([again(() => home), again(away), ...attackers]);
    const late = known.refused || !known.count || known.worst > LONGEST_SIGN_IN ? 'REFUSED OR LATE' : 'signed in';
    const outcome = Object.entries(counts).map(([answer, count]) => `${count}×${answer}`).join(' ');
    return `${outcome}; known address: ${known.count} ${late}, worst ${known.worst} ms; new address: ${stranger.count} signed in, ${stranger.refused} refused, worst ${stranger.worst} ms`;
}

/**
 * One client that holds what is there for all, until `abuse` has ended. Beside it an honest one at another address asks for
 * the same: how long it waits. And how much memory the gateway takes at the most, which is bounded by `most` MiB.
 */
const held = (abuse, most, { asked = gateway, url = SMALL_FILE } = {}) => async () => {
    const before = (await asked.uses()).rss;
    const honest = probing(asked, url, HONEST);
    // Each report counts anew.
    let served = 0;
    await until('the honest client is served', async () => (served += (await honest.waited()).count) > 1);
    let [peak, over] = [before, false];
    const watching = (async () => {
        for (; !over; await pause(200)) peak = Math.max(peak, (await asked.uses()).rss);
    })();
    const outcome = await abuse(asked);
    over = true;
    await watching;
    const { p99, wrong } = await honest.waited();
    honest.probe.kill();
    const grown = Math.round((peak - before) / 1024);
    return { outcome: `${outcome}; an honest client beside it: p99 ${p99} ms; at the most ${grown} MiB more`, p99, wrong, large: grown > most };
};

/** How long a greedy client stays: longer than `body_idle` and the time of a sign-in. */
const STAY = 12_000;

/** Streams on some connections from one address, each begun with these frames; one more stream of each connection moves on. */
const many = (connections, count, frames) => async (asked) => {
    const open = [];
    for (let n = 0; n < connections; n++) {
        const socket = await asked.stream('h2', GREEDY);
        socket.on('error', () => {}).resume();
        // Room for all streams together, but for each only what it has at the beginning.
        socket.write(Buffer.concat([preface, frame(8, 0, 0, number(1 << 30)), ...streams(count - 1, frames)]));
        open.push(socket);
    }
    let stream = 2 * count - 1;
    for (const since = Date.now(); Date.now() - since < STAY; await pause(500)) {
        for (const socket of open) if (!socket.destroyed) socket.write(frame(1, 5, stream, head('GET', '/auth/login')));
        stream += 2;
    }
    const left = open.filter(({ destroyed }) => !destroyed).length;
    open.forEach((socket) => socket.destroy());
    return `${left} of ${connections} connections left`;
};

/** Bodies on some connections from one address, each begun and never whole: of nobody known, or of a user. */
const unfinished = (connections, count, url, kind, { bytes = 16_000, user } = {}) => async (asked) => {
    const authorization = user && { authorization: `Bearer ${await asked.token(user)}` };
    const answers = {};
    const sessions = [];
    while (sessions.length < connections) {
        const session = asked.h2(GREEDY);
        sessions.push(session);
        for (let n = 0; n < count && !session.closed && !session.destroyed; n++) {
            const stream = session.request({ ':method': 'POST', ':path': url, 'content-type': kind, ...authorization });
            stream.on('error', () => {}).on('response', ({ ':status': status }) => (answers[status] = (answers[status] ?? 0) + 1));
            stream.resume().write(Buffer.alloc(bytes, 120));
        }
        await pause(10);
    }
    await pause(STAY);
    sessions.forEach((session) => session.destroy());
    return JSON.stringify(answers).replaceAll('"', '');
};

/** Comments of some 200 bytes each, of about this many bytes together. */
const large = (bytes) => Array.from({ length: bytes / 200 }, (_, n) => (
    { id: `x${n}`, type: 'comment', z: 'tab-hello', name: 'n'.repeat(120), x: 1, y: 1, wires: [] }));

/** While large flows are there. */
const withLargeFlows = (abuse) => async () => {
    await gateway.deploy(token, [...flows('hello'), ...listener, ...large(4 << 20)]);
    const result = await abuse();
    await gateway.deploy(token, [...flows('hello'), ...listener]);
    return result;
};

/** The longest that others may have to wait beside a user who floods the gateway with work, in ms. */
const OTHERS = { 'a sign-in': 1500, '/readyz': 100 };

/** A user who asks for much work from sixteen connections, for ten seconds; others sign in and ask whether it is ready. */
const flooded = (ask) => async (asked) => {
    const user = await asked.token('reader');
    const statuses = {};
    let over = false;
    const flooding = Array.from({ length: 16 }, async () => {
        const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
        while (!over) {
            const { status } = await ask(asked, { token: user, agent, from: GREEDY });
            statuses[status] = (statuses[status] ?? 0) + 1;
        }
        agent.destroy();
    });
    const asks = { 'a sign-in': async () => (await asked.signIn()).status, '/readyz': () => asked.ready() };
    const worst = {};
    let late = false;
    for (const since = Date.now(); Date.now() - since < 10_000; await pause(200)) {
        for (const [what, done] of Object.entries(asks)) {
            const began = performance.now();
            const status = await done();
            worst[what] = Math.max(worst[what] ?? 0, Math.round(performance.now() - began));
            late ||= status !== 200 || worst[what] > OTHERS[what];
        }
    }
    over = true;
    await Promise.all(flooding);
    return `${JSON.stringify(statuses)}; worst of others: ${JSON.stringify(worst)} ms${late ? ' REFUSED OR LATE' : ''}`.replaceAll('"', '');
};

const v2 = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2' };
const check = JSON.stringify({ flows: [...flows('hello'), ...large(4 << 20)] });
const checks = flooded((asked, options) => asked.ask('POST', '/gateway/check', { ...options, headers: v2, body: check }));

/** Differences between large flows and small ones. */
async function differences() {
    const deployed = async (more) => JSON.parse((await gateway.deploy(token, [...flows('hello'), ...listener, ...more])).body).rev;
    const [from, to] = [await deployed(large(2 << 20)), await deployed([])];
    return held(flooded((asked, options) => asked.ask('GET', `/gateway/diff?from=${from}&to=${to}`, options)), 256)();
}

/** Large responses on some connections that a user does not read. */
const unread = (connections, count) => async (asked) => {
    const authorization = field('authorization', `Bearer ${await asked.token('reader')}`);
    return many(connections, count, (n) => frame(1, 5, n, Buffer.concat([head('GET', '/flows'), authorization])))(asked);
};

/** A runtime behind a gateway of its own that answers nothing but `/hello`. */
async function silentUpstream(abuse) {
    const upstream = http.createServer(({ url }, response) => url === '/hang' || response.end('hello')).listen(0, '127.0.0.1');
    await new Promise((done) => upstream.once('listening', done));
    const behind = await new Gateway('abuse-upstream', path.resolve(process.argv[2]), `
server = { listen = ["127.0.0.1:0"], workers = 2 }
log = { access = false }
upstream = { url = "http://127.0.0.1:${upstream.address().port}" }
route = [{ path = "/hello", public = true }, { path = "/hang", public = true }]
`).start();
    const result = await held(abuse, 128, { asked: behind, url: '/hello' })();
    await behind.stop();
    behind.remove();
    upstream.close().closeAllConnections();
    return result;
}

/** A message of a WebSocket that is never whole: a frame of 5 MB without its last bytes. */
const partOfMessage = Buffer.concat([
    Buffer.from('GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'),
    Buffer.from([0x82, 0xff, 0, 0, 0, 0]), number(5_000_000), number(0), Buffer.alloc(4_900_000),
]);

const upload = (url, headers, body) => async () => {
    const answer = await gateway.ask('POST', url, { token: url === '/flows' ? token : undefined, headers, body }).catch(({ code }) => ({ status: code, body: '' }));
    return `${answer.status} ${String(answer.body).slice(0, 40)}`;
};
const gigabyte = zlib.gzipSync(Buffer.alloc(200 << 20), { level: 9 });
const json = { 'Content-Type': 'application/json' };
const POST = `POST /flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n`;

const only = process.argv[3];
const abuses = {
    'nothing at all': () => pause(4000),
    'sign-ins, 50 at a time, 5 times': async () => {
        const outcome = [];
        for (let n = 0; n < 5; n++) outcome.push(await sign(50));
        return outcome.at(-1);
    },
    'storm of sign-ins of one address': () => storm(['127.0.0.2'], 285),
    'storm of sign-ins of 200 addresses': () => storm(Array.from({ length: 200 }, (_, n) => `127.0.1.${n + 1}`), 2),
    'resets, 10,000 on one connection': () => flood(streams(10_000, (n) => Buffer.concat([frame(1, 5, n, get), frame(3, 0, n, number(8))]))),
    'CONTINUATION, 10,000': () => flood([frame(1, 1, 1, get), ...streams(10_000, () => frame(9, 0, 1, field('x', 'y'.repeat(100))))]),
    'HPACK bombs, 1000': () => flood(streams(1000, (n) => frame(1, 5, n, bomb))),
    'SETTINGS, 50,000': () => flood(streams(50_000, () => frame(4, 0, 0))),
    'PING, 50,000': () => flood(streams(50_000, () => frame(6, 0, 0, Buffer.alloc(8)))),
    'PRIORITY, 50,000': () => flood(streams(50_000, (n) => frame(2, 0, n, Buffer.from([0, 0, 0, 0, 16])))),
    'WINDOW_UPDATE, 50,000': () => flood(streams(50_000, () => frame(8, 0, 0, number(1)))),
    'DATA without bytes, 200,000': () => flood([frame(1, 4, 1, head('POST', '/upload')), ...streams(200_000, () => frame(0, 0, 1))]),
    'unknown frames, 50,000': () => flood(streams(50_000, () => frame(0x77, 0, 0))),
    'idle TLS connections, 2000': async () => {
        const before = await gateway.uses();
        return crowd(2000, (socket) => socket.resume(), async () => {
            await pause(1000);
            const now = await gateway.uses();
            return `${Math.round(((now.pss - before.pss) * 1024) / (now.connections - before.connections))} bytes a connection (PSS)`;
        });
    },
    'slow heads, 500': () => crowd(500, slowly('GET /hello HTTP/1.1\r\nHost: x\r\nX: ')),
    'slow bodies, 300': () => crowd(300, (socket) => socket.resume().write(`${POST}Content-Length: 1000\r\n\r\n[`)),
    'slow chunks, 300': () => crowd(300, (socket) => socket.resume().write(`${POST}Transfer-Encoding: chunked\r\n\r\n3`)),
    'readers that do not read, 20 × 4 MB': () => crowd(20, (socket) => socket.pause().write('GET /long HTTP/1.1\r\nHost: x\r\n\r\n')),
    'files over HTTP/2 that nobody reads, 4 × 100': held(many(4, 100, (n) => frame(1, 5, n, head('GET', LARGE_FILE))), 64),
    'files over HTTP/1.1 that nobody reads, 300': held(() => crowd(300, (socket) => socket.pause().write(`GET ${LARGE_FILE} HTTP/1.1\r\nHost: x\r\n\r\n`), undefined, GREEDY), 64),
    'requests that an upstream does not answer, 10 × 100': () => silentUpstream(many(10, 100, (n) => frame(1, 5, n, head('GET', '/hang')))),
    'answers of 4 MB over HTTP/2 that nobody reads, 2 × 100': held(many(2, 100, (n) => frame(1, 5, n, head('GET', '/long'))), 512),
    'sign-ins that are never whole, 256 × 100': held(unfinished(256, 100, '/auth/token', 'application/x-www-form-urlencoded'), 128),
    'bodies that are never whole, 64 × 100': held(unfinished(64, 100, '/upload', 'text/plain'), 160),
    'messages that are never whole, 100 × 5 MB': held(() => crowd(100, (socket) => socket.resume().write(partOfMessage), undefined, GREEDY), 160),
    'checks of one user, 16 × 4 MB': held(checks, 256),
    'differences for one user, 16 × 2 MB': differences,
    'flows over HTTP/2 that a user does not read, 2 × 100': withLargeFlows(held(unread(2, 100), 256)),
    'bodies of a user that are never whole, 4 × 50 × 4 MB': held(unfinished(4, 50, '/gateway/check', 'application/json', { bytes: 4 << 20, user: 'reader' }), 256),
    'gzip of 200 MiB to POST /flows': upload('/flows', { ...json, 'Content-Encoding': 'gzip' }, gigabyte),
    'gzip of 200 MiB to an endpoint': upload('/upload', { ...json, 'Content-Encoding': 'gzip' }, gigabyte),
    '200 MiB to an endpoint': upload('/upload', { 'Content-Type': 'application/octet-stream' }, Buffer.alloc(200 << 20)),
    '5 MiB of [ to POST /flows': upload('/flows', json, Buffer.alloc((5 << 20) - 10, '[')),
};

console.log(`| abuse | it | p50 | p99 | worst | a server that does nothing: p99 | RSS, MiB: before, after | descriptors | tasks |`);
console.log('|---|---|---|---|---|---|---|---|---|');
const first = await gateway.uses();
for (const [what, abuse] of Object.entries(abuses)) {
    if (only && !what.includes(only)) continue;
    const before = await gateway.uses();
    await waited();
    const since = processorTime([process.pid]);
    const result = await abuse();
    const { outcome, p99 = 0, wrong = {}, large = false } = typeof result === 'object' ? result : { outcome: result };
    const now = processorTime([process.pid]);
    const figures = await waited();
    // The probe has two connections.
    await until(`nothing is left of ${what}`, async () => (await gateway.uses()).connections <= 2, 120_000);
    const after = await gateway.uses();
    const others = (now.busy - since.busy - (now.own - since.own)) / (now.total - since.total);
    console.log(`| ${[what, outcome, figures.p50, figures.p99, figures.worst, figures.idle.p99,
        `${(before.rss / 1024).toFixed(1)}, ${(after.rss / 1024).toFixed(1)}`, `${before.descriptors}, ${after.descriptors}`, `${before.tasks}, ${after.tasks}`,
    ].join(' | ')} |`);
    const slow = Math.max(figures.p99, p99) > BEARABLE && figures.idle.p99 < BEARABLE / 2 && others < 0.2;
    const leak = after.descriptors > first.descriptors + 10 || after.tasks > first.tasks + 10;
    const late = String(outcome).includes('REFUSED OR LATE') && others < 0.2;
    Object.assign(figures.wrong, wrong);
    if (slow || leak || late || large || Object.keys(figures.wrong).length || String(outcome).includes('OPEN')) {
        failed = true;
        console.log(`| ^ NOT AS PROMISED | ${JSON.stringify({ slow, leak, late, large, wrong: figures.wrong, others: others.toFixed(2) })} |`);
    }
}
const errors = gateway.log.filter((line) => line.includes('"ERROR"'));
console.log(errors.length ? `errors in the log: ${errors.slice(0, 5).join('\n')}` : 'no error in the log');
probe.kill();
await gateway.stop();
gateway.remove();
process.exit(failed || errors.length ? 1 : 0);
