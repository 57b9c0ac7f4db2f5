// The passkeys of the user: registering one under a name, and removing.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h, put, toast } from './dom.js';
import * as session from './session.js';
import { ago, moment, t } from './text.js';
import * as webauthn from './webauthn.js';

export function allowed() {
    return Boolean(session.token()) && session.isLocal() && session.offers().passkeys;
}

export function show(place) {
    const list = h('div', { class: 'table', 'aria-live': 'polite' });
    const add = webauthn.supported
        ? h('button', { class: 'primary', onclick: () => register(list) }, t('passkeys.add'))
        : h('p', { class: 'notice' }, t('passkeys.unsupported'));
    put(place, h('div', { class: 'stack' },
        h('h1', null, t('nav.passkeys')), h('p', { class: 'muted' }, t('passkeys.intro')), h('div', { class: 'row' }, add), h('div', { class: 'card' }, list)));
    load(list);
}

async function load(place) {
    try {
        const { passkeys } = await api.read('gateway/passkeys');
        if (passkeys.length === 0) return put(place, h('p', { class: 'empty' }, t('passkeys.none')));
        const head = ['name', 'host', 'created', 'used'].map((name) => h('th', { scope: 'col' }, t(`passkeys.${name}`)));
        put(place, h('table', null,
            h('thead', null, h('tr', null, head, h('th', { scope: 'col' }, h('span', { class: 'unseen' }, t('passkeys.remove'))))),
            h('tbody', null, passkeys.map((one) => row(one, () => load(place))))));
    } catch (error) {
        put(place, h('p', { class: 'notice bad', role: 'alert' }, error.message));
    }
}

function row(one, again) {
    const time = (value) => (value ? h('time', { datetime: value, title: moment(value) }, ago(value)) : '–');
    return h('tr', null,
        h('td', null, one.name), h('td', null, one.host),
        h('td', { class: 'nowrap' }, time(one.created)), h('td', { class: 'nowrap' }, time(one.last_used)),
        h('td', null, h('button', { onclick: () => remove(one, again), 'aria-label': t('passkeys.remove_one', { name: one.name }) }, t('passkeys.remove'))));
}

async function register(list) {
    const done = await confirm({
        title: t('passkeys.add'), text: t('passkeys.add_text'), action: t('passkeys.add'),
        field: { label: t('passkeys.name'), max: 64, required: true, pattern: '.+' },
        act: (name) => webauthn.register(name),
    });
    if (!done) return;
    toast(t('passkeys.added'));
    load(list);
}

async function remove(one, again) {
    const done = await confirm({
        title: t('passkeys.remove'), text: t('passkeys.remove_one', { name: one.name }), action: t('passkeys.remove'), danger: true,
        act: () => api.send('DELETE', `gateway/passkeys/${encodeURIComponent(one.id)}`),
    });
    if (!done) return;
    toast(t('passkeys.removed'));
    again();
}
