// The history and the policies of a large flow set, over HTTPS: the times of `GET /gateway/diff`, of a node's history and
// of a rollback, and what all policies together cost a deployment. Ends with 1 if a bar is not reached.
//
//   node history.mjs FLOWGATE     see tests/history-load

import fs from 'node:fs';
import https from 'node:https';
import { NODES, ONE_WORKER, program } from './measurement.mjs';
import { Gateway, median, percentile } from './parts.mjs';

const ENTRIES = Number(process.env.ENTRIES ?? 1_000);
const ON_A_TAB = 100;
// Requests of each kind, and deployments with and without policies.
const TIMES = 31;
const ROUNDS = 100;

const CONFIG = `${ONE_WORKER}
storage = { history = ${ENTRIES + 4 * TIMES}, history_bytes = "2GiB" }
`;
// Every rule, none of which refuses these deployments. The window is another day's.
const POLICY = `
[policy]
require_rev = true
require_types = true
forbid_types = ["exec", "file"]
restrict_types = ["http request"]
max_nodes = ${2 * NODES}
max_bytes = "20MiB"
approve = ["Production*"]
[[policy.freeze]]
cron = "0 0 29 2 *"
duration = "1h"
`;

/** Tabs of change nodes, each wired to the next. */
function flowSet() {
    const flows = [];
    for (let n = 0; flows.length < NODES; n++) {
        const z = `tab${n}`;
        flows.push({ id: z, type: 'tab', label: `Line ${n}`, disabled: false, info: '', env: [] });
        for (let i = 1; i < ON_A_TAB && flows.length < NODES; i++) {
            const rules = [{ t: 'set', p: 'payload', pt: 'msg', to: `value ${i}`, tot: 'str' }];
            const wires = i + 1 < ON_A_TAB ? [[`n${n}x${i + 1}`]] : [[]];
            flows.push({ id: `n${n}x${i}`, type: 'change', z, name: `of line ${n}`, rules, action: '', property: '',
                from: '', to: '', reg: false, x: 100 + 10 * i, y: 40 * (i % 20), wires });
        }
    }
    return flows;
}

/** A gateway with clients of one user, and what it has active. */
class Bench {
    static async start(name, lines, permissions) {
        const gateway = new Gateway(name, program, CONFIG);
        gateway.lines += `${lines}\n[[auth.user]]\nname = "writer"\npassword_hash = "${gateway.hash}"\npermissions = ${JSON.stringify(permissions)}`;
        await gateway.start();
        const bench = new Bench();
        Object.assign(bench, { gateway, flows: flowSet(), agent: new https.Agent({ keepAlive: true }) });
        bench.token = await gateway.token();
        await bench.deploy({}, 'full');
        bench.token = await gateway.token('writer');
        return bench;
    }

    async ask(method, url, { body, headers } = {}) {
        const began = performance.now();
        const { token, agent } = this;
        const response = await this.gateway.ask(method, url, { token, agent, body, headers });
        const time = performance.now() - began;
        if (response.status !== 200) throw new Error(`${method} ${url}: ${response.status} ${response.body}`);
        return { time, json: JSON.parse(response.body) };
    }

    /** Deploys with these properties of one node changed; gives the time. */
    async deploy(changes, type = 'nodes') {
        const at = 1 + (this.count = (this.count ?? 0) + 1) % (ON_A_TAB - 1);
        Object.assign(this.flows[at], changes);
        const rev = this.rev ?? (await this.ask('GET', '/flows', { headers: { 'Node-RED-API-Version': 'v2' } })).json.rev;
        const headers = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', 'Node-RED-Deployment-Type': type };
        const { time, json } = await this.ask('POST', '/flows', { headers, body: JSON.stringify({ flows: this.flows, rev }) });
        this.rev = json.rev;
        return time;
    }

