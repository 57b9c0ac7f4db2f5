// One record of the audit log as a row: the fields that all have, and its own.

import { h } from './dom.js';
import { moment, t } from './text.js';

// Fields that have columns of their own, or mean nothing to a reader.
const COMMON = new Set(['seq', 'time', 'event', 'user', 'by', 'address', 'request', 'prev', 'signature']);

// Events of refusals and failures whose names do not have `fail`.
const FAILURES = new Set(['permission.denied', 'auth.lockout', 'auth.guessing', 'flows.fallback', 'flows.safe', 'audit.full', 'audit.repaired']);

export function record(one) {
    const own = Object.entries(one).filter(([name]) => !COMMON.has(name));
    const failed = FAILURES.has(one.event) || /(?:^|\.)fail(?:\.|$)/.test(one.event);
    return h('tr', null,
        h('td', { class: 'nowrap' }, String(one.seq)),
        h('td', { class: 'nowrap' }, h('time', { datetime: one.time, title: one.time }, moment(one.time))),
        h('td', { class: 'nowrap' }, h('span', { class: failed ? 'badge bad' : 'badge' }, one.event)),
        h('td', null, one.user || h('span', { class: 'muted' }, t('program')), one.by && h('div', { class: 'small muted' }, one.by)),
        h('td', { class: 'nowrap' }, one.address ?? '–'),
        h('td', null, own.map(([name, value], at) => [at > 0 && ' · ', h('span', { class: 'muted' }, `${name} `), plain(value)])));
}

function plain(value) {
    return typeof value === 'string' ? value : JSON.stringify(value);
}
