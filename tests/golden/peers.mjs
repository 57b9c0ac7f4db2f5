// The other ends of network nodes, as a case declares them: servers listen before the flow is deployed, clients
// connect when a step says so. README.md says what each can do. What a peer receives is seen when a step asks for it.

import { createSocket } from 'node:dgram';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HttpServer } from './peer_http.mjs';
import { MqttClient, broker } from './peer_mqtt.mjs';
import { WebSocketClient, WebSocketServer } from './peer_websocket.mjs';
import { TcpClient, TcpServer } from './peer_tcp.mjs';
import { Peer, bytes, waitFor } from './peer.mjs';

/** The peers of one case, by name. */
export class Peers {
    /** Starts them; `ports` learns where they are, `directory` gets certificates where the case has use for them. */
    static async start(given, { directory, ports, seen, runtime }) {
        const peers = new Peers();
        const text = JSON.stringify([given.flow, given.steps ?? [], given.peers ?? {}]);
        if (/\.pem|\{pem:|"tls"/.test(text)) {
            cpSync(certificates(), directory, { recursive: true });
        }
        if (/\{port:broker/.test(text) || /"mqtt":/.test(JSON.stringify(given.peers ?? {}))) {
            (await broker()).forEach((port, name) => ports.set(name, port));
        }
        peers.all = new Map();
        for (const [name, spec] of Object.entries(given.peers ?? {})) {
            const [kind] = Object.keys(spec).filter((key) => KINDS[key]);
            const peer = new KINDS[kind](spec[kind], { name, tls: spec.tls && keys(directory, spec.tls), seen, runtime, ports });
            peers.all.set(name, peer);
            await peer.start?.();
            if (peer.port) {
                ports.set(name, peer.port);
            }
        }
        return peers;
    }

    async take(step) {
        const peer = this.all.get(step.peer);
        if (!peer) {
            throw new Error(`no such peer: ${step.peer}`);
        }
        const [verb] = Object.keys(step).filter((key) => key !== 'peer' && key in peer);
        await peer[verb](step[verb], step);
    }

    close() {
        this.all.forEach((peer) => peer.close());
    }
}

/** A UDP socket of its own. `say` waits until the port that it sends to is bound. */
class Udp extends Peer {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
    }

    async start() {
        this.socket = createSocket({ type: this.spec.type ?? 'udp4', reuseAddr: true });
        this.socket.on('message', (data) => this.receive(data));
        await new Promise((resolve) => this.socket.bind(0, this.spec.at ?? '127.0.0.1', resolve));
        this.socket.setBroadcast(true);
        if (this.spec.joins) {
            this.socket.addMembership(this.spec.joins);
        }
        this.port = this.socket.address().port;
    }

    async say(data, { to, at = '127.0.0.1' }) {
        await waitFor(() => taken(Number(to)), `a socket at ${to}`);
        await new Promise((resolve) => this.socket.send(bytes(data), Number(to), at, resolve));
    }

    close() {
        this.socket.close();
    }
}

async function taken(port) {
    const socket = createSocket('udp4');
    return new Promise((resolve) => {
        socket.on('error', () => resolve(true));
        socket.bind({ port, exclusive: true }, () => socket.close(() => resolve(false)));
    });
}

const KINDS = {
    http: HttpServer,
    'tcp server': TcpServer,
    'tcp client': TcpClient,
    udp: Udp,
    'websocket server': WebSocketServer,
    'websocket client': WebSocketClient,
    mqtt: MqttClient,
};

/** What a TLS server needs; `{"asks": true}` for a client's certificate. */
function keys(directory, { asks = false } = {}) {
    const read = (name) => readFileSync(join(directory, name));
    return { cert: read('server.pem'), key: read('server-key.pem'), ca: read('ca.pem'), requestCert: asks, rejectUnauthorized: asks };
}

let made;

/** A directory with `ca.pem`, and `server` and `client` certificates of it with their keys. Made once. */
function certificates() {
    if (made) {
        return made;
    }
    made = mkdtempSync(join(tmpdir(), 'golden-keys-'));
    process.on('exit', () => rmSync(made, { recursive: true, force: true }));
    const openssl = (...options) => execFileSync('openssl', options, { cwd: made, stdio: ['ignore', 'ignore', 'pipe'] });
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-days', '2'];
    openssl('req', '-x509', ...key, '-keyout', 'ca-key.pem', '-out', 'ca.pem', '-subj', '/CN=golden CA');
    for (const name of ['server', 'client']) {
        const signed = ['-CA', 'ca.pem', '-CAkey', 'ca-key.pem', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
        openssl('req', '-x509', ...key, ...signed, '-keyout', `${name}-key.pem`, '-out', `${name}.pem`, '-subj', `/CN=${name}`, '-addext', 'basicConstraints=critical,CA:FALSE');
    }
    const lock = ['-topk8', '-v2', 'aes256', '-passout', 'pass:secret'];
    openssl('pkcs8', '-in', 'client-key.pem', ...lock, '-out', 'client-key-locked.pem');
    return made;
}

/** The certificates by name, for `{pem:name}`. */
export function pems(directory) {
    const files = readdirSync(directory).filter((name) => name.endsWith('.pem'));
    return new Map(files.map((name) => [name.slice(0, -4), readFileSync(join(directory, name), 'utf8')]));
}
