// WebSocket servers and clients of a case. Each message that they receive is seen as a line of JSON.

import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import WebSocket from 'ws';
import { Peer, bytes, inText, waitFor } from './peer.mjs';

/** What both have: messages that were received, `{"text"}` or `{"binary"}`. */
class Messages extends Peer {
    constructor(context) {
        super(context);
        this.messages = [];
    }

    note(data) {
        this.messages.push(Buffer.isBuffer(data) ? { binary: inText(data) } : data);
    }

    /** Waits for so many messages and shows them. */
    async receives(count) {
        await waitFor(() => this.messages.length >= count, `${this.name} receives ${count} messages`).catch(() => {});
        this.show(this.messages);
        this.messages = [];
    }
}

/** `protocols`: the ones it speaks. `greets`, `echo`. `shows`: header fields of the upgrade that are seen. */
export class WebSocketServer extends Messages {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
        this.server = context.tls ? createSecureServer(context.tls) : createServer();
        const protocols = spec.protocols ?? [];
        const handleProtocols = (offered) => offered.find((each) => protocols.includes(each)) ?? false;
        this.sockets = new WebSocket.Server({ server: this.server, handleProtocols });
        this.sockets.on('connection', (socket, request) => this.serve(socket, request));
    }

    async start() {
        await new Promise((resolve) => this.server.listen(this.spec.port ?? 0, '127.0.0.1', resolve));
        this.port = this.server.address().port;
    }

    serve(socket, request) {
        this.connections++;
        if (this.spec.shows) {
            const headers = Object.fromEntries(this.spec.shows.map((name) => [name, request.headers[name] ?? null]));
            this.show({ url: request.url, headers, protocol: socket.protocol || null });
        }
        socket.on('error', () => {});
        socket.on('close', () => this.ended++);
        socket.on('ping', () => (this.pings = (this.pings ?? 0) + 1));
        socket.on('message', (data) => {
            this.note(data);
            if (this.spec.echo) {
                socket.send(data);
            }
        });
        if (this.spec.greets) {
            socket.send(this.spec.greets);
        }
    }

    async pinged(count) {
        await waitFor(() => this.pings >= count, `${count} pings`);
        this.show('pinged');
    }

    say(data) {
        this.sockets.clients.forEach((socket) => socket.send(typeof data === 'string' ? data : bytes(data)));
    }

    end() {
        this.sockets.clients.forEach((socket) => socket.close());
    }

    close() {
        this.sockets.clients.forEach((socket) => socket.terminate());
        this.server.close();
    }
}

/** `path`: of the runtime's own listener. Connects at `connect`. */
export class WebSocketClient extends Messages {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
        this.runtime = context.runtime;
    }

    async connect() {
        await waitFor(() => this.tried(), `a server listens at ${this.spec.path}`);
        this.socket.on('message', (data) => this.note(data));
        this.socket.on('close', () => this.ended++);
    }

    tried() {
        const url = new URL(this.spec.path.replace(/^\//, ''), this.runtime.url.replace('http', 'ws'));
        const headers = this.runtime.token ? { Authorization: `Bearer ${this.runtime.token}` } : {};
        const socket = new WebSocket(url, this.spec.protocols ?? [], { rejectUnauthorized: false, headers });
        this.socket = socket;
        return new Promise((resolve) => {
            socket.on('open', () => resolve(true));
            socket.on('error', () => resolve(false));
        });
    }

    say(data) {
        this.socket.send(typeof data === 'string' ? data : bytes(data));
    }

    async end() {
        this.socket.close();
        await waitFor(() => this.ended > 0, `${this.name} is closed`);
    }

    close() {
        this.socket?.terminate();
    }
}
