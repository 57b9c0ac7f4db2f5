// An hour in the life of two gateways, one in front of a real Node-RED and one with its own engine: everything at once,
// good and bad, while they are reloaded, deployed to, and lose their upstream. See tests/soak.
//
//   node soak.mjs FLOWGATE MINUTES

import { randomBytes } from 'node:crypto';
import https from 'node:https';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { any, certificate, flows, Gateway, median, NodeRed, pause, processorTime, start, until } from './parts.mjs';
import { freePort } from '../golden/ports.mjs';

const [program, minutes] = [path.resolve(process.argv[2]), Number(process.argv[3])];
const END = Date.now() + minutes * 60_000;
/** What the well-behaved client may have to wait, in ms, of a hundred requests the slowest but one. */
const BEARABLE = 50;
/** Others take so much of the machine: then the time that it takes tells nothing of us. */
const CONTENDED = 0.15;
/** Addresses of whom the throttle is to hold up, and of who goes beyond his connections. */
const GUESSER = '127.0.0.66';

const config = (more) => `
server = { listen = ["127.0.0.1:0"], workers = 2, watch = "1s", drain = "5s" }
log = { format = "json", access = false }
timeouts = { handshake = "10s", header = "10s", body_idle = "10s", keep_alive = "20s" }
limits = { connections_per_address = 1000 }
auth.lifetime = "3m"
auth.throttle = { window = "1m", per_address = 20 }
audit = { rotate_size = "1MiB", keep = 3, keep_for = "1m" }
storage = { history = 20 }
comms = { sign_in = "2s", heartbeat = "2s" }
${more}
[[route]]
path = "/hello"
public = true
[[route]]
path = "/long"
public = true
[[route]]
path = "/slow"
public = true
[[route]]
path = "/upload"
public = true
`;

const red = new NodeRed(await freePort());
fs.writeFileSync(path.join(red.directory, 'flows.json'), JSON.stringify(flows('hello')));
await red.start((status) => status === 200);
const engine = await new Gateway('engine', program, config('')).start();
const behind = await new Gateway('upstream', program, config(`[upstream]\nurl = "http://127.0.0.1:${red.port}"\nhealth = "1s"`)).start();
const gateways = [engine, behind];
await engine.deploy(await engine.token(), flows('hello'));

// ---- what is unexpected

const began = Date.now();
const minute = () => Math.floor((Date.now() - began) / 60_000) + 1;

/** When the upstream was last away, and whether it is now. */
let away = false;
let back = 0;
const counts = new Map();
const surprises = new Map();
const note = (map, what) => map.set(what, (map.get(what) ?? 0) + 1);

/** The upstream has been away at any time since then: 502, 503 and 504 are right, and so is a cut answer. */
const wasAway = (gateway, since) => gateway === behind && (away || back + 3000 > since);
const AWAY = [502, 503, 504, 404, 'ECONNRESET', 'aborted', 'socket hang up', 'no answer'];
/**
 * Flows were being deployed since then. The engine answers a request whose flow is stopped with 503; Node-RED never
 * answers it, and has none of its endpoints while it starts them.
 */
const deployments = new Map(gateways.map((gateway) => [gateway, { underWay: 0, ended: 0 }]));
const wasDeployed = (gateway, since) => deployments.get(gateway).underWay > 0 || deployments.get(gateway).ended + 1000 > since;
const RESTARTED = [503, 404, 504, 'no answer'];
const excused = (gateway, since, how) =>
    (wasAway(gateway, since) && AWAY.includes(how)) || (wasDeployed(gateway, since) && RESTARTED.includes(how));

async function deploy(gateway, ...what) {
    const state = deployments.get(gateway);
    state.underWay += 1;
    try {
        return await gateway.deploy(...what);
    } finally {
        state.underWay -= 1;
        state.ended = Date.now();
    }
}

