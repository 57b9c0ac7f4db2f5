// Now: whether the gateway and the flows are well, and the last hour in numbers.

import * as api from './api.js';
import { chart } from './chart.js';
import { h, put } from './dom.js';
import { poll } from './poll.js';
import * as session from './session.js';
import { ago, number, t } from './text.js';

// How often the numbers are read again, in milliseconds: as often as the gateway makes them.
const PERIOD = 10_000;

export function allowed() {
    return session.may('diagnostics.read') && session.may('flows.read');
}

export function show(place) {
    const state = h('div', { class: 'stack', 'aria-live': 'polite' });
    const since = h('p', { class: 'muted' });
    const tiles = h('div', { class: 'tiles' });
    put(place, h('div', { class: 'stack' }, h('h1', null, t('nav.now')), state, since, tiles));
    let stopped = false;
    const stop = poll(PERIOD, async () => {
        try {
            const now = await api.read('gateway/now');
            if (stopped) return;
            put(state, notices(now));
            const [first] = now.samples.at;
            put(since, t('now.since', { time: first ? ago(first * 1000 - PERIOD) : '–' }));
            put(tiles, TILES.map((tile) => tile(now)));
        } catch (error) {
            if (!stopped) put(state, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    });
    return () => { stopped = true; stop(); };
}

// What is not well comes first; else that all is.
function notices(now) {
    const bad = (text) => h('p', { class: 'notice bad' }, text);
    const warn = (text) => h('p', { class: 'notice warn' }, text);
    const found = [
        now.runtime.state !== 'well' && bad(t(`now.${now.runtime.state}`, { name: now.runtime.name })),
        now.set_aside && bad(t('now.set_aside', { rev: now.set_aside.slice(0, 12) })),
        now.flows === 'stop' && warn(t('now.stop')),
        now.flows === 'safe' && warn(t('now.safe')),
        now.stopped.map(({ label, id, reason }) => bad(t('now.stopped', { flow: String(label || id), reason: String(reason) }))),
        now.closed.map((message) => warn(message)),
    ].flat().filter(Boolean);
    return [
        found.length > 0 ? found : h('p', { class: 'notice good' }, t('now.well')),
        now.runtime.leader && h('p', { class: 'muted' }, leads(now.runtime.leader)),
        Object.entries(now.runtime.shards ?? {}).map(([shard, leader]) => h('p', { class: 'muted' }, leads(leader, shard))),
    ];
}

// Which gateway of a cluster runs the engine, or that of a shard.
function leads(leader, shard) {
    const text = shard === undefined ? 'now.leader' : 'now.shard';
    switch (leader) {
        case 'here': return t(`${text}_here`, { shard });
        case 'none': return t(`${text}_none`, { shard });
        default: return t(`${text}_at`, { shard, address: leader });
    }
}

const sum = (values) => values.reduce((all, value) => all + value, 0);
const last = (values) => values.findLast((value) => value !== null);

// A number with its curve, and what it means. `second` is another curve in the same measure.
function tile(name, { value, second, unit = (x) => number(x) }) {
    return ({ samples }) => {
        const values = samples[name];
        const label = t(`now.${name}`);
        return h('section', { class: 'card tile', 'aria-label': label },
            h('h2', { class: 'small muted' }, label),
            h('p', { class: 'value' }, values.length > 0 ? value(samples) : '–'),
            chart(samples.at, [values, second && samples[second]].filter(Boolean), { label, unit }),
            h('p', { class: 'small muted' }, t(`now.${name}_means`)));
    };
}

const seconds = (value) => (value === null || value === undefined ? '–' : value < 1 ? `${number(value * 1000, 1)} ms` : `${number(value, 2)} s`);
const mebibytes = (value) => `${number(value / 2 ** 20, 1)} MiB`;

const TILES = [
    tile('requests', { value: ({ requests }) => number(sum(requests)) }),
    tile('errors', { value: ({ errors }) => number(sum(errors)) }),
    tile('p99', { value: ({ p50, p99 }) => `${seconds(last(p50))} / ${seconds(last(p99))}`, second: 'p50', unit: seconds }),
    tile('messages', { value: ({ messages }) => number(sum(messages)) }),
    tile('deployments', { value: ({ deployments }) => number(sum(deployments)) }),
    tile('sign_ins', { value: ({ sign_ins }) => number(sum(sign_ins)) }),
    tile('refusals', { value: ({ refusals }) => number(sum(refusals)) }),
    tile('sessions', { value: ({ sessions }) => number(last(sessions)) }),
    tile('editors', { value: ({ editors }) => number(last(editors)) }),
    tile('memory', { value: ({ memory }) => mebibytes(last(memory)), unit: mebibytes }),
];
