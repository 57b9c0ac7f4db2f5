// The entries of the history as a list of links, by day.

import { h } from './dom.js';
import { author, badges, counts, entryTitle } from './entry.js';
import { ago, clock, day, moment } from './text.js';

// `shown` is the revision beside it, `active` the entry that runs, `address` the address of one.
export function timeline(entries, { shown, active, address }) {
    const days = [];
    for (const entry of entries) {
        const name = day(entry.time);
        if (days.at(-1)?.name !== name) days.push({ name, entries: [] });
        days.at(-1).entries.push(entry);
    }
    return days.map(({ name, entries }) => [
        h('h2', { class: 'day' }, name),
        h('ul', null, entries.map((entry) => h('li', null, row(entry, { shown, active, address })))),
    ]);
}

function row(entry, { shown, active, address }) {
    return h('a', { class: 'entry', href: address(entry.rev), 'data-rev': entry.rev, 'aria-current': entry.rev === shown && 'true' },
        h('span', { class: 'title' }, entryTitle(entry)),
        h('span', { class: 'meta' },
            h('span', null, author(entry)),
            h('time', { datetime: entry.time, title: `${moment(entry.time)} (${ago(entry.time)})` }, clock(entry.time)),
            counts(entry),
            badges(entry, entry === active)));
}
