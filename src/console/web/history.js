// The history: a time line of deployments beside what one of them changed.

import * as api from './api.js';
import { changes } from './changes.js';
import { confirm } from './dialog.js';
import { h, put } from './dom.js';
import { undo } from './rollback.js';
import * as session from './session.js';
import { t } from './text.js';
import { byline, entryTitle, facts } from './entry.js';
import { timeline } from './timeline.js';
import { lasting } from './view.js';

// Entries of a page. Our choice: two screens full.
const PAGE = 40;

export const { show, update } = lasting((place) => new History(place));

export function allowed() {
    return session.may('flows.read');
}

class History {
    constructor(place) {
        this.entries = [];
        this.next = null;
        this.filter = { flow: null, user: '' };
        this.chips = h('div', { class: 'chips', role: 'group', 'aria-label': t('history.filter') });
        this.user = h('input', { type: 'search', placeholder: t('history.by_user'), 'aria-label': t('history.by_user'),
            onchange: () => this.select({ user: this.user.value.trim() }) });
        this.list = h('div', { class: 'timeline', 'aria-live': 'polite', 'aria-busy': 'true' });
        this.detail = h('section', { class: 'detail stack', 'aria-label': t('history.detail') });
        this.pane = h('div', { class: 'history' },
            h('div', { class: 'timeline-pane stack' }, h('h1', null, t('nav.history')), this.chips, this.user, this.list),
            this.detail);
        this.leaveDetail = () => {};
        put(place, this.pane);
    }

    stop() {
        this.stopped = true;
        this.leaveDetail();
    }

    // Takes the address: `#/history/REV?from=REV&flow=ID`.
    go({ parts: [rev], query }) {
        this.chosen = rev ?? null;
        this.from = query.get('from');
        this.pane.classList.toggle('one', Boolean(rev));
        const flow = query.get('flow');
        if (flow !== this.filter.flow && this.loaded) {
            this.filter.flow = flow;
            this.load();
        } else {
            this.filter.flow = flow;
            if (this.loaded) this.showDetail();
        }
        return true;
    }

    address(rev, from) {
        const query = new URLSearchParams();
        if (from) query.set('from', from);
        if (this.filter.flow) query.set('flow', this.filter.flow);
        return `#/history${rev ? `/${encodeURIComponent(rev)}` : ''}${query.size ? `?${query}` : ''}`;
    }

    select(filter) {
        Object.assign(this.filter, filter);
        if ('flow' in filter) location.hash = this.address(null);
        this.load();
    }

