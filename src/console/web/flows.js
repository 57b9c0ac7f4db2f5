// The flows: each tab as a drawing, with the statuses of its nodes as they change.

import * as api from './api.js';
import { Drawing } from './drawing.js';
import { h, put } from './dom.js';
import { heat } from './heat.js';
import { nodePanel } from './node_panel.js';
import { tab } from './scene.js';
import * as session from './session.js';
import { Statuses } from './statuses.js';
import { number, t } from './text.js';

// Nodes in the list for screen readers and search. Our choice: more than a user reads.
const LISTED = 300;

let view = null;

export function allowed() {
    return session.maySome('flows.read') || session.maySome('flows.write');
}

export function update(route) {
    return view?.go(route) ?? false;
}

export function show(place, route) {
    view = new Flows(place);
    view.load(route);
    return () => { view.stop(); view = null; };
}

class Flows {
    constructor(place) {
        this.place = place;
        this.notice = h('div');
        this.list = h('nav', { class: 'list', 'aria-label': t('flows.tabs') });
        this.stage = h('div', { class: 'stack' });
        put(place, h('div', { class: 'stack' }, h('h1', null, t('nav.flows')), h('div', { class: 'flows' }, this.list, this.stage)));
        put(this.stage, h('p', { class: 'muted' }, t('loading')));
    }

    stop() {
        this.stopped = true;
        this.drawing?.stop();
        this.statuses?.stop();
    }

    async load(route) {
        try {
            const { flows, rev } = await api.flows();
            if (this.stopped) return;
            [this.flows, this.rev] = [flows, rev];
        } catch (error) {
            return put(this.stage, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
        this.tabs = this.flows.filter((node) => node.type === 'tab' || node.type === 'subflow');
        this.counts = new Map();
        for (const { z } of this.flows) this.counts.set(z, (this.counts.get(z) ?? 0) + 1);
        if (this.tabs.length === 0) return put(this.stage, h('p', { class: 'empty' }, t('flows.none')));
        this.drawing = new Drawing({ label: t('drawing.flow'), wheel: true, choose: (node) => this.choose(node) });
        this.panel = h('div', { 'aria-live': 'polite' });
        this.title = h('h2');
        this.search = h('input', { type: 'search', placeholder: t('flows.search'), 'aria-label': t('flows.search'), oninput: () => this.showNodes() });
        this.nodes = h('ul', { class: 'chips' });
        const measured = session.may('diagnostics.read') && session.may('flows.read') && heat(() => this.scene.nodes, (found) => this.drawing.heat(found));
        put(this.stage, this.notice, this.title, this.drawing.element, measured, this.panel,
            h('details', { class: 'card', ontoggle: () => this.showNodes() }, h('summary', null, t('flows.nodes')), h('br'), this.search, h('br'), h('br'), this.nodes));
        if (session.may('status.read')) this.statuses = new Statuses((all) => this.drawing.statuses(all), (rev) => this.deployed(rev));
        // The address may have changed meanwhile.
        this.go(this.route ?? route);
    }

    // Another flow set is active: the one that is shown stays until the user wants the other.
    deployed(rev) {
        if (rev === this.rev || this.stopped) return;
        const again = () => { this.stop(); show(this.place, this.route); };
        put(this.notice, h('p', { class: 'notice row between', role: 'status' }, t('flows.deployed'), h('button', { onclick: again }, t('flows.show'))));
    }

    // Takes the address: `#/flows/ID`.
    go(route) {
        this.route = route;
        const [id] = route.parts;
        if (!this.tabs || this.tabs.length === 0) return true;
        const shown = this.tabs.find((one) => one.id === id) ?? this.tabs[0];
        put(this.list, this.tabs.map((one) => h('a', { href: `#/flows/${encodeURIComponent(one.id)}`, 'aria-current': one === shown && 'page' },
            h('span', null, this.name(one)), h('span', { class: 'small muted' }, number(this.counts.get(one.id) ?? 0)))));
        put(this.title, this.name(shown), ' ', shown.disabled === true && h('span', { class: 'badge' }, t('flows.disabled')), ' ',
            shown.locked === true && h('span', { class: 'badge' }, t('flows.locked')));
        this.scene = tab(this.flows, shown.id);
        this.drawing.show(this.scene);
        this.choose(null);
        this.showNodes();
        return true;
    }

    name(one) {
        return String((one.type === 'tab' ? one.label : one.name) || one.id);
    }

    showNodes() {
        const wanted = this.search.value.toLowerCase();
        const found = this.scene.nodes.filter((node) => `${node.name} ${node.type} ${node.id}`.toLowerCase().includes(wanted));
        put(this.nodes, found.slice(0, LISTED).map((node) => h('li', null,
            h('button', { class: 'chip', onclick: () => this.choose(node) }, `${node.name} (${node.type})`))),
            found.length > LISTED && h('li', { class: 'muted' }, t('flows.others', { n: found.length - LISTED })));
    }

    choose(node) {
        this.drawing.select(node?.id ?? null);
        if (!node) return put(this.panel);
        const element = this.flows.find((one) => one.id === node.id);
        nodePanel(this.panel, element, node.name, this.statuses?.of(node.id));
    }
}
