// One node: its properties, and the deployments that changed it.

import * as api from './api.js';
import { h, put } from './dom.js';
import { byline, entryTitle } from './entry.js';
import * as session from './session.js';
import { t } from './text.js';

// The last changes that are shown.
const CHANGES = 8;
// What the drawing shows already.
const DRAWN = new Set(['id', 'type', 'z', 'x', 'y', 'wires', 'name']);

export function nodePanel(place, node, name, status) {
    const history = h('div');
    const fact = (key, value) => [h('dt', null, key), h('dd', null, h('code', null, typeof value === 'string' ? value : JSON.stringify(value)))];
    const properties = Object.entries(node).filter(([key, value]) => !DRAWN.has(key) && value !== '');
    put(place, h('section', { class: 'card stack', 'aria-label': name },
        h('div', { class: 'row' }, h('h3', null, name), h('span', { class: 'badge' }, node.type), status?.text && h('span', { class: 'badge active' }, String(status.text))),
        h('details', null, h('summary', null, t('node.properties', { n: properties.length })),
            h('dl', { class: 'facts' }, fact('id', node.id), properties.map(([key, value]) => fact(key, value)))),
        history));
    if (session.may('flows.read')) changesOf(node.id, history);
}

async function changesOf(id, place) {
    try {
        const found = await api.read(`gateway/nodes/${encodeURIComponent(id)}/history`, { limit: CHANGES });
        put(place, h('h3', null, t('node.history')),
            found.history.length === 0 && h('p', { class: 'muted' }, t('node.no_history')),
            h('ul', null, found.history.map((entry) => h('li', { class: 'element' },
                h('div', { class: 'line' },
                    h('span', { class: `badge ${entry.difference}` }, t(`difference.${entry.difference}`)),
                    h('a', { class: 'name', href: `#/history/${encodeURIComponent(entry.rev)}` }, entryTitle(entry)),
                    h('span', { class: 'small muted nowrap' }, byline(entry)))))));
    } catch (error) {
        put(place, h('p', { class: 'muted' }, error.message));
    }
}
