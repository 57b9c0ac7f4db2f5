// Measures the engine, and shows in the drawing which nodes use its time and have errors, and how many messages went through each
// wire.

import * as api from './api.js';
import { h, put } from './dom.js';
import { number, t } from './text.js';

// How long the engine is measured, in seconds. Our choice: a user waits that long, and most flows do something.
const SECONDS = 3;

// Calls `shown` with a map from the id of a node to its share of the time, 0 to 1, the messages that it has received and sent by
// output, and its errors; with an empty one to show none. `nodes` returns the nodes of the tab that is shown.
export function heat(nodes, shown) {
    const place = h('div', { class: 'stack', role: 'status' });
    const clear = h('button', { hidden: true, onclick: () => { shown(new Map()); put(place); clear.hidden = true; } }, t('heat.clear'));
    const measure = h('button', { onclick: async () => {
        measure.disabled = true;
        put(place, h('p', { class: 'muted' }, t('heat.measuring', { n: SECONDS })));
        try {
            const profile = await api.read('gateway/profile', { seconds: SECONDS });
            const found = usage(profile);
            shown(found);
            put(place, table(nodes(), found));
            clear.hidden = false;
        } catch (error) {
            put(place, h('p', { class: 'notice warn', role: 'alert' }, error.status === 404 ? t('heat.no_engine') : error.message));
        }
        measure.disabled = false;
    } }, t('heat.measure'));
    return h('section', { class: 'card stack', 'aria-label': t('heat.title') },
        h('div', { class: 'row between' }, h('span', null, t('heat.intro')), h('div', { class: 'row' }, measure, clear)), place);
}

// By the id of the node. Those inside of instances of subflows have ids of their own, which no drawing has.
function usage({ nodes, seconds }) {
    const found = new Map();
    for (const { id, seconds: time, messages, outputs, errors } of nodes) found.set(id, { share: time / seconds, messages, outputs, errors });
    return found;
}

const percent = (share) => `${number(share * 100, 1)} %`;

function table(nodes, found) {
    const measured = nodes.filter(({ id }) => found.has(id)).sort((a, b) => found.get(b.id).share - found.get(a.id).share);
    if (measured.length === 0) return h('p', { class: 'muted' }, t('heat.none'));
    const scrolls = { class: 'table', role: 'region', tabindex: '0', 'aria-label': t('heat.share') };
    return h('div', scrolls, h('table', null,
        h('thead', null, h('tr', null, ['node', 'share', 'messages', 'sent', 'errors'].map((name) => h('th', { scope: 'col' }, t(`heat.${name}`))))),
        h('tbody', null, measured.map(({ id, name, type }) => h('tr', null,
            h('td', null, name, ' ', h('span', { class: 'small muted' }, type)),
            values(found.get(id)))))));
}

function values({ share, messages, outputs, errors }) {
    const sent = outputs.length === 0 ? '–' : outputs.map((one) => number(one)).join(' / ');
    return [percent(share), number(messages), sent].map((value) => h('td', null, value)).concat(
        h('td', null, errors > 0 ? h('span', { class: 'badge bad' }, number(errors)) : number(0)));
}

// The text of a node in the drawing.
export function heatText({ share, messages }) {
    return `${percent(share)} · ${number(messages)}`;
}
