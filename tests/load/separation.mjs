// An engine apart from its gateway beside one process, over HTTPS: the time of a request to an `http in` node, the processor
// time of it, and the time of a deployment. Ends with 1 if a bar is not reached.
//
//   node separation.mjs FLOWGATE     see tests/separation-load

import fs from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { NODES, ONE_WORKER, program } from './measurement.mjs';
import { Gateway, flows, median, processorTime, start, until } from './parts.mjs';

const REQUESTS = Number(process.env.REQUESTS ?? 10_000);
const ROUNDS = 20;
const DEPLOYMENTS = 11;
// The bars: a request's ratio, and milliseconds more for a deployment.
const REQUEST_BAR = 1.3;
const DEPLOYMENT_BAR = 10;

const CONFIG = `${ONE_WORKER}
[[route]]
path = "/hello"
public = true
`;

/** An engine apart, and the lines of a gateway in front of it. */
async function engineApart() {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'flowgate-engine-'));
    const listen = '[server]\nworkers = 1\n[log]\naccess = false\n[engine.listen]\naddress = "unix:engine.sock"\n';
    fs.writeFileSync(path.join(directory, 'engine.toml'), listen);
    const child = start(program, ['--config', 'engine.toml', 'engine'], { cwd: directory, stdio: 'ignore' });
    const socket = path.join(directory, 'engine.sock');
    await until('the engine listens', () => fs.existsSync(socket));
    return { child, directory, lines: `[upstream]\nurl = "unix:${socket}"\nidentity_headers = true\n` };
}

/** The flows of the other measurements, and idle nodes. */
function flowSet(label) {
    const all = flows('hello').filter(({ type }) => type !== 'inject');
    all.push({ id: 'idle', type: 'tab', label });
    for (let n = 0; all.length < NODES; n++) {
        all.push({ id: `idle${n}`, z: 'idle', type: 'change', rules: [], x: n, y: 1, wires: [[]] });
    }
    return all;
}

class Bench {
    static async start(name, lines, pids) {
        const gateway = await new Gateway(name, program, CONFIG + lines).start();
        const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
        return Object.assign(new Bench(), { gateway, agent, token: await gateway.token(), pids: [gateway.child.pid, ...pids], requests: [], deployments: [], ticks: 0 });
    }

    async request() {
        const { status } = await this.gateway.ask('GET', '/hello', { agent: this.agent });
        if (status !== 200) throw new Error(`GET /hello: ${status}`);
    }

    /** The mean time of a request in this round, in microseconds, and the ticks of the processor. */
    async round() {
        const [ticks, began] = [processorTime(this.pids).own, performance.now()];
        for (let n = 0; n < REQUESTS / ROUNDS; n++) await this.request();
        this.requests.push((performance.now() - began) * 1000 / (REQUESTS / ROUNDS));
        this.ticks += processorTime(this.pids).own - ticks;
    }

    async deploy(n) {
        const began = performance.now();
        const { status, body } = await this.gateway.deploy(this.token, flowSet(`idle ${n}`), { type: 'nodes' });
        if (status !== 200) throw new Error(`POST /flows: ${status} ${body}`);
        this.deployments.push(performance.now() - began);
    }
}

let failed = 0;
function report(name, one, apart, unit, verdict) {
    failed += Number(verdict?.holds === false);
    const shown = verdict ? `${verdict.text}: ${verdict.holds ? 'ok' : 'FAILED'}` : '';
    console.log(`${name.padEnd(40)}${one.toFixed(1).padStart(9)} ${unit}${apart.toFixed(1).padStart(10)} ${unit}   ${shown}`);
}

const engine = await engineApart();
const one = await Bench.start('one', '', []);
const apart = await Bench.start('apart', engine.lines, [engine.child.pid]);
const both = [one, apart];
for (const bench of both) {
    // The first is of another size, and warms up.
    await bench.deploy(-1);
    bench.deployments = [];
    for (let n = 0; n < 200; n++) await bench.request();
}
// In turns, so that what else the machine does is the same for both.
for (let n = 0; n < ROUNDS; n++) for (const bench of both) await bench.round();
for (let n = 0; n < DEPLOYMENTS; n++) for (const bench of both) await bench.deploy(n);

console.log(`${''.padEnd(40)}${'one process'.padStart(12)}${'apart'.padStart(13)}`);
const [fast, slow] = both.map(({ requests }) => median(requests));
const ratio = slow / fast;
report('GET of an http in node, mean of a round', fast, slow, 'us', { holds: ratio <= REQUEST_BAR, text: `${ratio.toFixed(2)} <= ${REQUEST_BAR}` });
report('  processor time of both processes', ...both.map(({ ticks }) => ticks * 10_000 / REQUESTS), 'us');
const [quick, long] = both.map(({ deployments }) => median(deployments));
const more = long - quick;
report(`deployment of ${NODES} nodes`, quick, long, 'ms', { holds: more <= DEPLOYMENT_BAR, text: `${more.toFixed(1)} <= ${DEPLOYMENT_BAR}` });
for (const { gateway } of both) gateway.remove();
engine.child.kill('SIGKILL');
fs.rmSync(engine.directory, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
