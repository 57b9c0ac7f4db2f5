// The state of the audit log's chain, verified part by part, and a copy of the log.

import * as api from './api.js';
import { h, put } from './dom.js';
import { moment, t } from './text.js';

// How long a copy may take, in milliseconds. Our choice: a gibibyte over a slow line.
const COPY_TIMEOUT = 30 * 60_000;

export function chain() {
    const state = h('div', { class: 'stack', role: 'status' });
    const act = (work) => async (event) => {
        const button = event.currentTarget;
        button.disabled = true;
        try {
            await work(state);
        } catch (error) {
            put(state, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
        button.disabled = false;
    };
    return h('section', { class: 'card stack', 'aria-label': t('audit.chain') },
        h('div', { class: 'row between' }, h('h2', null, t('audit.chain')),
            h('div', { class: 'row' },
                h('button', { onclick: act(verify) }, t('audit.verify')),
                h('button', { onclick: act(copy) }, t('audit.export')))),
        h('p', { class: 'small muted' }, t('audit.chain_means')),
        state);
}

// Each part begins with the last record of the one before.
async function verify(state) {
    const all = { from: 0, repairs: 0, removed: 0, checkpoint: null };
    let part = { next: 0 };
    while (part.next !== null) {
        part = await api.read('gateway/audit/verify', { from: part.next });
        all.from ||= part.from;
        all.repairs += part.repairs;
        all.removed ||= part.removed;
        all.checkpoint = part.checkpoint ?? all.checkpoint;
        if (part.fault) return put(state, h('p', { class: 'notice bad', role: 'alert' }, t('audit.fault', { fault: part.fault })));
        put(state, h('p', { class: 'muted' }, t('audit.verifying', { n: part.to })));
    }
    const count = part.to === 0 ? 0 : part.to - all.from + 1;
    const more = [
        all.checkpoint ? t('audit.checkpoint', { n: all.checkpoint }) : t('audit.unsigned'),
        all.removed > 0 && t('audit.removed', { n: all.removed }),
        all.repairs > 0 && t('audit.repaired', { n: all.repairs }),
    ].filter(Boolean);
    put(state, h('p', { class: all.repairs > 0 ? 'notice warn' : 'notice good' }, [t('audit.intact', { n: count, time: part.time ? moment(part.time) : '–' }), ...more].join(' ')));
}

// A link cannot have the token, so the copy is kept by the browser first.
async function copy() {
    const response = await api.send('GET', 'gateway/audit/export', { timeout: COPY_TIMEOUT });
    const url = URL.createObjectURL(await response.blob());
    h('a', { href: url, download: 'audit.ndjson' }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
