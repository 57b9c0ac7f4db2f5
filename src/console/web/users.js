// The users, each with ways to sign in and rights; and the service tokens of machines.

import * as api from './api.js';
import { h, put } from './dom.js';
import { rights } from './rights.js';
import * as session from './session.js';
import { t } from './text.js';
import { tokens } from './tokens.js';

export function allowed() {
    return Boolean(session.token()) && (session.may('gateway.users') || session.may('gateway.tokens'));
}

export function show(place) {
    const list = h('div', { class: 'stack', 'aria-live': 'polite' });
    put(place, h('div', { class: 'stack' },
        h('h1', null, t('nav.users')),
        session.may('gateway.tokens') && tokens(),
        session.may('gateway.users') && h('section', { class: 'card stack', 'aria-label': t('users.title') },
            h('h2', null, t('users.title')), h('p', { class: 'muted' }, t('users.intro')), list)));
    if (session.may('gateway.users')) load(list);
}

async function load(place) {
    try {
        const { users } = await api.read('gateway/users');
        if (users.length === 0) return put(place, h('p', { class: 'empty' }, t('users.none')));
        put(place, h('ul', { class: 'people' }, users.map(person)));
    } catch (error) {
        put(place, h('p', { class: 'notice bad', role: 'alert' }, error.message));
    }
}

function person(user) {
    const fact = (name, value) => [h('dt', null, t(`users.${name}`)), h('dd', null, value)];
    return h('li', { class: 'stack' },
        h('div', { class: 'row' }, h('h3', null, user.name), h('span', { class: 'badge' }, user.provider ?? t(`users.${user.source}`))),
        h('dl', { class: 'facts' },
            fact('permissions', names(user.permissions)),
            user.at.map((one) => [h('dt', null, t('users.at', { upstream: one.upstream })), h('dd', null, names(one.permissions))]),
            user.source !== 'provider' && fact('signs_in', ways(user)),
            fact('second', user.source === 'provider' ? t('users.at_provider') : second(user)),
            user.networks.length > 0 && fact('networks', names(user.networks)),
            fact('sessions', String(user.sessions))),
        rights(t('rights.title_of', { user: user.name }), user.permissions));
}

function names(list) {
    return list.length === 0 ? t('users.nothing') : list.map((name) => [h('code', null, name), ' ']);
}

function ways({ password, passkeys }) {
    const list = [password && t('users.password'), passkeys > 0 && t('users.passkeys', { n: passkeys })].filter(Boolean);
    return list.length === 0 ? t('users.certificate') : list.join(', ');
}

function second({ codes, passkeys }) {
    const has = codes || passkeys > 0;
    return h('span', { class: has ? 'badge good' : 'badge' }, t(has ? 'users.yes' : 'users.no'));
}
