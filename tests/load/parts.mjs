// What the soak and the abuse script share: gateways and a Node-RED as processes, clients, and how much they use.

import { spawn, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import https from 'node:https';
import http from 'node:http';
import http2 from 'node:http2';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';

const tests = path.resolve(import.meta.dirname, '..');
export const WebSocket = createRequire(path.join(tests, 'node_modules/'))('ws');

export const PASSWORD = 'open sesame';
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
export const percentile = (sorted, p) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? 0;
export const median = (values) => percentile([...values].sort((a, b) => a - b), 0.5);
export const any = (list) => list[Math.floor(Math.random() * list.length)];

/** Nothing that was started outlives us. */
const children = [];
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));
export function start(...command) {
    children.push(spawn(...command));
    return children.at(-1);
}

/** Waits until something holds. */
export async function until(what, holds, patience = 60_000) {
    for (const since = Date.now(); !(await holds()); await pause(20)) {
        if (Date.now() - since > patience) throw new Error(`never: ${what}`);
    }
}

/** A certificate of its own, made anew, over whatever was there. */
export function certificate(directory, name) {
    const file = (kind) => path.join(directory, `${name}.${kind}`);
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
        '-days', '2', ...subject, '-keyout', file('key.new'), '-out', file('pem.new')], { stdio: 'ignore' });
    fs.renameSync(file('key.new'), file('key'));
    fs.renameSync(file('pem.new'), file('pem'));
}

/** flowgate as a process, with the lines that `config()` gives. */
export class Gateway {
    constructor(name, program, lines) {
        this.name = name;
        this.program = program;
        this.lines = lines;
        this.directory = fs.mkdtempSync(path.join(os.tmpdir(), `flowgate-${name}-`));
        this.log = [];
        this.hash = execFileSync(program, ['hash-password'], { input: `${PASSWORD}\n` }).toString().trim();
        certificate(this.directory, 'server');
    }

    write(more = '') {
        const user = (name, permissions) =>
            `[[auth.user]]\nname = "${name}"\npassword_hash = "${this.hash}"\npermissions = ${permissions}\n`;
        fs.writeFileSync(path.join(this.directory, 'gateway.toml'), [
            'operations = "127.0.0.1:0"',
            this.lines,
            '[[tls.certificate]]\ncert = "server.pem"\nkey = "server.key"',
            user('admin', '["*"]'), user('reader', '["read"]'), user('guessed', '["read"]'), more,
        ].join('\n'));
    }

    async start(limits = '') {
        this.write();
        const command = `${limits}exec "${this.program}" run`;
        this.child = start('sh', ['-c', command], { cwd: this.directory, stdio: ['ignore', 'ignore', 'pipe'] });
        this.ended = new Promise((done) => this.child.on('exit', (code, signal) => done(signal ?? code)));
        this.child.on('exit', () => (this.gone = true));
        let rest = '';
        this.child.stderr.on('data', (data) => {
            const lines = (rest + data).split('\n');
            rest = lines.pop();
            this.log.push(...lines);
        });
        const said = (words) => this.log.map((line) => line.split(words)[1]).find(Boolean)?.match(/[\d.]+:(\d+)/)?.[1];
        await until(`${this.name} listens`, () => {
            if (this.gone) throw new Error(`${this.name} has ended:\n${this.log.join('\n')}`);
            return said('operations on http://');
        });
        this.port = Number(said('listening on https://'));
        this.operations = Number(said('operations on http://'));
        return this;
    }

    signal(name) {
        this.child.kill(name);
    }

