// Free ports, and ports that somebody listens on.

import net from 'node:net';

export const freePort = () =>
    new Promise((done) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => done(port));
        });
    });

export const isOpen = (port) =>
    new Promise((done) => {
        const socket = net.connect(port, '127.0.0.1');
        socket.on('connect', () => done(true)).on('error', () => done(false)).on('connect', () => socket.destroy());
    });
