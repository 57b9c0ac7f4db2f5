// Measures processor time and memory of nginx, HAProxy and flowgate in front of one upstream.

import { median } from '../../tests/load/parts.mjs';
import { LOADS, send } from './loads.mjs';
import { directory, flowgate, haproxy, nginx, serveUpstream } from './peers.mjs';
import { MEASURED, memory, pin, processorTime } from './processes.mjs';

const ROUNDS = 5;
const SECONDS = 3;

/** CPU µs of a request for each load, and memory, of each proxy; the proxies take turns. */
export async function proxyFigures(program) {
    const upstream = await serveUpstream();
    const proxies = [await flowgate(program, upstream), await nginx(upstream), await haproxy(upstream)];
    proxies.forEach(({ pid }) => pin(pid, MEASURED));
    const figures = [];
    for (const load of LOADS) {
        const samples = Object.fromEntries(proxies.map(({ name }) => [name, []]));
        for (let round = 0; round <= ROUNDS; round++) {
            for (let turn = 0; turn < proxies.length; turn++) {
                const { name, pid, base, token } = proxies[(round + turn) % proxies.length];
                const before = processorTime(pid);
                const requests = await send(load, base, token, SECONDS, directory);
                // The first round warms up.
                if (round > 0) samples[name].push((processorTime(pid) - before) / requests);
            }
        }
        figures.push({ what: load.what, unit: 'µs', values: each(proxies, ({ name }) => median(samples[name])) });
        console.error(figures.at(-1));
    }
    figures.push({ what: 'memory after these loads (PSS)', unit: 'MiB', values: each(proxies, ({ pid }) => memory(pid)) });
    return figures;
}

const each = (proxies, value) => Object.fromEntries(proxies.map((proxy) => [proxy.name, value(proxy)]));