    /** One request on a connection of its own, or on that of an agent. Gives status, headers and body. */
    ask(method, url, { token, headers = {}, body, agent = false, from = '127.0.0.1', patience = 30_000 } = {}) {
        return new Promise((done, failed) => {
            const request = https.request({
                host: '127.0.0.1', port: this.port, method, path: url, agent, localAddress: from,
                rejectUnauthorized: false, timeout: patience,
                headers: { ...(token && { Authorization: `Bearer ${token}` }), ...headers },
            }, (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece));
                response.on('end', () => done({ status: response.statusCode, headers: response.headers, body: Buffer.concat(pieces) }));
                response.on('error', failed);
            });
            request.on('error', failed);
            request.on('timeout', () => request.destroy(new Error('no answer')));
            request.end(body);
        });
    }

    signIn(user = 'admin', password = PASSWORD, options = {}) {
        const form = { client_id: 'node-red-admin', grant_type: 'password', scope: '', username: user, password };
        return this.ask('POST', '/auth/token', {
            ...options, body: new URLSearchParams(form).toString(),
            headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
        });
    }

    async token(user = 'admin') {
        const answer = await this.signIn(user);
        if (answer.status !== 200) throw new Error(`sign-in: ${answer.status} ${answer.body}`);
        return JSON.parse(answer.body).access_token;
    }

    deploy(token, flows, { rev, type = 'full' } = {}) {
        return this.ask('POST', '/flows', {
            token, body: JSON.stringify({ flows, ...(rev !== undefined && { rev }) }),
            headers: { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', 'Node-RED-Deployment-Type': type },
        });
    }

    /** A TLS stream for bytes as they are. */
    stream(protocol = 'http/1.1', from = '127.0.0.1') {
        return new Promise((done, failed) => {
            const socket = tls.connect({
                host: '127.0.0.1', port: this.port, ALPNProtocols: [protocol], rejectUnauthorized: false, localAddress: from,
            }, () => done(socket));
            socket.on('error', failed);
        });
    }

    h2(from = '127.0.0.1') {
        const session = http2.connect(`https://127.0.0.1:${this.port}`, { rejectUnauthorized: false, localAddress: from });
        session.on('error', () => {});
        return session;
    }

    editor(from = '127.0.0.1', url = '/comms') {
        return new WebSocket(`wss://127.0.0.1:${this.port}${url}`, { rejectUnauthorized: false, localAddress: from });
    }

    /** A page of the operations listener: status and text. */
    operated(path) {
        return new Promise((done, failed) => {
            http.get({ port: this.operations, host: '127.0.0.1', path, agent: false }, (response) => {
                let text = '';
                response.on('data', (piece) => (text += piece)).on('end', () => done({ status: response.statusCode, text }));
            }).on('error', failed);
        });
    }

    async ready() {
        return (await this.operated('/readyz')).status;
    }

    async metrics() {
        const { text } = await this.operated('/metrics');
        const series = text.split('\n').filter((line) => line && !line.startsWith('#'));
        return Object.fromEntries(series.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]));
    }

    /** What it has of the machine: memory in KiB, descriptors, threads, tasks, open connections. */
    async uses() {
        const proc = `/proc/${this.child.pid}`;
        const rollup = fs.readFileSync(`${proc}/smaps_rollup`, 'utf8');
        const metrics = await this.metrics();
        const tasks = Object.entries(metrics).filter(([name]) => name.startsWith('flowgate_tasks'));
        return {
            rss: Number(rollup.match(/^Rss:\s+(\d+)/m)[1]),
            pss: Number(rollup.match(/^Pss:\s+(\d+)/m)[1]),
            descriptors: fs.readdirSync(`${proc}/fd`).length,
            threads: fs.readdirSync(`${proc}/task`).length,
            tasks: tasks.reduce((sum, [, value]) => sum + value, 0),
            connections: metrics.flowgate_connections_open,
            sessions: metrics.flowgate_sessions_active,
        };
    }

    async stop() {
        if (this.gone) return;
        this.signal('SIGTERM');
        const end = await this.ended;
        if (end !== 0) throw new Error(`${this.name} ended with ${end}`);
    }

    remove() {
        if (!this.gone) this.signal('SIGKILL');
        fs.rmSync(this.directory, { recursive: true, force: true });
    }
}