    /** Processor time in ms; the clock has steps of 10 ms. */
    cpu() {
        const stat = fs.readFileSync(`/proc/${this.gateway.child.pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
        return (Number(stat[11]) + Number(stat[12])) * 10;
    }
}

let failed = 0;
/** One line: the median and the worst time in ms, and the bar that the median must keep. */
function report(name, times, bar) {
    const sorted = [...times].sort((a, b) => a - b);
    const [middle, worst] = [percentile(sorted, 0.5), sorted.at(-1)].map((value) => value.toFixed(1));
    const verdict = bar === undefined ? '' : middle < bar ? `< ${bar}: ok` : `< ${bar}: FAILED`;
    failed += Number(verdict.endsWith('FAILED'));
    console.log(`${name.padEnd(48)}${middle.padStart(8)} ms   worst ${worst.padStart(7)} ms   ${verdict}`);
}

async function times(ask) {
    const all = [];
    for (let n = 0; n < TIMES; n++) all.push(await ask(n));
    return all;
}

/** The same, and the processor time of each, which a busy machine changes less. */
async function measure(name, bench, ask, bar) {
    const before = bench.cpu();
    report(name, await times(ask), bar);
    console.log(`    processor time ${((bench.cpu() - before) / TIMES).toFixed(1)} ms`);
}

/** The history of one gateway. */
async function history() {
    const bench = await Bench.start('history-load', '', ['*']);
    const revs = [bench.rev];
    for (let n = 1; n < ENTRIES; n++) {
        await bench.deploy({ name: `change ${n}` });
        revs.push(bench.rev);
    }
    const get = async (url) => (await bench.ask('GET', url)).time;
    const old = (n) => revs[(n * 37) % (revs.length / 2)];
    const newer = (n) => revs[Math.floor(revs.length / 2) + ((n * 53) % (revs.length / 2))];
    console.log(`${NODES} nodes, ${ENTRIES} entries`);
    await measure('diff of an old revision to the active one', bench, (n) => get(`/gateway/diff?from=${old(n)}`), 50);
    await measure('diff of two old revisions', bench, (n) => get(`/gateway/diff?from=${old(n)}&to=${newer(n)}`), 50);
    await measure('history of a node', bench, (n) => get(`/gateway/nodes/n0x${1 + n}/history`), 100);
    await measure('a page of the history', bench, () => get('/gateway/deployments'));
    const rollBack = async (n) => {
        const body = JSON.stringify({ rev: bench.rev });
        const headers = { 'Content-Type': 'application/json', 'Node-RED-Deployment-Type': 'nodes' };
        const url = `/gateway/deployments/${n % 2 ? old(n) : newer(n)}/rollback`;
        const { time, json } = await bench.ask('POST', url, { body, headers });
        bench.rev = json.rev;
        return time;
    };
    // In turn, so that both meet the same machine.
    const [deployed, rolledBack] = [[], []];
    for (let n = 0; n < TIMES; n++) {
        rolledBack.push(await rollBack(n));
        deployed.push(await bench.deploy({ name: `again ${n}` }));
    }
    report('a deployment', deployed);
    report('a rollback (the bar: an ordinary deployment)', rolledBack, Math.ceil(median(deployed)));
    bench.gateway.remove();
}

/** The same deployments by a user without rules, by one whom all rules concern, and by one with rights to single flows. */
async function policies() {
    const benches = [
        ['without policies', await Bench.start('plain-load', '', ['*'])],
        ['with every policy', await Bench.start('policy-load', POLICY, ['read', 'flows.write'])],
        ['with every policy and rights to single flows', await Bench.start('rights-load', POLICY, ['read', 'flows.write:Line*'])],
    ];
    const figures = benches.map(() => ({ times: [], cpu: 0 }));
    for (let n = -10; n < ROUNDS; n++) {
        for (const [i, [, bench]] of benches.entries()) {
            const before = bench.cpu();
            const time = await bench.deploy({ name: `round ${n}` });
            if (n < 0) continue;
            figures[i].times.push(time);
            figures[i].cpu += bench.cpu() - before;
        }
    }
    const [plain] = figures;
    for (const [i, [name, bench]] of benches.entries()) {
        report(`a deployment ${name}`, figures[i].times);
        const cpu = (figures[i].cpu / ROUNDS).toFixed(1);
        const more = ((figures[i].cpu - plain.cpu) / ROUNDS).toFixed(1);
        const longer = (median(figures[i].times) - median(plain.times)).toFixed(1);
        const isMore = i > 0 && Math.min(more, longer) > 3;
        failed += Number(isMore);
        console.log(`    processor time ${cpu} ms${i > 0 ? `; policies ${more} ms of it, ${longer} ms longer   <= 3: ${isMore ? 'FAILED' : 'ok'}` : ''}`);
        bench.gateway.remove();
    }
}

await history();
await policies();
process.exit(failed > 0 ? 1 : 0);
