// TCP servers and clients of a case, plain or over TLS.

import { connect, createServer } from 'node:net';
import { connect as secureConnect, createServer as createSecureServer } from 'node:tls';
import { Peer, bytes, waitFor, sleep } from './peer.mjs';

/** `greets`: is said first. `echo`: all is said back. `answers`: text → what is said, in one piece or several.
 *  `ends`: ends the connection after an answer. */
export class TcpServer extends Peer {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
        this.sockets = new Set();
        this.server = context.tls
            ? createSecureServer(context.tls, (socket) => this.serve(socket))
            : createServer({ allowHalfOpen: false }, (socket) => this.serve(socket));
        this.server.on('tlsClientError', () => {});
    }

    async start() {
        await new Promise((resolve) => this.server.listen(this.spec.port ?? 0, '127.0.0.1', resolve));
        this.port = this.server.address().port;
    }

    serve(socket) {
        this.connections++;
        this.sockets.add(socket);
        let asked = '';
        socket.on('error', () => {});
        socket.on('close', () => {
            this.ended++;
            this.sockets.delete(socket);
        });
        socket.on('data', async (data) => {
            this.receive(data);
            if (this.spec.echo) {
                socket.write(data);
            }
            asked += data;
            for (const [text, answer] of Object.entries(this.spec.answers ?? {})) {
                if (asked.includes(text)) {
                    asked = '';
                    await this.answer(socket, [answer].flat());
                    break;
                }
            }
        });
        if (this.spec.greets) {
            this.answer(socket, [this.spec.greets].flat());
        }
    }

    async answer(socket, pieces) {
        for (const piece of pieces) {
            socket.write(bytes(piece));
            await sleep(pieces.length > 1 ? 20 : 0);
        }
        if (this.spec.ends) {
            socket.end();
        }
    }

    say(data) {
        this.sockets.forEach((socket) => socket.write(bytes(data)));
    }

    end() {
        this.sockets.forEach((socket) => socket.end());
    }

    close() {
        this.sockets.forEach((socket) => socket.destroy());
        this.server.close();
    }
}

/** Connects to the port that it is given, when it is first to say something, or at `connect`. */
export class TcpClient extends Peer {
    constructor(spec, context) {
        super(context);
        this.spec = spec;
        this.tls = context.tls;
        this.ports = context.ports;
    }

    async connect() {
        const options = { port: Number(this.spec.port), host: this.spec.host ?? '127.0.0.1' };
        await waitFor(() => this.tried(options), `a server listens at ${options.port}`);
        this.ports.set(this.name, this.socket.localPort);
        this.socket.on('data', (data) => this.receive(data));
        this.socket.on('close', () => this.ended++);
    }

    tried(options) {
        return new Promise((resolve) => {
            const ready = () => resolve(true);
            this.socket = this.tls
                ? secureConnect({ ...options, ...this.tls, servername: 'localhost', rejectUnauthorized: false }, ready)
                : connect(options, ready);
            this.socket.on('error', () => resolve(false));
        });
    }

    async say(data) {
        if (!this.socket) {
            await this.connect();
        }
        await new Promise((resolve) => this.socket.write(bytes(data), resolve));
    }

    end() {
        this.socket.end();
    }

    close() {
        this.socket?.destroy();
    }
}
