// A well-behaved client as a process of its own: asks for a page every 20 ms, over HTTP/1.1 and HTTP/2 in turn, and tells
// how long it had to wait. Beside it the same for a server that does nothing, which shows what the machine itself costs.
//
//   node probe.mjs PORT PATH STATUS[,STATUS …] [ADDRESS]     from this address; one JSON object a line for each line on standard input

import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import readline from 'node:readline';
import { percentile } from './parts.mjs';

const [port, path, statuses, localAddress] = process.argv.slice(2);
const expected = new Set(statuses.split(',').map(Number));
const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
let session;
let times = [];
let idle = [];
let wrong = {};

const nothing = http.createServer((_, response) => response.end('nothing')).listen(0, '127.0.0.1');
const plain = new http.Agent({ keepAlive: true, maxSockets: 1 });

const over1 = (client, options) =>
    new Promise((done, failed) => {
        client.get({ host: '127.0.0.1', timeout: 30_000, ...options }, (response) => {
            response.resume().on('end', () => done(response.statusCode)).on('error', failed);
        }).on('error', failed);
    });

const over2 = () =>
    new Promise((done, failed) => {
        if (!session || session.closed || session.destroyed) {
            session = http2.connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, localAddress });
            session.on('error', () => {});
        }
        const stream = session.request({ ':path': path });
        let status;
        stream.on('response', (headers) => (status = headers[':status']));
        stream.resume().on('end', () => done(status)).on('error', failed).end();
    });

async function timed(kept, ask) {
    const began = performance.now();
    let how;
    try {
        how = await ask();
    } catch (error) {
        how = error.code ?? error.message;
    }
    kept.push(performance.now() - began);
    return how;
}

for await (const line of ask()) if (line) wrong[line] = (wrong[line] ?? 0) + 1;

async function* ask() {
    const lines = readline.createInterface({ input: process.stdin });
    lines.on('line', report).on('close', () => process.exit());
    for (let n = 0; ; n++) {
        const how = await timed(times, () => (n % 2 ? over2() : over1(https, { port, path, agent, localAddress, rejectUnauthorized: false })));
        yield expected.has(how) ? '' : String(how);
        if (n % 5 === 0) await timed(idle, () => over1(http, { port: nothing.address().port, path: '/', agent: plain }));
        await new Promise((done) => setTimeout(done, 20));
    }
}

function report() {
    const figures = (all) => {
        const sorted = all.sort((a, b) => a - b).map((ms) => Math.round(ms * 10) / 10);
        return { count: sorted.length, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), worst: sorted.at(-1) ?? 0 };
    };
    console.log(JSON.stringify({ ...figures(times), idle: figures(idle), wrong }));
    [times, idle, wrong] = [[], [], {}];
}
