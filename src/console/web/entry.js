// An entry of the history in words.

import { h } from './dom.js';
import { ago, moment, number, t } from './text.js';

const TYPES = ['full', 'flows', 'nodes', 'reload', 'outside-edit', 'start', 'fallback'];

// What the client said about it, else what kind of deployment it was.
export function entryTitle(entry) {
    if (entry.message) return entry.message;
    return TYPES.includes(entry.type) ? t(`type.${entry.type}`) : entry.type;
}

// The user of an entry; an edit of the file or at the upstream has none.
export function author(entry) {
    return entry.user || t(entry.type === 'outside-edit' ? 'unknown' : 'program');
}

export function byline(entry) {
    return `${author(entry)}, ${ago(entry.time)}`;
}

// How much it changed, as three numbers with words for screen readers.
export function counts({ changes }) {
    if (!changes) return null;
    const one = (kind, sign) => changes[kind] > 0 && h('span', { class: kind },
        h('span', { 'aria-hidden': 'true' }, `${sign}${number(changes[kind])}`), h('span', { class: 'unseen' }, `${number(changes[kind])} ${t(`difference.${kind}`)}`));
    return h('span', { class: 'counts' }, one('added', '+'), one('changed', '~'), one('removed', '−'));
}

export function badges(entry, isActive) {
    return [
        isActive && h('span', { class: 'badge active' }, t('history.active')),
        entry.tags.map((tag) => h('span', { class: 'badge', title: tag }, tag)),
    ];
}

export function facts(entry) {
    const fact = (name, value) => [h('dt', null, t(`fact.${name}`)), h('dd', null, value)];
    return h('dl', { class: 'facts' },
        fact('user', author(entry)),
        fact('time', h('time', { datetime: entry.time, title: ago(entry.time) }, moment(entry.time))),
        entry.address && fact('address', `${entry.address} (${entry.by})`),
        fact('type', TYPES.includes(entry.type) ? t(`type.${entry.type}`) : entry.type),
        entry.tags.length > 0 && fact('tags', badges(entry, false)),
        fact('rev', h('code', { title: entry.rev }, entry.rev.slice(0, 12))));
}
