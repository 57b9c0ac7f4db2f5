// An HTTP server that answers by a table, for http request nodes.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { Peer, bytes, inText, sleep } from './peer.mjs';

/** Header fields that say nothing about a case. */
const DULL = ['host', 'user-agent'];

/** Each `path` or `METHOD path` has an answer: `"echo"`, or an object whose keys say what is done; or a list of such, one a
 *  request, the last one from then on. `shows`: header fields of
 *  requests that are seen; `proxy`: it forwards, as a proxy. */
export class HttpServer extends Peer {
    constructor({ shows, proxy, ...answers }, context) {
        super(context);
        this.shows = shows;
        this.answers = answers;
        const { tls } = context;
        // A client that leaves in the middle is no concern of ours.
        const serve = (request, response) => this.serve(request, response).catch(() => {});
        this.server = tls ? createSecureServer(tls, serve) : createServer(serve);
        this.server.keepAliveTimeout = 10_000;
        this.sockets = new Set();
        this.server.on(tls ? 'secureConnection' : 'connection', (socket) => {
            this.connections++;
            this.sockets.add(socket);
            socket.on('close', () => this.sockets.delete(socket));
        });
        this.server.on('tlsClientError', () => {});
        if (proxy) {
            this.server.on('connect', (request, socket) => this.tunnel(request, socket, proxy));
        }
    }

    async start() {
        await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
        this.port = this.server.address().port;
    }

    async serve(request, response) {
        const pieces = [];
        for await (const piece of request) {
            pieces.push(piece);
        }
        const [, boundary] = (request.headers['content-type'] ?? '').match(/boundary="?([^";]+)/) ?? [];
        const body = Buffer.from(Buffer.concat(pieces).toString('latin1').replaceAll(boundary ?? '\0\0', '<boundary>'), 'latin1');
        if (this.shows) {
            const headers = Object.fromEntries(this.shows.map((name) => [name, request.headers[name] ?? null]));
            this.show({ method: request.method, url: request.url, headers, body: inText(body) });
        }
        const path = request.url.replace(/^http:\/\/[^/]*/, '').replace(/\?.*/, '');
        const given = this.answers[`${request.method} ${path}`] ?? this.answers[path] ?? this.answers['*'];
        const answer = Array.isArray(given) ? (given.length > 1 ? given.shift() : given[0]) : given;
        if (answer === undefined) {
            response.writeHead(404).end('not here');
        } else if (answer === 'echo') {
            send(response, { json: echo(request, body) });
        } else if (answer.digest) {
            digest(request, response, answer.digest);
        } else {
            await this.act(answer, request, response);
        }
    }

    async act(answer, request, response) {
        if (answer.after) {
            await sleep(answer.after);
        }
        if (answer.drop) {
            request.socket.destroy();
        } else if (answer.raw) {
            request.socket.end(bytes(answer.raw));
        } else if (answer.basic) {
            const given = request.headers.authorization;
            const wanted = `Basic ${Buffer.from(answer.basic).toString('base64')}`;
            const headers = { 'WWW-Authenticate': 'Basic realm="golden"' };
            send(response, given === wanted ? { json: { user: answer.basic.split(':')[0] } } : { status: 401, headers });
        } else if (!answer.hang) {
            send(response, answer);
        }
    }

    tunnel(request, socket, { user }) {
        this.show({ connect: request.url, authorization: request.headers['proxy-authorization'] ?? null });
        if (user && request.headers['proxy-authorization'] !== `Basic ${Buffer.from(user).toString('base64')}`) {
            socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n');
            return;
        }
        const [host, port] = request.url.split(':');
        const far = connect(Number(port), host, () => {
            socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
            far.pipe(socket).pipe(far);
        });
        far.on('error', () => socket.destroy());
        socket.on('error', () => far.destroy());
    }

    /** Shows how many connections have been made. */
    counts() {
        this.show({ connections: this.connections });
    }

    close() {
        this.sockets.forEach((socket) => socket.destroy());
        this.server.close();
    }
}

/** `{"status", "headers", "body" | "json" | "pieces", "gzip"}`. */
function send(response, { status = 200, headers = {}, body = '', json, pieces, gzip }) {
    const type = json === undefined ? {} : { 'Content-Type': 'application/json' };
    const zipped = gzip ? { 'Content-Encoding': 'gzip' } : {};
    response.writeHead(status, { Date: 'Thu, 01 Jan 2026 00:00:00 GMT', ...type, ...zipped, ...headers });
    (pieces ?? []).forEach((piece) => response.write(piece));
    const content = json === undefined ? bytes(body) : Buffer.from(JSON.stringify(json));
    response.end(gzip ? gzipSync(content) : content);
}

function echo(request, body) {
    const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !DULL.includes(name)).sort());
    const echoed = { method: request.method, url: request.url, headers, body: inText(body) };
    // How header fields were spelled.
    const names = request.rawHeaders.filter((_, n) => n % 2 === 0);
    return { ...echoed, names: names.filter((name) => !DULL.includes(name.toLowerCase())).sort() };
}

/** RFC 2617 and RFC 7616, as far as clients of Node-RED go: `{"user", "password", "algorithm", "qop"}`. */
function digest(request, response, { user, password, algorithm, qop }) {
    const challenge = [`realm="golden"`, 'nonce="abc"', ...(qop ? [`qop="${qop}"`] : []), ...(algorithm ? [`algorithm=${algorithm}`] : [])];
    const given = {};
    for (const [, name, quoted, plain] of (request.headers.authorization ?? '').matchAll(/(\w+)=(?:"([^"]*)"|([^\s,]+))/g)) {
        given[name] = quoted ?? plain;
    }
    const kind = (algorithm ?? 'MD5').toLowerCase();
    const hash = (text) => {
        const name = kind.startsWith('sha-256') ? 'sha256' : kind.startsWith('sha-512') ? 'sha512' : 'md5';
        return createHash(name).update(text).digest('hex').slice(0, kind.startsWith('sha-512') ? 64 : undefined);
    };
    let secret = hash(`${user}:golden:${password}`);
    secret = kind.endsWith('-sess') ? hash(`${secret}:abc:${given.cnonce}`) : secret;
    const what = hash(`${request.method}:${request.url}`);
    const middle = given.qop ? `abc:${given.nc}:${given.cnonce}:${given.qop}` : 'abc';
    if (given.response !== hash(`${secret}:${middle}:${what}`)) {
        send(response, { status: 401, headers: { 'WWW-Authenticate': `Digest ${challenge.join(', ')}` } });
        return;
    }
    send(response, { json: { user: given.username, fields: Object.keys(given) } });
}
