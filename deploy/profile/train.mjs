// Lets a program that counts what it runs (see make) serve, deploy and run flows, each for a while.
//
//   node train.mjs FLOWGATE [STARTED]     STARTED: a command that is run with the number of each process that serves

import { execSync } from 'node:child_process';
import { pause } from '../../tests/load/parts.mjs';
import { LOADS, send } from '../bench/loads.mjs';
import * as peers from '../bench/peers.mjs';
import * as runtimes from '../bench/runtimes.mjs';

const [program, command] = process.argv.slice(2);
const started = (pid) => command && execSync(`${command} ${pid}`);
const SECONDS = 4;
const NODES = 2_000;

/** A page on whose way are the nodes that most flows have. */
function common() {
    const steps = [
        { type: 'change', rules: [{ t: 'set', p: 'payload', pt: 'msg', to: '{"a":[1,2,{"b":"text"}],"n":7}', tot: 'json' }, { t: 'set', p: 'topic', pt: 'msg', to: 'a topic', tot: 'str' }] },
        { type: 'json', property: 'payload', action: 'str' },
        { type: 'json', property: 'payload', action: 'obj' },
        { type: 'switch', property: 'payload.n', propertyType: 'msg', rules: [{ t: 'gt', v: '3', vt: 'num' }], outputs: 1 },
        { type: 'function', func: 'const count = (flow.get("count") ?? 0) + 1; flow.set("count", count); msg.count = count; return msg', outputs: 1 },
        { type: 'function', func: 'msg.payload.a = msg.payload.a.map((each) => each); node.send(msg)', outputs: 1 },
        { type: 'template', field: 'payload', fieldType: 'msg', syntax: 'mustache', template: '{{topic}}: {{payload.n}} {{count}}', output: 'str' },
        { type: 'http response' },
    ];
    return [
        { id: 'common', type: 'tab', label: 'Common' },
        { id: 'first', z: 'common', type: 'http in', method: 'get', url: '/page/common', x: 1, y: 1, wires: [['step0']] },
        ...steps.map((step, at) => ({ id: `step${at}`, z: 'common', x: 2, y: at, wires: at + 1 < steps.length ? [[`step${at + 1}`]] : [], ...step })),
    ];
}

const proxy = await peers.flowgate(program, await peers.serveUpstream());
started(proxy.pid);
for (const load of LOADS) console.error(load.what, await send(load, proxy.base, proxy.token, SECONDS, peers.directory));
await proxy.end();

const runtime = await runtimes.flowgate(program);
started(runtime.pid());
for (let round = 0; round < 6; round++) {
    await runtimes.deploy(runtime, [...runtimes.flows(NODES, `round ${round}`), ...common()], round % 2 ? 'nodes' : 'full');
    await pause(300);
}
for (const path of ['/page?name=you', '/page/common']) {
    console.error(path, await send({ what: path, path, connections: 32 }, runtime.base, 'none', SECONDS, runtime.directory));
}
await runtime.end();
// The processes that were started end with this one.
process.exit(0);