/** Does something, and notes what came of it unless that was expected. */
async function expect(gateway, what, expected, ask) {
    const since = Date.now();
    let how;
    let answer;
    try {
        answer = await ask();
        how = answer?.status ?? 'done';
    } catch (error) {
        how = error.code ?? error.message;
    }
    note(counts, `${gateway.name} ${what}: ${how}`);
    if (!expected.includes(how) && !excused(gateway, since, how)) {
        const detail = answer?.body ? ` ${answer.body.subarray(0, 120)}` : '';
        note(surprises, `${gateway.name} ${what}: ${how}${detail} (minute ${minute()})`);
    }
    return how === 'done' || expected.includes(how) ? answer : undefined;
}

/** Lines of the log that say what was done to the gateway. */
const EXPECTED_ERRORS = [/not reloaded|cannot be used|stays as it was|config/i, /the flow was stopped before it answered/];
function errorsOf(gateway) {
    const found = gateway.log.splice(0).filter((line) => line.includes('"level":"ERROR"'));
    for (const line of found) {
        const text = line.replace(/"timestamp":"[^"]*",|"id":"[^"]*",?/g, '');
        const upstream = gateway === behind && /upstream/.test(text);
        if (!upstream && !EXPECTED_ERRORS.some((known) => known.test(text))) note(surprises, `${gateway.name} log: ${text}`);
    }
}

// ---- who is there

const actors = [];
/** Does something again and again until the end. */
function again(every, act) {
    actors.push((async () => {
        await pause(Math.random() * every);
        while (Date.now() < END) {
            await act();
            await pause(every * (0.5 + Math.random()));
        }
    })());
}

