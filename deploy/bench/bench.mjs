// Measures flowgate beside its peers and writes results/; see run.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { chart } from './chart.mjs';
import { proxyFigures } from './proxies.mjs';
import { runtimeFigures } from './runtimes.mjs';
import { table } from './table.mjs';

const program = process.argv[2];
const results = path.join(import.meta.dirname, 'results');

const output = (...command) => {
    try {
        return execFileSync(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] }).toString().trim();
    } catch (error) {
        return String(error.stderr ?? error);
    }
};
const version = (text) => text.match(/\d+\.\d+[\w.]*/)?.[0] ?? 'unknown';
/** nginx prints its version to the error stream. */
const nginxVersion = () => version(execFileSync('sh', ['-c', 'nginx -v 2>&1']).toString());
const nodeRed = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, '../../tests/node_modules/node-red/package.json')));

const conditions = [
    `${new Date().toISOString().slice(0, 10)}, ${os.cpus()[0].model.trim()}, ${os.cpus().length} processors, `
    + `${Math.round(os.totalmem() / 2 ** 30)} GiB, Linux ${os.release()}.`,
    `flowgate ${version(output(program, '--version'))}, nginx ${nginxVersion()}, HAProxy ${version(output('haproxy', '-v'))}, `
    + `Node-RED ${nodeRed.version} on Node.js ${process.version.slice(1)}. `
    + 'Loads by wrk and h2load on the last processor, each proxy on the first.',
];

const proxies = await proxyFigures(program);
const runtimes = await runtimeFigures(program);
fs.mkdirSync(results, { recursive: true });
const write = (name, text) => fs.writeFileSync(path.join(results, name), text);
write('results.md', [
    '# Measured', '', ...conditions, '', 'Repeat it: `deploy/bench/run target/dist/flowgate`. Less is better everywhere.', '',
    '## In front of an upstream', '', table(proxies), '', '## As a runtime', '', table(runtimes), '',
].join('\n'));
write('results.json', `${JSON.stringify({ conditions, proxies, runtimes }, null, 2)}\n`);
write('proxies.svg', chart('Processor time of a request in front of an upstream, nginx = 1', proxies.filter(({ unit }) => unit === 'µs'), 'nginx'));
write('runtimes.svg', chart('Flows: time and memory, Node-RED = 1', runtimes, 'Node-RED'));
console.log(fs.readFileSync(path.join(results, 'results.md'), 'utf8'));
// The processes that were started end with this one.
process.exit(0);
