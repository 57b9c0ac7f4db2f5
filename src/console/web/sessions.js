// The sessions of the user, or with all permissions those of everyone; each can be ended.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h, put, toast } from './dom.js';
import { ownRights } from './rights.js';
import * as session from './session.js';
import { ago, moment, t } from './text.js';

export function allowed() {
    return Boolean(session.token());
}

export function show(place) {
    const list = h('div', { class: 'table', 'aria-live': 'polite' });
    put(place, h('div', { class: 'stack' }, h('h1', null, t('nav.sessions')), h('p', { class: 'muted' }, t('sessions.intro')), h('div', { class: 'card' }, list), ownRights()));
    load(list);
}

async function load(place) {
    try {
        const { sessions } = await api.read('gateway/sessions');
        sessions.sort((a, b) => b.current - a.current || (b.last_used ?? b.created).localeCompare(a.last_used ?? a.created));
        const head = ['user', 'client', 'used', 'created', 'expires', 'rights'].map((name) => h('th', { scope: 'col' }, t(`sessions.${name}`)));
        put(place, h('table', null,
            h('thead', null, h('tr', null, head, h('th', { scope: 'col' }, h('span', { class: 'unseen' }, t('sessions.end'))))),
            h('tbody', null, sessions.map((one) => row(one, () => load(place))))));
    } catch (error) {
        put(place, h('p', { class: 'notice bad', role: 'alert' }, error.message));
    }
}

function row(one, again) {
    const time = (value) => (value ? h('time', { datetime: value, title: moment(value) }, ago(value)) : '–');
    return h('tr', null,
        h('td', null, one.user, ' ', one.current && h('span', { class: 'badge active' }, t('sessions.current'))),
        h('td', null, one.client, h('div', { class: 'small muted' }, one.agent)),
        h('td', { class: 'nowrap' }, time(one.last_used)), h('td', { class: 'nowrap' }, time(one.created)), h('td', { class: 'nowrap' }, time(one.expires)),
        h('td', null, one.permissions.length > 0 ? one.permissions.join(' ') : t('sessions.all')),
        h('td', null, h('button', { onclick: () => end(one, again), 'aria-label': t('sessions.end_of', { user: one.user, client: one.client }) }, t('sessions.end'))));
}

async function end(one, again) {
    const done = await confirm({
        title: t('sessions.end'), text: t('sessions.end_of', { user: one.user, client: one.client }), action: t('sessions.end'), danger: true,
        act: () => api.send('DELETE', `gateway/sessions/${encodeURIComponent(one.id)}`),
    });
    if (!done) return;
    toast(t('sessions.ended', { n: 1 }));
    if (one.current) session.ended();
    else again();
}
