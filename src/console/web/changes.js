// What differs between two flow sets: the drawing of each tab with marks, and the elements with their properties.

import * as api from './api.js';
import { Drawing } from './drawing.js';
import { h, put, toast } from './dom.js';
import { element } from './element_diff.js';
import { marked } from './scene.js';
import { number, t } from './text.js';

// Elements of one flow that are shown at once. Our choice; the others are a click away.
const SHOWN = 100;

// Shows the difference of two revisions; `flow` comes first. `act` makes the button for one flow.
export async function changes(place, { from, to, flow, isCurrent, act }) {
    put(place, h('p', { class: 'muted' }, t('loading')));
    if (!from) {
        put(place, h('p', { class: 'notice' }, t('changes.first')));
        return () => {};
    }
    const page = (offset) => api.read('gateway/diff', { from, to, offset });
    let diff;
    try {
        diff = await page(0);
    } catch (error) {
        if (error.status !== 404) throw error;
        put(place, h('p', { class: 'notice warn' }, t('changes.forgotten')));
        return () => {};
    }
    if (!isCurrent()) return () => {};
    return difference(place, diff, { flow, act, page, sets: () => Promise.all([api.flowSet(from), api.flowSet(to)]) });
}

// Shows a difference whose first page is there; `page` fetches the elements from an offset on, `sets` the flow sets
// before and after for the drawing. `onLeft` is told how many elements are not listed yet.
export function difference(place, diff, { flow, act = () => null, page, sets, onLeft = () => {} }) {
    const ordered = [...diff.flows].sort((a, b) => (b.id === flow) - (a.id === flow));
    const drawn = ordered.filter((one) => one.id !== null && one.elements.some((found) => found.type !== 'tab'));
    const stage = h('div', { class: 'stack' });
    put(place, h('div', { class: 'row between' }, h('h2', null, t('changes.title')), legend(diff)),
        ordered.length === 0 && h('p', { class: 'empty' }, t('changes.none')),
        !diff.credentials_compared && ordered.length > 0 && h('p', { class: 'small muted' }, t('changes.no_credentials')),
        drawn.length > 0 && stage,
        listing(diff, ordered, { act, page, onLeft }));
    return drawn.length > 0 ? drawings(stage, drawn, sets) : () => {};
}

function legend(diff) {
    const kinds = ['added', 'removed', 'changed', 'moved', 'repositioned'];
    return h('span', { class: 'legend' }, kinds.filter((kind) => diff[kind] > 0).map((kind) =>
        h('span', { class: `badge ${kind}` }, `${number(diff[kind])} ${t(`difference.${kind}`)}`)));
}

function name({ id, label }) {
    return id === null ? t('changes.shared') : String(label || id);
}

// The elements by flow, page by page.
function listing(diff, ordered, { act, page, onLeft }) {
    let left = 0;
    const tell = (change) => onLeft(left += change);
    const list = h('div', { class: 'stack' });
    let offset = 0;
    const add = ({ flows, omitted }) => {
        for (const one of flows) {
            offset += one.elements.length;
            left += Math.max(0, one.elements.length - SHOWN);
            list.append(section(one, act, tell));
        }
        if (omitted > 0) list.append(next(omitted));
        tell(omitted);
    };
    const next = (omitted) => {
        const button = h('button', { onclick: async () => {
            button.disabled = true;
            try {
                const more = await page(offset);
                button.remove();
                left -= omitted;
                add(more);
            } catch (error) {
                button.disabled = false;
                toast(error.message);
            }
        } }, t('changes.omitted', { n: omitted }));
        return button;
    };
    add({ flows: ordered, omitted: diff.omitted });
    return list;
}

function section(flow, act, tell) {
    const list = h('div', null, flow.elements.slice(0, SHOWN).map(element));
    const left = flow.elements.length - SHOWN;
    const more = left > 0 && h('button', { onclick: () => {
        more.remove();
        list.append(...flow.elements.slice(SHOWN).map(element));
        tell(-left);
    } }, t('changes.more', { n: left }));
    const label = name(flow);
    return h('section', { class: 'card', 'aria-label': label },
        h('div', { class: 'row between' }, h('h3', null, label), act({ id: flow.id, label })), h('br'), list, more);
}

// The drawing, with a button for each flow if there are several.
function drawings(stage, flows, sets) {
    const drawing = new Drawing({ label: t('drawing.changes') });
    const chosen = (flow) => {
        for (const chip of chips.children) chip.setAttribute('aria-pressed', String(chip.dataset.id === flow.id));
        shown.then((both) => both && drawing.show(marked(both[0], both[1], flow)));
    };
    const chips = h('div', { class: 'chips', role: 'group', 'aria-label': t('drawing.choose') }, flows.map((flow) =>
        h('button', { class: 'chip', 'data-id': flow.id, 'aria-pressed': 'false', onclick: () => chosen(flow) }, name(flow))));
    put(stage, flows.length > 1 && chips, drawing.element);
    const shown = sets().catch((error) => {
        put(stage, h('p', { class: 'notice warn' }, t('drawing.missing', { reason: error.message })));
        return null;
    });
    chosen(flows[0]);
    return () => drawing.stop();
}
