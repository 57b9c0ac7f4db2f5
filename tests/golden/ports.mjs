// Ports that a test names before a listener is bound to them. They lie below the ephemeral ports (Linux: from 32768),
// so that no other program of this machine takes them meanwhile. Each process has a hundred of its own, but for the
// round one, which may be in a text; those of the tests in Rust are others.

import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const EACH = 99;
const FIRST = 10_001 + (process.pid % 100) * 100;
let given = 0;

/** A port without a listener. */
export async function freePort() {
    for (let tries = 0; tries < EACH; tries++) {
        const port = FIRST + (given++ % EACH);
        if ((await listens(createServer(), (server) => server.listen(port))) && (await listens(createSocket('udp4'), (socket) => socket.bind(port)))) {
            return port;
        }
    }
    throw new Error('all ports are taken');
}

function listens(socket, listen) {
    return new Promise((done) => {
        socket.on('error', () => done(false));
        socket.on('listening', () => socket.close(() => done(true)));
        listen(socket);
    });
}
