// The service tokens of machines: a list, making one, which is shown once, and revoking.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h, put, toast } from './dom.js';
import * as session from './session.js';
import { ago, moment, t } from './text.js';

const DAYS = [7, 30, 90, 365];
const DEFAULT_DAYS = 90;
const DAY = 86_400;

// The part of the view that has them.
export function tokens() {
    const list = h('div', { class: 'table', 'aria-live': 'polite' });
    const made = h('div', { 'aria-live': 'polite' });
    load(list);
    // Only users of the gateway itself can show who they are, and so make tokens.
    const add = session.isLocal() && h('button', { class: 'primary', onclick: () => create(made, () => load(list)) }, t('tokens.add'));
    return h('section', { class: 'card stack', 'aria-label': t('tokens.title') },
        h('div', { class: 'row between' }, h('h2', null, t('tokens.title')), add),
        h('p', { class: 'muted' }, t('tokens.intro')), made, list);
}

async function load(place) {
    try {
        const { tokens: all } = await api.read('gateway/tokens');
        if (all.length === 0) return put(place, h('p', { class: 'empty' }, t('tokens.none')));
        const head = ['name', 'permissions', 'creator', 'used', 'created', 'expires'].map((name) => h('th', { scope: 'col' }, t(`tokens.${name}`)));
        put(place, h('table', null,
            h('thead', null, h('tr', null, head, h('th', { scope: 'col' }, h('span', { class: 'unseen' }, t('tokens.revoke'))))),
            h('tbody', null, all.map((one) => row(one, () => load(place))))));
    } catch (error) {
        put(place, h('p', { class: 'notice bad', role: 'alert' }, error.message));
    }
}

function row(one, again) {
    const time = (value, none) => (value ? h('time', { datetime: value, title: moment(value) }, ago(value)) : none);
    return h('tr', null,
        h('td', null, one.name, one.networks.length > 0 && h('div', { class: 'small muted' }, one.networks.join(' '))),
        h('td', null, one.permissions.map((name) => [h('code', null, name), ' '])),
        h('td', null, one.creator ?? t('tokens.operator')),
        h('td', { class: 'nowrap' }, time(one.last_used, '–')), h('td', { class: 'nowrap' }, time(one.created)),
        h('td', { class: 'nowrap' }, time(one.expires, t('tokens.never'))),
        h('td', null, h('button', { onclick: () => revoke(one, again), 'aria-label': t('tokens.revoke_one', { name: one.name }) }, t('tokens.revoke'))));
}

// Asks what the token is to be, and shows it.
async function create(place, again) {
    const name = h('input', { required: true, maxlength: '64', pattern: '[A-Za-z0-9][A-Za-z0-9._\\-]*', autocapitalize: 'none', spellcheck: 'false' });
    const permissions = h('input', { required: true, autocapitalize: 'none', spellcheck: 'false', placeholder: 'flows.read' });
    const networks = h('input', { autocapitalize: 'none', spellcheck: 'false', placeholder: '10.0.0.0/8' });
    const days = h('select', null, DAYS.map((n) => h('option', { value: String(n), selected: n === DEFAULT_DAYS }, t('tokens.days', { n }))));
    const field = (key, input, hint) => h('label', { class: 'field' }, t(`tokens.${key}`), input, hint && h('span', { class: 'hint' }, hint));
    const words = (input) => input.value.split(/[\s,]+/).filter(Boolean);
    let made = null;
    const done = await confirm({
        title: t('tokens.add'), text: t('tokens.add_text'), action: t('tokens.add'),
        body: async () => ({
            elements: [field('name', name, t('tokens.name_hint')), field('permissions', permissions, t('tokens.permissions_hint')),
                field('networks', networks, t('tokens.networks_hint')), field('lifetime', days)],
            allowed: true,
        }),
        act: async () => {
            const body = { name: name.value.trim(), permissions: words(permissions), networks: words(networks), expires_in: Number(days.value) * DAY };
            made = await (await api.send('POST', 'gateway/tokens', { body })).json();
        },
    });
    if (!done) return;
    put(place, shown(made, () => put(place)));
    place.querySelector('input').select();
    again();
}

// The token, until it is put away: nothing shows it a second time.
function shown({ name, token }, putAway) {
    const text = h('input', { value: token, readonly: true, spellcheck: 'false', 'aria-label': t('tokens.text_of', { name }) });
    const copy = async () => {
        await navigator.clipboard.writeText(token);
        toast(t('tokens.copied'));
    };
    return h('div', { class: 'notice good stack' },
        h('p', null, t('tokens.once', { name })),
        h('div', { class: 'row' }, text, navigator.clipboard && h('button', { onclick: copy }, t('tokens.copy')), h('button', { onclick: putAway }, t('tokens.put_away'))));
}

async function revoke(one, again) {
    const done = await confirm({
        title: t('tokens.revoke_one', { name: one.name }), text: t('tokens.revoke_text'), action: t('tokens.revoke'), danger: true,
        act: () => api.send('DELETE', `gateway/tokens/${encodeURIComponent(one.name)}`),
    });
    if (!done) return;
    toast(t('tokens.revoked', { name: one.name }));
    again();
}