/** A real Node-RED, which can go away and come back. */
export class NodeRed {
    constructor(port) {
        this.port = port;
        this.directory = fs.mkdtempSync(path.join(os.tmpdir(), 'node-red-'));
        fs.writeFileSync(path.join(this.directory, 'settings.js'), `module.exports = {
            uiHost: "127.0.0.1", uiPort: ${port}, flowFile: "flows.json", credentialSecret: "a secret",
            telemetry: { enabled: false, updateNotification: false }, logging: { console: { level: "warn" } },
        };\n`);
    }

    /** Returns when its flows answer. */
    async start(isUp) {
        const red = path.join(tests, 'node_modules/node-red/red.js');
        this.child = start(process.execPath, [red, '--userDir', '.', '--settings', 'settings.js'],
            { cwd: this.directory, stdio: 'ignore' });
        this.ended = new Promise((done) => this.child.on('exit', done));
        await until('Node-RED is up', async () => isUp(await this.status('/hello').catch(() => 0)));
    }

    status(url) {
        return new Promise((done, failed) => {
            http.get({ host: '127.0.0.1', port: this.port, path: url, agent: false }, (response) => {
                response.resume().on('end', () => done(response.statusCode));
            }).on('error', failed);
        });
    }

    async end(signal) {
        this.child.kill(signal);
        await this.ended;
    }

    remove() {
        this.child?.kill('SIGKILL');
        fs.rmSync(this.directory, { recursive: true, force: true });
    }
}

/** Flows: pages that answer, take uploads, are long and are slow, and one that says something five times a second. */
export function flows(text) {
    const id = () => randomBytes(8).toString('hex');
    const endpoint = (name, method, code) => {
        const [tab, first, middle, last] = [`tab-${name}`, id(), `code-${name}`, id()];
        return [
            { id: tab, type: 'tab', label: name },
            { id: first, z: tab, type: 'http in', method, url: `/${name}`, x: 1, y: 1, wires: [[middle]] },
            { id: middle, z: tab, type: 'function', func: code, outputs: 1, x: 2, y: 1, wires: [[last]] },
            { id: last, z: tab, type: 'http response', x: 3, y: 1, wires: [] },
        ];
    };
    return [
        ...endpoint('hello', 'get', `msg.payload = ${JSON.stringify(text)}; return msg`),
        ...endpoint('upload', 'post', 'msg.payload = String((msg.req.body ?? "").length); return msg'),
        ...endpoint('long', 'get', 'msg.payload = "x".repeat(4000000); return msg'),
        ...endpoint('slow', 'get', 'setTimeout(() => node.send(msg), 300); return null'),
        { id: 'tab-talk', type: 'tab', label: 'talk' },
        { id: 'talk', z: 'tab-talk', type: 'inject', props: [{ p: 'payload' }], repeat: '0.2', once: true, onceDelay: 0.1,
            payload: '', payloadType: 'date', x: 1, y: 1, wires: [['says']] },
        { id: 'says', z: 'tab-talk', type: 'debug', active: true, tosidebar: true, complete: 'payload', x: 2, y: 1, wires: [] },
    ];
}

/** Processor time of the machine and of some processes with their children, in ticks. */
export function processorTime(pids) {
    const [, ...all] = fs.readFileSync('/proc/stat', 'utf8').split('\n')[0].trim().split(/\s+/).map(Number);
    const stats = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
        try {
            const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
            return [{ pid: Number(pid), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }];
        } catch {
            return [];
        }
    });
    const ours = new Set(pids);
    for (let before = -1; before !== ours.size; ) {
        before = ours.size;
        stats.filter(({ parent }) => ours.has(parent)).forEach(({ pid }) => ours.add(pid));
    }
    const total = all.slice(0, 8).reduce((sum, ticks) => sum + ticks, 0);
    const idle = all[3] + all[4];
    const own = stats.filter(({ pid }) => ours.has(pid)).reduce((sum, { ticks }) => sum + ticks, 0);
    return { total, busy: total - idle, own };
}