const JSON_BODY = { 'Content-Type': 'application/json' };
const MALFORMED = [
    'GET / HTTP/1.1\r\n\r\n', 'GET / HTTP/1.1\nHost: x\n\n', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'get / HTTP/1.1\r\nHost: x\r\n\r\n', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(20_000)}\r\n\r\n`,
    'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\nhello', 'GET / HTTP/9.9\r\nHost: x\r\n\r\n', '\x16\x03\x01\x02\x00\x01\x00', randomBytes(300).toString('latin1'),
];

for (const gateway of gateways) {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 4, timeout: 15_000 });
    const tokens = { admin: await gateway.token(), reader: await gateway.token('reader') };
    // Tokens live for three minutes: each is followed by another one before.
    again(40_000, () => expect(gateway, 'new tokens', ['done'], async () => {
        for (const user of Object.keys(tokens)) tokens[user] = await gateway.token(user);
    }));

    // Endpoints and the admin API, over HTTP/1.1.
    again(30, () => expect(gateway, 'page', [200], () => gateway.ask('GET', '/hello', { agent })));
    for (const url of ['/flows', '/settings', '/auth/login', '/nodes', '/flows/state']) {
        const expected = url === '/flows/state' ? [200, 404] : [200];
        again(300, () => expect(gateway, `GET ${url}`, expected, () =>
            gateway.ask('GET', url, { token: tokens.reader, agent: any([agent, false]), headers: { Accept: 'application/json' } })));
    }
    again(500, () => expect(gateway, 'nobody reads flows', [401], () => gateway.ask('GET', '/flows')));
    again(500, () => expect(gateway, 'slow page', [200], () => gateway.ask('GET', '/slow', { agent })));
    again(2000, () => expect(gateway, 'long page', [200], () => gateway.ask('GET', '/long')));
    again(2000, () => expect(gateway, 'upload', [200], () => gateway.ask('POST', '/upload', { headers: { 'Content-Type': 'text/plain' }, body: 'x'.repeat(3_000_000) })));
    again(3000, () => expect(gateway, 'too large', [413, 'EPIPE', 'ECONNRESET'], () => gateway.ask('POST', '/flows', { token: tokens.admin, headers: JSON_BODY, body: 'x'.repeat(6_000_000) })));
    again(1000, () => expect(gateway, 'gzip', [415], () => gateway.ask('POST', '/flows', { token: tokens.admin, headers: { ...JSON_BODY, 'Content-Encoding': 'gzip' }, body: 'x' })));

    // HTTP/2: many at a time on one connection, some of them cancelled.
    again(1500, () => expect(gateway, 'HTTP/2', ['done'], async () => {
        const session = gateway.h2();
        const since = Date.now();
        const one = (n) => new Promise((done, failed) => {
            const stream = session.request({ ':path': n % 3 ? '/hello' : '/auth/login' });
            stream.on('response', (head) => !(head[':status'] === 200 || excused(gateway, since, head[':status'])) && note(surprises, `${gateway.name} HTTP/2: ${head[':status']}`));
            stream.resume().on('end', done).on('close', done).on('error', failed).end();
            if (n % 10 === 9) stream.close(8);
        });
        await Promise.all(Array.from({ length: 40 }, (_, n) => one(n)));
        session.close();
    }));
    again(20_000, () => expect(gateway, 'resets', ['done'], async () => {
        const session = gateway.h2();
        await new Promise((done) => session.once('remoteSettings', done));
        for (let n = 0; n < 300 && !session.closed && !session.destroyed; n++) {
            session.request({ ':path': '/hello' }).on('error', () => {}).close(8);
            if (n % 50 === 0) await pause(10);
        }
        session.destroy();
    }));

    // Sign in, use, revoke, and use again.
    again(1000, async () => {
        const answer = await expect(gateway, 'sign-in', [200], () => gateway.signIn('reader', undefined, { agent }));
        if (!answer) return;
        const token = JSON.parse(answer.body).access_token;
        await expect(gateway, 'use', [200], () => gateway.ask('GET', '/flows', { token, agent }));
        const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
        const revoked = await expect(gateway, 'revoke', [200], () => gateway.ask('POST', '/auth/revoke', { token, agent, headers, body: `token=${token}` }));
        if (revoked) await expect(gateway, 'use what is revoked', [401], () => gateway.ask('GET', '/flows', { token, agent }));
    });
    again(20_000, () => expect(gateway, 'storm of sign-ins', ['done'], async () => {
        const all = await Promise.all(Array.from({ length: 25 }, () => gateway.signIn('reader')));
        const wrong = all.find(({ status }) => status !== 200);
        if (wrong) throw new Error(String(wrong.status));
    }));
    again(700, () => expect(gateway, 'wrong password', [400, 429], () => gateway.signIn(any(['admin', 'nobody']), 'wrong', { from: GUESSER })));
    again(200, () => expect(gateway, 'wrong token', [401, 429], () => gateway.ask('GET', '/flows', { token: 'guess', from: GUESSER })));
    again(1000, () => expect(gateway, 'reader deploys', [401], () => deploy(gateway, tokens.reader, flows('no'))));

    // Bytes that are no HTTP, and connections that say too little.
    again(300, () => expect(gateway, 'malformed', ['done'], async () => {
        const socket = await gateway.stream();
        const closed = new Promise((done) => socket.on('close', done));
        socket.on('error', () => {}).resume().write(Buffer.from(any(MALFORMED), 'latin1'));
        await Promise.race([closed, pause(20_000).then(() => { throw new Error('it stays open'); })]);
    }));
    for (const said of ['', 'GET /hel', 'GET /hello HTTP/1.1\r\nHost: x\r\nX-', 'POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx', 'GET /long HTTP/1.1\r\nHost: x\r\n\r\n']) {
        again(400, () => expect(gateway, 'half a request', ['done'], async () => {
            const socket = await gateway.stream();
            const closed = new Promise((done) => socket.on('close', done));
            socket.on('error', () => {}).write(said);
            // Some leave, the others are sent away; who does not read for a while finds that he has been.
            if (!said.includes('long')) socket.resume();
            if (Math.random() < 0.3) socket.destroy();
            if (said.includes('long')) await pause(15_000);
            socket.resume();
            await Promise.race([closed, pause(45_000).then(() => { throw new Error(`it stays open after ${said.slice(0, 10)}`); })]);
        }));
    }

    // Editors: they sign in, listen, and leave politely or not at all; some never sign in.
    for (let n = 0; n < 6; n++) {
        again(3000, () => expect(gateway, 'editor', ['done'], () => editor(gateway, tokens.reader)));
    }
    again(1000, () => expect(gateway, 'editor without token', ['done'], () => editor(gateway, any(['guess', undefined]))));

    // Deployments: all types, and stale ones.
    let rev;
    again(2500, async () => {
        const type = any(['full', 'nodes', 'flows', 'reload', 'full']);
        const answer = await expect(gateway, `deploy ${type}`, [200, 409], () => deploy(gateway, tokens.admin, flows('hello'), { type }));
        if (answer?.status === 200) rev = JSON.parse(answer.body).rev;
    });
    again(5000, () => expect(gateway, 'stale deployment', [409], () => deploy(gateway, tokens.admin, flows('stale'), { rev: 'stale' })));
    again(5000, () => expect(gateway, 'malformed deployment', [400], () => gateway.ask('POST', '/flows', { token: tokens.admin, headers: JSON_BODY, body: '[{"id":1}]' })));
    again(4000, () => rev && expect(gateway, 'deployment with revision', [200, 409], () => deploy(gateway, tokens.admin, flows('hello'), { rev })));

    // Reloads: other users and routes, a broken file, other certificates.
    let reloads = 0;
    again(15_000, async () => {
        reloads += 1;
        if (reloads % 4 === 0) certificate(gateway.directory, 'server');
        gateway.write(reloads % 3 === 0 ? 'this is broken' : `[[route]]\npath = "/other-${reloads}"\npublic = true`);
        gateway.signal('SIGHUP');
    });
}


/** One editor, for some seconds. */
async function editor(gateway, token) {
    const since = Date.now();
    const socket = gateway.editor();
    const left = new Promise((done) => socket.on('close', (code) => done(code)));
    const opened = new Promise((done, failed) => socket.on('open', done).on('error', failed).on('unexpected-response', (_, response) => {
        failed(Object.assign(new Error(`${response.statusCode}`), { code: response.statusCode }));
    }));
    await opened;
    let heard = 0;
    let auth;
    socket.on('error', () => {});
    socket.on('message', (text) => {
        const frame = JSON.parse(text);
        auth ??= frame.auth;
        heard += Array.isArray(frame) ? 1 : 0;
    });
    if (token) socket.send(JSON.stringify({ auth: token }));
    if (token && token !== 'guess') {
        for (const topic of ['debug', 'status/#', 'notification/#']) socket.send(JSON.stringify({ subscribe: topic }));
        await Promise.race([left, pause(3000 + Math.random() * 20_000)]);
        if (!wasAway(gateway, since) && (auth !== 'ok' || heard === 0)) throw new Error(`an editor hears ${auth}, ${heard} batches`);
        if (Math.random() < 0.5) socket.terminate();
        else socket.close();
    } else {
        const late = pause(8000).then(() => { throw new Error('it stays open without a token'); });
        await Promise.race([left, late]);
        if (auth !== 'fail') throw new Error(`it is told ${auth}`);
    }
    await Promise.race([left, pause(5000)]);
    socket.terminate();
}

// The upstream goes away and comes back, well or by force.
again(60_000, async () => {
    if (END - Date.now() < 30_000) return;
    away = true;
    await red.end(any(['SIGTERM', 'SIGKILL']));
    await pause(Math.random() * 6000);
    // It may have lost what was being deployed: what it has is what counts.
    await red.start((status) => status === 200 || status === 404);
    await until('its flows are back', async () => (await red.status('/hello').catch(() => 0)) === 200);
    back = Date.now();
    away = false;
});

// ---- how they are

const probes = [engine, behind].map((gateway) => {
    const [url, statuses] = gateway === engine ? ['/hello', '200,404,503'] : ['/auth/login', '200'];
    const child = start(process.execPath, [path.join(import.meta.dirname, 'probe.mjs'), gateway.port, url, statuses], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { gateway, child, report: async () => {
        child.stdin.write('\n');
        return JSON.parse((await lines.next()).value);
    } };
});
const pids = [process.pid];
const samples = new Map(gateways.map((gateway) => [gateway, []]));
let slow = 0;
let contended = 0;
let time = processorTime(pids);

console.log('| minute | gateway | requests of the probe | p50 ms | p99 ms | worst | idle server p99 | RSS MiB | PSS MiB | descriptors | threads | tasks | connections | sessions | others on the machine |');
console.log('|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|');
const started = Date.now();
while (Date.now() < END) {
    // Six looks a minute, one line.
    const looks = new Map(gateways.map((gateway) => [gateway, []]));
    for (let look = 0; look < 6 && Date.now() < END; look++) {
        await pause(10_000);
        for (const gateway of gateways) {
            if (gateway.gone) note(surprises, `${gateway.name} has ended`);
            else looks.get(gateway).push(await gateway.uses());
        }
    }
    const now = processorTime(pids);
    const others = (now.busy - time.busy - (now.own - time.own)) / (now.total - time.total);
    time = now;
    for (const { gateway, report } of probes) {
        const all = looks.get(gateway);
        const of = (what) => median(all.map((uses) => uses[what]));
        samples.get(gateway).push(...all);
        const figures = await report();
        Object.entries(figures.wrong).forEach(([how, count]) => note(surprises, `${gateway.name} probe: ${count} × ${how}`));
        const busy = others > CONTENDED;
        contended += busy ? 1 : 0;
        slow += figures.p99 > BEARABLE && !busy ? 1 : 0;
        errorsOf(gateway);
        console.log(`| ${[Math.round((Date.now() - started) / 60_000), gateway.name, figures.count, figures.p50, figures.p99, figures.worst, figures.idle.p99,
            (of('rss') / 1024).toFixed(1), (of('pss') / 1024).toFixed(1), of('descriptors'), of('threads'), of('tasks'), of('connections'), of('sessions'), `${Math.round(others * 100)} %`].join(' | ')} |`);
    }
}
await Promise.race([Promise.all(actors), pause(60_000)]);
probes.forEach(({ child }) => child.kill());

// ---- what came of it

console.log('\nWhat was answered:');
[...counts].sort().forEach(([what, count]) => console.log(`  ${count} × ${what}`));
const problems = [...surprises].map(([what, count]) => `${count} × ${what}`);
if (slow) problems.push(`p99 above ${BEARABLE} ms in ${slow} minutes without contention`);
console.log('\nGrowth (median of the first third after the warm-up, and of the last):');
for (const [gateway, all] of samples) {
    const warm = all.slice(Math.floor(all.length / 6));
    const third = Math.floor(warm.length / 3);
    for (const [what, factor, more] of [['rss', 1.1, 6 * 1024], ['pss', 1.1, 6 * 1024], ['descriptors', 1.1, 20], ['threads', 1, 6], ['tasks', 1.1, 20]]) {
        const [first, last] = [warm.slice(0, third), warm.slice(-third)].map((some) => median(some.map((uses) => uses[what])));
        console.log(`  ${gateway.name} ${what}: ${first} → ${last}`);
        if (last > first * factor + more) problems.push(`${gateway.name}: ${what} grows from ${first} to ${last}`);
    }
}
for (const gateway of gateways) {
    await until('its connections are closed', async () => (await gateway.uses()).connections === 0, 60_000).catch(() => problems.push(`${gateway.name}: connections stay`));
    console.log(`  ${gateway.name} at the end: ${JSON.stringify(await gateway.uses())}`);
    await gateway.stop().catch((error) => problems.push(error.message));
    errorsOf(gateway);
    gateway.remove();
}
await red.end('SIGKILL');
red.remove();
console.log(`\n${minutes} minutes, ${contended} of ${2 * Math.round(minutes)} lines while others used more than ${CONTENDED * 100} % of the machine.`);
console.log(problems.length ? `UNEXPECTED:\n  ${problems.join('\n  ')}` : 'Nothing unexpected.');
process.exit(problems.length ? 1 : 0);
