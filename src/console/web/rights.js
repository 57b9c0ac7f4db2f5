// What a user may do with the gateway's API, and because of which permission.

import * as api from './api.js';
import { h, put } from './dom.js';
import * as session from './session.js';
import { t } from './text.js';

const METHODS = ['get', 'post', 'put', 'delete'];

// The table of the user who has signed in.
export function ownRights() {
    const { permissions } = session.current();
    return h('div', { class: 'card' }, rights(t('rights.title'), permissions));
}

// A table for a user with these permissions, which is made when it is opened.
export function rights(title, permissions) {
    const place = h('div', { class: 'table', role: 'region', tabindex: '0', 'aria-label': title });
    const load = async () => {
        if (place.childElementCount > 0) return;
        try {
            const { paths } = await api.read('gateway/openapi.json');
            const head = ['may', 'request', 'because'].map((name) => h('th', { scope: 'col' }, t(`rights.${name}`)));
            put(place, h('table', null, h('thead', null, h('tr', null, head)), h('tbody', null, operations(paths).map((one) => row(one, permissions)))));
        } catch (error) {
            put(place, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    };
    return h('details', { ontoggle: (event) => event.target.open && load() }, h('summary', null, title), h('p', { class: 'muted' }, t('rights.intro')), place);
}

// Every operation with the permissions that it needs.
function operations(paths) {
    return Object.entries(paths).flatMap(([path, offers]) => METHODS.filter((method) => offers[method]).map((method) => {
        const { summary, security } = offers[method];
        return { name: `${method.toUpperCase()} ${path}`, summary, needs: (security ?? []).flatMap(({ token }) => token ?? []) };
    }));
}

function row({ name, summary, needs }, permissions) {
    const missing = needs.filter((need) => session.covering(need, permissions) === null);
    return h('tr', null,
        h('td', { class: 'nowrap' }, h('span', { class: missing.length > 0 ? 'badge bad' : 'badge good' }, t(missing.length > 0 ? 'rights.no' : 'rights.yes'))),
        h('td', null, h('code', null, name), h('div', { class: 'small muted' }, summary)),
        h('td', null, missing.length > 0 ? t('rights.missing', { need: missing.join(', ') }) : reason(needs, permissions)));
}

function reason(needs, permissions) {
    if (needs.length === 0) return t('rights.anyone');
    return needs.map((need) => {
        const had = session.covering(need, permissions);
        return had === need ? t('rights.has', { had }) : t('rights.covered', { had, need });
    }).join(' ');
}