    // The first page, for the filter as it is. `deployed`: another flow set is active.
    async load(deployed = false) {
        const asked = (this.asked = Symbol('asked'));
        this.loaded = false;
        try {
            const [page] = await Promise.all([this.page(), this.loadFlows(deployed)]);
            if (asked !== this.asked || this.stopped) return;
            this.entries = page.deployments;
            this.next = page.next;
            this.loaded = true;
            this.showChips();
            this.showList();
            this.showDetail();
        } catch (error) {
            if (!this.stopped) put(this.list, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    }

    page(before) {
        const { flow, user } = this.filter;
        return api.read('gateway/deployments', { limit: PAGE, before, flow, user });
    }

    // The tabs, and the active revision.
    async loadFlows(deployed) {
        if (!this.active || deployed) this.active = await api.flows().catch(() => ({ flows: [], rev: null }));
    }

    async more() {
        const page = await this.page(this.next);
        this.entries.push(...page.deployments);
        this.next = page.next;
        this.showList();
    }

    showChips() {
        const tabs = this.active.flows.filter((node) => node.type === 'tab');
        const chip = (id, label) => h('button', { class: 'chip', title: label, 'aria-pressed': String(this.filter.flow === id),
            onclick: () => this.select({ flow: this.filter.flow === id ? null : id }) }, label);
        put(this.chips, chip(null, t('history.all_flows')), tabs.map((tab) => chip(tab.id, String(tab.label || tab.id))));
    }

    // Without a choice in the address it is the newest.
    current() {
        return this.chosen ?? this.entries[0]?.rev;
    }

    showList() {
        this.list.setAttribute('aria-busy', 'false');
        const shown = this.current();
        const active = this.entries.find((entry) => entry.rev === this.active.rev);
        put(this.list,
            this.entries.length === 0 && h('p', { class: 'empty' }, t('history.empty')),
            timeline(this.entries, { shown, active, address: (rev) => this.address(rev) }),
            this.next !== null && h('button', { onclick: () => this.more() }, t('more')));
    }

    async showDetail() {
        for (const link of this.list.querySelectorAll('.entry')) {
            const isShown = link.dataset.rev === this.current();
            isShown ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current');
        }
        const rev = this.current();
        const key = [rev, this.from, this.filter.flow, this.active.rev].join(' ');
        if (this.shownKey === key) return;
        this.shownKey = key;
        this.leaveDetail();
        this.leaveDetail = () => {};
        if (!rev) return put(this.detail);
        const asked = (this.askedDetail = Symbol('asked'));
        const isCurrent = () => asked === this.askedDetail && !this.stopped;
        try {
            const known = this.entries.find((entry) => entry.rev === rev);
            const entry = known ?? await api.read(`gateway/deployments/${encodeURIComponent(rev)}`);
            if (!isCurrent()) return;
            const from = this.from ?? entry.parent;
            const place = h('div', { class: 'stack' });
            put(this.detail, this.header(entry), place);
            const flow = this.filter.flow;
            const leave = await changes(place, { from, to: rev, flow, isCurrent, act: (one) => this.actions(entry, one) });
            if (isCurrent()) this.leaveDetail = leave;
            else leave();
        } catch (error) {
            this.shownKey = null;
            if (isCurrent()) put(this.detail, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    }

    header(entry) {
        const others = this.entries.filter((other) => other.rev !== entry.rev);
        const compare = h('select', { onchange: (event) => { location.hash = this.address(entry.rev, event.target.value); } },
            h('option', { value: '', selected: !this.from }, t('history.before_it')),
            others.map((other) => h('option', { value: other.rev, selected: this.from === other.rev }, `${other.number} · ${entryTitle(other)} · ${byline(other)}`)));
        return h('div', { class: 'card stack' },
            h('a', { class: 'back', href: this.address(null) }, t('history.back')),
            h('h2', null, entryTitle(entry)),
            facts(entry),
            h('label', { class: 'field' }, t('history.compare'), compare),
            session.may('flows.write') && h('div', { class: 'row' }, this.buttons(entry)));
    }

    // The tab that the list is filtered by.
    tab() {
        const tab = this.active.flows.find((node) => node.id === this.filter.flow);
        return tab && { id: tab.id, label: String(tab.label || tab.id) };
    }

    buttons(entry) {
        const all = (target, title, label, style) => h('button', { class: style, onclick: () => this.rollBack({ target, title, entry }) }, label);
        return [
            this.tab() && this.undoFlow(entry, this.tab(), 'primary'),
            entry.parent && !this.filter.flow && all(entry.parent, t('undo.title'), t('undo.button'), 'primary'),
            entry.rev !== this.active.rev && all(entry.rev, t('restore.title'), t('restore.button')),
            h('button', { onclick: () => this.tag(entry) }, t('tag.button')),
        ];
    }

    // Gives the entry a name, with which it is not forgotten.
    async tag(entry) {
        const done = await confirm({
            title: t('tag.button'), text: t('tag.text'), action: t('tag.button'),
            field: { label: t('tag.name'), max: 64, required: true, pattern: '[A-Za-z0-9._\\-]+' },
            act: (name) => api.send('POST', `gateway/tags/${encodeURIComponent(name)}`, { body: { rev: entry.rev } }),
        });
        if (!done) return;
        this.shownKey = null;
        this.load();
    }

    // The button at the changes of one flow: back to what it was before this entry.
    actions(entry, flow) {
        return flow.id && flow.id !== this.tab()?.id && session.may('flows.write') ? this.undoFlow(entry, flow, '') : null;
    }

    undoFlow(entry, { id, label }, style) {
        if (!entry.parent || this.from) return null;
        const act = () => this.rollBack({ target: entry.parent, flow: { id, label }, title: t('undo.title_flow', { flow: label }), entry });
        return h('button', { class: style, onclick: act }, t('undo.flow', { flow: label }));
    }

    async rollBack(what) {
        if (!await undo(what)) return;
        this.chosen = null;
        this.from = null;
        history.replaceState(null, '', this.address(null));
        this.load(true);
    }
}
