// Proposals: changes that wait for the approval of another user, with what they change.

import * as api from './api.js';
import { difference } from './changes.js';
import { confirm } from './dialog.js';
import { h, put, toast } from './dom.js';
import * as session from './session.js';
import { ago, moment, t } from './text.js';
import { lasting } from './view.js';

const STATES = ['open', 'approved', 'rejected', 'withdrawn', 'expired'];

export const { show, update } = lasting((place) => new Proposals(place));

export function allowed() {
    return session.may('flows.read');
}

class Proposals {
    constructor(place) {
        this.state = 'open';
        this.entries = [];
        this.states = h('div', { class: 'chips', role: 'group', 'aria-label': t('proposals.state') });
        this.list = h('div', { class: 'timeline', 'aria-live': 'polite' });
        this.detail = h('section', { class: 'detail stack', 'aria-label': t('proposals.detail') });
        this.pane = h('div', { class: 'history' },
            h('div', { class: 'timeline-pane stack' }, h('h1', null, t('nav.proposals')), this.states, this.list), this.detail);
        this.leave = () => {};
        put(place, this.pane);
    }

    stop() {
        this.stopped = true;
        this.leave();
    }

    // Takes the address: `#/proposals/NUMBER`.
    go({ parts: [number] }) {
        this.chosen = number ?? null;
        this.pane.classList.toggle('one', Boolean(number));
        this.showDetail();
        this.showList();
        return true;
    }

    async load() {
        put(this.states, STATES.map((state) => h('button', { class: 'chip', 'aria-pressed': String(state === this.state),
            onclick: () => { this.state = state; this.load(); } }, t(`state.${state}`))));
        try {
            const page = await api.read('gateway/proposals', { state: this.state });
            this.entries = page.proposals;
            this.next = page.next;
            this.showList();
        } catch (error) {
            put(this.list, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    }

    async more() {
        const page = await api.read('gateway/proposals', { state: this.state, before: this.next });
        this.entries.push(...page.proposals);
        this.next = page.next;
        this.showList();
    }

    showList() {
        put(this.list,
            this.entries.length === 0 && h('p', { class: 'empty' }, t('proposals.none')),
            h('ul', null, this.entries.map((one) => h('li', null,
                h('a', { class: 'entry', href: `#/proposals/${one.id}`, 'aria-current': String(one.id) === this.chosen && 'true' },
                    h('span', { class: 'title' }, t('proposals.title', { n: String(one.id), user: one.user })),
                    h('span', { class: 'meta' }, h('time', { datetime: one.time, title: moment(one.time) }, ago(one.time)),
                        h('span', { class: `badge ${one.state}` }, t(`state.${one.state}`))))))),
            typeof this.next === 'number' && h('button', { onclick: () => this.more() }, t('more')));
    }

    async showDetail() {
        this.leave();
        this.leave = () => {};
        if (!this.chosen) return put(this.detail, h('p', { class: 'empty' }, t('proposals.choose')));
        const number = this.chosen;
        const path = `gateway/proposals/${encodeURIComponent(number)}`;
        try {
            const found = await api.read(path, { flows: 'true' });
            if (this.stopped || this.chosen !== number) return;
            const place = h('div', { class: 'stack' });
            const approve = h('div', { class: 'row' });
            put(this.detail, this.header(found, path, approve), place);
            this.leave = difference(place, found.diff, {
                sets: async () => [await api.flowSet(found.base), found.flows ?? []],
                page: async (offset) => (await api.read(path, { offset })).diff,
                onLeft: (left) => put(approve, this.approval(found, path, left)),
            });
        } catch (error) {
            put(this.detail, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    }

    header(found, path, approve) {
        const fact = (name, value) => value && [h('dt', null, t(`fact.${name}`)), h('dd', null, value)];
        return h('div', { class: 'card stack' },
            h('a', { class: 'back', href: '#/proposals' }, t('proposals.back')),
            h('div', { class: 'row' }, h('h2', null, t('proposals.title', { n: String(found.id), user: found.user })),
                h('span', { class: `badge ${found.state}` }, t(`state.${found.state}`))),
            h('dl', { class: 'facts' },
                fact('time', moment(found.time)),
                found.state === 'open' && fact('expires', `${moment(found.expires)} (${ago(found.expires)})`),
                fact('address', found.address && `${found.address} (${found.by})`),
                fact('message', found.message),
                fact('base', h('code', { title: found.base }, found.base.slice(0, 12))),
                fact('decided_by', found.decided_by), fact('reason', found.reason)),
            found.state === 'open' && h('div', { class: 'row' }, approve, this.buttons(found, path)));
    }

    approves(found) {
        return session.may('flows.approve') && session.current().name !== found.user;
    }

    button(name, style, ask) {
        return h('button', { class: style, onclick: async () => (await ask()) && this.decided(name) }, t(`proposals.${name}`));
    }

    // The button to approve, once all that would be approved is listed.
    approval(found, path, left) {
        if (!this.approves(found)) return null;
        if (left > 0) return h('p', { class: 'small muted' }, t('proposals.left', { n: left }));
        return this.button('approve', 'primary', () => confirm({
            title: t('proposals.approve'), text: t('proposals.approve_text'), action: t('proposals.approve'),
            field: { label: t('undo.message'), max: 500 },
            act: (text) => api.send('POST', `${path}/approve`, { headers: api.message(text) }),
        }));
    }

    buttons(found, path) {
        const isOwn = session.current().name === found.user;
        const approves = this.approves(found);
        const button = (name, style, ask) => this.button(name, style, ask);
        return [
            approves && button('reject', 'danger', () => confirm({
                title: t('proposals.reject'), action: t('proposals.reject'), danger: true,
                field: { label: t('proposals.reason'), max: 200, required: true },
                act: (reason) => api.send('POST', `${path}/reject`, { body: { reason } }),
            })),
            (approves || isOwn) && session.maySome('flows.write') && button('rebase', '', () => confirm({
                title: t('proposals.rebase'), text: t('proposals.rebase_text'), action: t('proposals.rebase'),
                act: () => api.send('POST', `${path}/rebase`),
            })),
            isOwn && session.maySome('flows.write') && button('withdraw', '', () => confirm({
                title: t('proposals.withdraw'), action: t('proposals.withdraw'), act: () => api.send('DELETE', path),
            })),
        ];
    }

    decided(name) {
        toast(t(`proposals.done_${name}`));
        this.load();
        this.showDetail();
    }
}
