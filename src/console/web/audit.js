// The audit log: its newest records and new ones as they come, a search, the state of its chain, and a copy of it.

import * as api from './api.js';
import { chain } from './audit_chain.js';
import { record } from './audit_record.js';
import { h, put } from './dom.js';
import { poll } from './poll.js';
import * as session from './session.js';
import { moment, t } from './text.js';

// How often new records are asked for, in milliseconds. Our choice: an eye waits that long.
const PERIOD = 3000;

// Pages that one search reads until it has found a record. Our choice: each covers some 30,000 records.
const MAX_PAGES = 20;

// Records that the page keeps: the oldest make room for new ones.
const MAX_SHOWN = 1000;

// Events by the beginnings of their names.
const EVENTS = ['admin', 'audit', 'auth', 'comms', 'config', 'flows', 'freeze', 'permission', 'process', 'proposal', 'reload', 'secret', 'session', 'token', 'unfreeze'];

export function allowed() {
    return session.may('gateway.audit');
}

export function show(place) {
    const view = new Audit(place);
    view.search();
    const stop = poll(PERIOD, () => view.follow());
    return () => { view.stopped = true; stop(); };
}

class Audit {
    constructor(place) {
        this.records = [];
        this.next = null;
        // Which search is the last one: answers to those before it come too late.
        this.searches = 0;
        this.rows = h('tbody');
        this.state = h('div', { class: 'stack', role: 'status' });
        this.following = h('input', { type: 'checkbox', checked: true });
        this.form = this.filter();
        put(place, h('div', { class: 'stack' },
            h('h1', null, t('nav.audit')), h('p', { class: 'muted' }, t('audit.intro')), chain(),
            h('div', { class: 'card stack' }, this.form,
                h('label', { class: 'row' }, this.following, t('audit.follow')),
                h('div', { class: 'table records', role: 'region', tabindex: '0', 'aria-label': t('audit.records') }, h('table', null,
                    h('thead', null, h('tr', null, ['number', 'time', 'event', 'user', 'address', 'details'].map((name) => h('th', { scope: 'col' }, t(`audit.${name}`))))),
                    this.rows)),
                this.state)));
    }

    filter() {
        const field = (name, control) => h('label', { class: 'field' }, t(`audit.${name}`), control);
        const select = (name, options) => h('select', { name }, options.map(([value, text]) => h('option', { value }, text)));
        const submit = (event) => {
            event.preventDefault();
            this.search();
        };
        return h('form', { class: 'filter', role: 'search', 'aria-label': t('audit.filter'), onsubmit: submit },
            field('text', h('input', { type: 'search', name: 'text', maxlength: 256 })),
            field('user', h('input', { type: 'search', name: 'user', maxlength: 256 })),
            field('event', select('event', [['', t('audit.all_events')], ...EVENTS.map((name) => [name, `${name} …`])])),
            field('outcome', select('failed', [['', t('audit.any')], ['true', t('audit.failed')], ['false', t('audit.done')]])),
            field('since', h('input', { type: 'datetime-local', name: 'since' })),
            field('until', h('input', { type: 'datetime-local', name: 'until' })),
            h('button', { class: 'primary', type: 'submit' }, t('audit.search')));
    }

    // What the form asks for, as the API takes it.
    query() {
        const fields = Object.fromEntries(new FormData(this.form));
        for (const name of ['since', 'until']) {
            if (fields[name]) fields[name] = new Date(fields[name]).toISOString();
        }
        return fields;
    }

    // Reads anew from the newest record.
    search() {
        this.asked = this.query();
        this.records = [];
        this.newest = null;
        put(this.rows);
        return this.older(null);
    }

    // Reads records before a number, of several pages where few fit.
    async older(before) {
        const search = ++this.searches;
        const isCurrent = () => !this.stopped && search === this.searches;
        put(this.state, h('p', { class: 'muted' }, t('loading')));
        try {
            let page;
            for (let pages = 0; pages < MAX_PAGES; pages++) {
                page = await api.read('gateway/audit', { ...this.asked, before });
                if (!isCurrent()) return;
                this.newest ??= page.records[0]?.seq ?? (page.next ? page.next : 0);
                this.records.push(...page.records);
                this.rows.append(...page.records.map(record));
                before = page.next;
                if (page.records.length > 0 || before === null) break;
            }
            this.showState(page);
        } catch (error) {
            if (isCurrent()) put(this.state, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    }

    showState({ next, reached }) {
        put(this.state,
            this.records.length === 0 && h('p', { class: 'empty' }, t('audit.none')),
            next !== null && h('div', { class: 'row' },
                h('button', { onclick: () => this.older(next) }, t('audit.older')),
                h('span', { class: 'muted small' }, t('audit.reached', { time: moment(reached) }))));
    }

    // Adds what has come since.
    async follow() {
        if (!this.following.checked || this.newest === null) return;
        const search = this.searches;
        try {
            const page = await api.read('gateway/audit', { ...this.asked, after: this.newest, limit: 200 });
            if (this.stopped || search !== this.searches || page.records.length === 0) return;
            this.newest = page.records[0].seq;
            this.records.unshift(...page.records);
            this.rows.prepend(...page.records.map(record));
            // What was read of older records stays: only as many as the page can show are kept.
            while (this.rows.childElementCount > MAX_SHOWN) this.rows.lastElementChild.remove();
            if (page.next !== null) put(this.state, h('p', { class: 'notice warn' }, t('audit.gap')));
        } catch {
            // The next turn tries again.
        }
    }
}
