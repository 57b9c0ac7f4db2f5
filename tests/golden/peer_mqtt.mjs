// MQTT: one mosquitto for all cases of a file, and clients that look at it from outside.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mqtt from 'mqtt';
import { freePort } from './ports.mjs';
import { Peer, bytes, inText, waitFor } from './peer.mjs';

let started;
let log;

/** The ports of the broker by name: `broker` is open, `brokerlocked` wants the user `ann` with the password
 *  `secret`, `brokerweb` speaks over WebSocket. */
export function broker() {
    started ??= start();
    return started;
}

async function start() {
    const directory = mkdtempSync(join(tmpdir(), 'golden-broker-'));
    const ports = new Map();
    for (const name of ['broker', 'brokerlocked', 'brokerweb']) {
        ports.set(name, await freePort());
    }
    const path = `${process.env.PATH}:/usr/sbin`;
    execFileSync('mosquitto_passwd', ['-b', '-c', join(directory, 'users'), 'ann', 'secret'], { stdio: 'ignore' });
    const config = [
        // As root it would become another user, who may not read the directory.
        'user root',
        // Who subscribed is read here.
        `log_dest file ${join(directory, 'log')}`,
        'log_type subscribe',
        'log_timestamp false',
        'per_listener_settings true',
        `listener ${ports.get('broker')} 127.0.0.1`,
        'allow_anonymous true',
        `listener ${ports.get('brokerlocked')} 127.0.0.1`,
        `password_file ${join(directory, 'users')}`,
        `listener ${ports.get('brokerweb')} 127.0.0.1`,
        'protocol websockets',
        'allow_anonymous true',
    ];
    log = join(directory, 'log');
    writeFileSync(join(directory, 'mosquitto.conf'), config.join('\n') + '\n');
    const options = { stdio: 'ignore', env: { ...process.env, PATH: path } };
    const child = spawn('mosquitto', ['-c', join(directory, 'mosquitto.conf')], options);
    child.unref();
    process.on('exit', () => {
        child.kill();
        rmSync(directory, { recursive: true, force: true });
    });
    await waitFor(() => listens(ports.get('broker')), 'the broker listens');
    return ports;
}

function listens(port) {
    return new Promise((resolve) => {
        const socket = dial(port, '127.0.0.1');
        socket.on('connect', () => resolve(true) ?? socket.destroy());
        socket.on('error', () => resolve(false));
    });
}

/** The client id of our own client, which distinguishes it from the nodes'. */
const OWN = 'golden';

/** `subscribes`: topics, from the start. Each message that it receives is shown when a step says `receives`. */
export class MqttClient extends Peer {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
        this.ports = context.ports;
        this.messages = [];
        this.waited = new Map();
    }

    async start() {
        this.client = mqtt.connect({
            host: '127.0.0.1',
            port: this.ports.get('broker'),
            protocolVersion: this.spec.version ?? 5,
            clientId: OWN,
            reconnectPeriod: 0,
        });
        this.client.on('message', (topic, payload, packet) => this.note(topic, payload, packet));
        await new Promise((resolve, reject) => this.client.on('connect', resolve).on('error', reject));
        for (const topic of this.spec.subscribes ?? []) {
            await this.client.subscribeAsync(topic, { qos: 2, rap: true });
        }
    }

    note(topic, payload, { qos, retain, properties = {} }) {
        const { correlationData, messageExpiryInterval, ...rest } = properties;
        const message = { topic, payload: inText(payload), qos, retain, ...rest };
        if (correlationData) {
            message.correlationData = inText(correlationData);
        }
        // The broker counts it down.
        if (messageExpiryInterval !== undefined) {
            message.expires = messageExpiryInterval > 0;
        }
        this.messages.push(JSON.parse(JSON.stringify(message)));
    }

    /** Waits until a node has subscribed to a topic, once more than was waited for before. */
    async subscribed(topic) {
        const before = this.waited.get(topic) ?? 0;
        const lines = () => readFileSync(log, 'utf8').split('\n');
        const own = (line) => line.endsWith(` ${topic}`) && !line.startsWith(`${OWN} `);
        await waitFor(() => lines().filter(own).length > before, `a subscription to ${topic}`);
        this.waited.set(topic, before + 1);
    }

    /** Publishes: `{"topic", "payload", "qos", "retain", "properties"}`. */
    async publish({ topic, payload = '', qos = 0, retain = false, properties = {} }) {
        const { correlationData, ...rest } = properties;
        if (correlationData) {
            rest.correlationData = Buffer.from(correlationData);
        }
        await this.client.publishAsync(topic, bytes(payload), { qos, retain, properties: rest });
    }

    /** Waits for so many messages and shows them. */
    async receives(count) {
        await waitFor(() => this.messages.length >= count, `${this.name} receives ${count} messages`).catch(() => {});
        this.show(this.messages);
        this.messages = [];
    }

    close() {
        this.client.end(true);
    }
}
