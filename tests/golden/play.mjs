// Plays a case against a runtime over its admin API and its comms, and gives back what was seen. README.md says what
// a case is.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import WebSocket from 'ws';
import { freePort } from './ports.mjs';
import { inText, waitFor, sleep } from './peer.mjs';
import { Peers, pems } from './peers.mjs';

const TIMEOUT = 20_000;

/** What has not come after so long does not come any more. */
const SILENCE = Number(process.env.SILENCE ?? 10_000);

/** For so many milliseconds a case goes on after the last expected message, so that one too many is seen. */
const SURPLUS = 100;

/** Where an error came from, in the words of a JavaScript engine: the lines after its message. */
const STACK = /(\n|\\n) +at [^]*?(?="|$)/g;

/** A time in JSON or in a header field. */
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g;

/** By this mark a node recognizes header fields that were not changed; the value of the mark does not count here. */
const MARK = 'x-node-red-request-node';

/** A runtime that is reached: `url` of its admin API, `token` where it wants one. */
export class Runtime {
    static async reach(url, token) {
        const runtime = new Runtime();
        runtime.url = url;
        runtime.token = token;
        runtime.listeners = new Set();
        runtime.socket = new WebSocket(new URL('comms', url.replace('http', 'ws')), { rejectUnauthorized: false });
        const subscribed = new Promise((resolve, reject) => {
            const begin = () => {
                for (const topic of ['debug', 'status/#', 'notification/#']) {
                    runtime.socket.send(JSON.stringify({ subscribe: topic }));
                }
                resolve();
            };
            runtime.socket.on('error', reject);
            runtime.socket.on('open', () => (token ? runtime.socket.send(JSON.stringify({ auth: token })) : begin()));
            runtime.socket.on('message', (data) => {
                const message = JSON.parse(data);
                if (message.auth === 'ok') {
                    begin();
                } else if (message.auth) {
                    reject(new Error('the token is not taken'));
                }
                for (const event of Array.isArray(message) ? message : []) {
                    runtime.listeners.forEach((listen) => listen(event));
                }
            });
        });
        await subscribed;
        return runtime;
    }

    async call(method, path, { headers = {}, body } = {}) {
        const authorization = this.token ? { Authorization: `Bearer ${this.token}` } : {};
        return fetch(new URL(path.replace(/^\//, ''), this.url), {
            method,
            redirect: 'manual',
            headers: { ...authorization, ...headers },
            body: body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        });
    }

    /** Deploys, and returns when the nodes have started. */
    async deploy(flows, kind = 'full') {
        const started = [];
        let check;
        const listen = ({ topic, data }) => {
            if (topic === 'notification/runtime-deploy') {
                started.push(data.revision);
                check?.();
            }
        };
        this.listeners.add(listen);
        const headers = {
            'Content-Type': 'application/json',
            'Node-RED-API-Version': 'v2',
            'Node-RED-Deployment-Type': kind,
        };
        const answer = await this.call('POST', '/flows', { headers, body: { flows } });
        if (!answer.ok) {
            throw new Error(`the deployment is refused: ${answer.status} ${await answer.text()}`);
        }
        const { rev } = await answer.json();
        const all = new Promise((resolve) => {
            check = () => started.includes(rev) && resolve();
            check();
        });
        await within(all, 'the flows start');
        this.listeners.delete(listen);
    }

    close() {
        this.socket.terminate();
    }
}

/** Plays one case; `expected` is how many things it should show, where that is known. */
export async function play(runtime, given, expected) {
    const directory = mkdtempSync(join(tmpdir(), 'golden-'));
    const ports = await freePorts(given);
    let texts = new Map();
    const filled = (value) => fill(value, directory, ports, texts);
    for (const [name, text] of Object.entries(given.files ?? {})) {
        writeFileSync(join(directory, name), bytes(text));
    }
    const seen = [];
    const surroundings = { directory, ports, seen, runtime };
    const peers = await Peers.start({ ...given, peers: filled(given.peers ?? {}) }, surroundings);
    texts = pems(directory);
    const names = new Set();
    const statuses = new Map();
    const listen = (event) => {
        const id = event.topic.match(/^status\/(.*)/)?.[1];
        statuses.set(id, event.data?.text ?? '');
        const what = shown(event, names, given);
        if (what) {
            seen.push(what);
        }
    };
    try {
        runtime.listeners.add(listen);
        let flow = filled(given.flow);
        await runtime.deploy(whole(flow, given, names));
        for (const step of filled(given.steps ?? [])) {
            if (step.deploy) {
                flow = flow.filter(({ id }) => !step.flow.some((node) => node.id === id)).concat(step.flow);
                await runtime.deploy(whole(flow, given, names), step.deploy);
            } else {
                await take(step, { runtime, flow, seen, directory, peers, statuses });
            }
        }
        // While it is observed a busy machine must not cut off what is seen.
        await silence(runtime, seen, given.settle ?? (expected === undefined ? 400 : 100), expected);
    } finally {
        runtime.listeners.delete(listen);
        await runtime.deploy([]).catch(() => {});
        peers.close();
        rmSync(directory, { recursive: true, force: true });
    }
    return settled(seen, given, directory, ports);
}

async function take(step, { runtime, flow, seen, directory, peers, statuses }) {
    if ('peer' in step) {
        await peers.take(step);
    } else if ('send' in step) {
        const props = Object.entries(step.send).map(([p, value]) => ({ p, ...typed(value) }));
        await inject(runtime, `to ${step.to ?? flow[0].id}`, { __user_inject_props__: props });
    } else if ('press' in step) {
        await inject(runtime, step.press);
    } else if ('wait' in step) {
        await sleep(step.wait);
    } else if ('http' in step) {
        seen.push({ http: await called(runtime, step.http) });
    } else if ('status' in step) {
        const { status: id, text } = step;
        await waitFor(() => statuses.get(id)?.includes(text), `${id} shows ${text}`);
    } else if ('until' in step) {
        await reached(seen, step.until);
    } else if ('file' in step) {
        seen.push({ file: step.file, text: readFileSync(join(directory, step.file), step.as ?? 'utf8') });
    } else if ('write' in step) {
        writeFileSync(join(directory, step.write), bytes(step.text));
    } else if ('append' in step) {
        appendFileSync(join(directory, step.append), bytes(step.text));
    } else if ('remove' in step) {
        rmSync(join(directory, step.remove), { recursive: true });
    } else {
        throw new Error(`no such step: ${JSON.stringify(step)}`);
    }
}

async function called(runtime, { method = 'GET', path, headers, body, shows }) {
    const answer = await runtime.call(method, path, { headers, body: body?.base64 ? Buffer.from(body.base64, 'base64') : body });
    if (shows === 'status') {
        return { status: answer.status };
    }
    const known = shows && { headers: Object.fromEntries(shows.map((name) => [name, answer.headers.get(name)])) };
    const content = inText(Buffer.from(await answer.arrayBuffer()));
    return { status: answer.status, type: answer.headers.get('content-type'), ...known, body: content };
}

async function inject(runtime, id, body) {
    const headers = { 'Content-Type': 'application/json' };
    const answer = await runtime.call('POST', `/inject/${encodeURIComponent(id)}`, { headers, body });
    if (!answer.ok) {
        throw new Error(`nothing can be sent to ${id}: ${answer.status}`);
    }
}

/** What a file has in it: a text, or `{ hex }`. */
const bytes = (content) => (content.hex === undefined ? content : Buffer.from(content.hex, 'hex'));

/** A value as a property of an inject node. */
function typed(value) {
    if (value?.$) {
        return { vt: value.$[0], v: value.$[1] };
    }
    const types = { string: 'str', number: 'num', boolean: 'bool' };
    const vt = types[typeof value];
    return vt ? { vt, v: String(value) } : { vt: 'json', v: JSON.stringify(value) };
}

/** The flow with all that a case need not write: its tab, what sends to it, what shows its messages. */
function whole(flow, given, names) {
    // A node without a place on its tab would be a config node.
    const nodes = flow.map((node) => (node.wires ? { x: 1, y: 1, ...node, z: node.z || 't' } : node));
    const ids = new Set(nodes.map(({ id }) => id));
    const targets = new Set((given.steps ?? []).filter(({ send }) => send).map(({ to }) => to ?? flow[0].id));
    const shows = new Set(nodes.flatMap(({ wires }) => wires ?? []).flat().filter((id) => !ids.has(id)));
    nodes.forEach(({ id }) => names.add(id));
    shows.forEach((id) => names.add(id));
    const placeOf = (target) => nodes.find(({ id, wires }) => id === target || wires?.flat().includes(target)).z;
    return [
        { id: 'echo', type: 'inject', z: 'echoes', x: 1, y: 1, props: [], wires: [['echo shown']] },
        { id: 'echo shown', type: 'debug', z: 'echoes', x: 1, y: 1, active: true, tosidebar: true, complete: 'false', wires: [] },
        { id: 'echoes', type: 'tab', label: 'echoes' },
        ...(ids.has('t') ? [] : [{ id: 't', type: 'tab', label: 't' }]),
        ...nodes,
        ...[...targets].map((id) => ({ id: `to ${id}`, type: 'inject', z: placeOf(id), x: 1, y: 1, props: [], wires: [[id]] })),
        ...[...shows].map((id) => ({
            id,
            type: 'debug',
            z: placeOf(id),
            x: 1,
            y: 1,
            active: true,
            tosidebar: true,
            complete: 'true',
            targetType: 'full',
            wires: [],
        })),
    ];
}

/** What an event of comms shows, if it belongs to the case. */
function shown({ topic, data }, names, { statuses, events }) {
    if (topic === 'debug' && data.id === 'echo shown') {
        return undefined;
    }
    if (topic === 'debug') {
        const { id, level, format, msg } = data;
        // The runtime itself has no id.
        const at = id === undefined ? {} : { at: id };
        if (events) {
            const { id, ...rest } = data;
            return { ...at, event: rest };
        }
        const parsed = /^(Object|array|error|map|set)/i.test(format) ? JSON.parse(msg) : msg;
        return level ? { ...at, level, msg: parsed } : { ...at, msg: parsed };
    }
    const id = topic.match(/^status\/(.*)/)?.[1];
    return statuses && names.has(id) ? { at: id, status: data } : undefined;
}

/** What was seen, without what is another each time. */
function settled(seen, given, directory, ports) {
    const ids = new Map();
    const label = (id) => ids.get(id) ?? ids.set(id, `<id ${ids.size + 1}>`).get(id);
    const today = (time) => Math.abs(time - Date.now()) < 86_400_000;
    const plain = (value) => {
        if (typeof value === 'string') {
            let text = value.replaceAll(directory, '{dir}').replaceAll(/\b([0-9a-f]{16}|[0-9a-f]{28})\b/g, label);
            text = text.replaceAll(/\bpid:\d+/g, 'pid:<pid>').replaceAll(STACK, '');
            ports.forEach((port, n) => (text = text.replaceAll(String(port), `{port:${n}}`)));
            return text.replaceAll(TIME, (at) => (today(Date.parse(at)) ? '<now>' : at));
        }
        if (typeof value === 'number') {
            const named = [...ports].find(([, port]) => port === value);
            return named ? `{port:${named[0]}}` : value > 1e12 && today(value) ? '<now>' : value;
        }
        if (Array.isArray(value)) {
            return value.map(plain);
        }
        if (value && typeof value === 'object') {
            // The stack of an error tells of files.
            const kept = Object.entries(value).filter(([key]) => key !== 'stack' || !('message' in value));
            const marked = ([key, inner]) => [plain(key), key === MARK ? '<mark>' : plain(inner)];
            return Object.fromEntries(kept.map(marked));
        }
        return value;
    };
    // The bytes of a file may look like an id.
    const isBytes = ({ file, text }) => file !== undefined && /^[0-9a-f]*$/.test(text);
    return ordered(seen.map((what) => (isBytes(what) ? what : plain(without(what)))), given);
}

/** The order of what is seen, where it is not the same each time. */
export function ordered(list, { any_order }) {
    const text = (value) =>
        JSON.stringify(value, (_, inner) =>
            inner && typeof inner === 'object' && !Array.isArray(inner)
                ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
                : inner,
        );
    return any_order ? [...list].sort((a, b) => (text(a) < text(b) ? -1 : 1)) : list;
}

/** Every message has an id; it says nothing unless a case is about ids. */
function without(what) {
    const { _msgid, ...rest } = what.msg && typeof what.msg === 'object' ? what.msg : {};
    return _msgid === undefined ? what : { ...what, msg: rest };
}

/** Until nothing has come for some time, or, where it is known, all has come and a moment more. */
async function silence(runtime, seen, settle, expected) {
    if (expected === undefined) {
        const end = Date.now() + TIMEOUT;
        let count = -1;
        while (count !== seen.length && Date.now() < end) {
            count = seen.length;
            await echo(runtime);
            await sleep(settle);
        }
        return;
    }
    await reached(seen, expected);
    await sleep(Math.max(expected === 0 ? settle : 0, SURPLUS));
}

/** Until a message of our own has come through, if flows run: what was sent before it has, too, however busy all is. */
async function echo(runtime) {
    let listen;
    const arrived = new Promise((resolve) => {
        listen = ({ topic, data }) => topic === 'debug' && data.id === 'echo shown' && resolve();
    });
    runtime.listeners.add(listen);
    await inject(runtime, 'echo', {}).then(() => within(arrived, 'the echo')).catch(() => {});
    runtime.listeners.delete(listen);
}

/** Waits until `count` things were seen, or nothing more comes: the comparison then finds what is missing. */
async function reached(seen, count) {
    for (let known = seen.length, since = Date.now(); seen.length < count && Date.now() - since < SILENCE; ) {
        await sleep(5);
        if (seen.length !== known) {
            [known, since] = [seen.length, Date.now()];
        }
    }
}

function fill(value, directory, ports, texts) {
    const text = JSON.stringify(value)
        .replaceAll('{dir}', JSON.stringify(directory).slice(1, -1))
        .replaceAll(/\{pem:([\w-]+)\}/g, (_, name) => JSON.stringify(texts.get(name)).slice(1, -1))
        .replaceAll(/\{port:(\w+)\}/g, (own, n) => ports.get(n) ?? own);
    return JSON.parse(text);
}

/** A free port for each `{port:n}`. */
async function freePorts(given) {
    const ports = new Map();
    for (const [, n] of JSON.stringify([given.flow, given.steps ?? [], given.peers ?? {}]).matchAll(/\{port:(\d)\}/g)) {
        if (!ports.has(n)) {
            ports.set(n, await freePort());
        }
    }
    return ports;
}

function within(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`too late: ${what}`)), TIMEOUT);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
