// Loads on a proxy: wrk for HTTP/1.1, h2load for HTTP/2.

import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { LOAD } from './processes.mjs';

const run = promisify(execFile);

/** What is asked of each proxy; `wrong`: the token is not valid, each request is refused. */
export const LOADS = [
    { what: 'GET 128 bytes, HTTP/1.1', path: '/128', connections: 64 },
    { what: 'GET 128 bytes, HTTP/2', path: '/128', connections: 16, h2: true },
    { what: 'refused: 401', path: '/128', connections: 64, wrong: true },
    { what: 'GET 10 KiB', path: '/10k', connections: 64 },
    { what: 'GET 10 KiB, chunked', path: '/chunked', connections: 64 },
    { what: 'GET 1 MiB', path: '/1m', connections: 16 },
    { what: 'POST 64 KiB', path: '/post', connections: 16, post: 64 * 1024 },
];

/** Sends a load for some seconds; returns the number of responses. */
export async function send(load, base, token, seconds, directory) {
    const header = ['-H', `Authorization: Bearer ${load.wrong ? 'wrong' : token}`];
    const url = base + load.path;
    const pinned = ['-c', String(LOAD)];
    if (load.h2) {
        const { stdout } = await run('taskset', [...pinned, 'h2load', '-D', String(seconds), '-c', String(load.connections), '-m', '4', ...header, url]);
        const [, done, succeeded] = stdout.match(/requests: .* (\d+) done, (\d+) succeeded/) ?? [];
        return counted(load, Number(done), Number(done) - Number(succeeded), stdout);
    }
    const script = post(load, directory);
    const { stdout } = await run('taskset', [...pinned, 'wrk', '-t1', `-c${load.connections}`, `-d${seconds}s`, '--timeout', '10s', ...header, ...script, url]);
    const done = Number(stdout.match(/(\d+) requests in/)?.[1]);
    return counted(load, done, Number(stdout.match(/Non-2xx or 3xx responses: (\d+)/)?.[1] ?? 0), stdout);
}

/** A response that was not expected ends the measurement: its figure would be another's. */
function counted(load, done, refused, output) {
    if (!done || refused !== (load.wrong ? done : 0)) throw new Error(`${load.what}: unexpected responses\n${output}`);
    return done;
}

function post(load, directory) {
    if (!load.post) return [];
    const file = path.join(directory, 'post.lua');
    fs.writeFileSync(file, `wrk.method = "POST"\nwrk.body = string.rep("x", ${load.post})\n`);
    return ['-s', file];
}
