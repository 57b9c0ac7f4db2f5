// The settings: what gateway.toml says, what of it differs from the defaults, and what a reload would change.

import * as api from './api.js';
import { h, put } from './dom.js';
import * as session from './session.js';
import { t } from './text.js';

export function allowed() {
    return session.may('gateway.settings');
}

export function show(place) {
    const state = h('div', { class: 'stack' });
    const load = async () => {
        put(state, h('p', { class: 'muted' }, t('loading')));
        try {
            const found = await api.read('gateway/settings');
            put(state, reload(found.reload), list(found));
        } catch (error) {
            put(state, h('p', { class: 'notice bad', role: 'alert' }, error.message));
        }
    };
    put(place, h('div', { class: 'stack' },
        h('div', { class: 'row between' }, h('h1', null, t('nav.settings')), h('button', { onclick: load }, t('settings.again'))),
        h('p', { class: 'muted' }, t('settings.intro')), state));
    load();
}

// A value as it is written in the file.
function value(one, isSecret) {
    if (isSecret) return h('span', { class: 'muted' }, t('settings.secret'));
    return one === null ? h('span', { class: 'muted' }, t('settings.none')) : h('code', null, JSON.stringify(one));
}

function table(names, rows) {
    return h('div', { class: 'table settings', role: 'region', tabindex: '0', 'aria-label': t(`settings.${names[1]}`) }, h('table', null,
        h('thead', null, h('tr', null, names.map((name) => h('th', { scope: 'col' }, t(`settings.${name}`))))),
        h('tbody', null, rows)));
}

function reload({ error, changes, warnings }) {
    const card = (...children) => h('section', { class: 'card stack', 'aria-label': t('settings.reload') }, h('h2', null, t('settings.reload')), children);
    if (error) return card(h('p', { class: 'notice bad' }, t('settings.mistake')), h('pre', { class: 'excerpt', tabindex: '0' }, error));
    const before = (one) => (one.what === 'added' ? null : one.before);
    const after = (one) => (one.what === 'removed' ? null : one.after);
    return card(
        warnings.map((text) => h('p', { class: 'notice warn' }, text)),
        changes.length === 0 ? h('p', { class: 'notice good' }, t('settings.same')) : table(['key', 'before', 'after', 'takes'], changes.map((one) =>
            h('tr', null,
                h('td', null, h('code', null, one.key), ' ', h('span', { class: `badge ${one.what}` }, t(`difference.${one.what}`))),
                h('td', null, value(before(one), one.secret && one.what !== 'added')),
                h('td', null, value(after(one), one.secret && one.what !== 'removed')),
                h('td', null, t(`settings.by_${one.takes}`))))));
}

function list({ file, settings }) {
    const rows = (only) => settings.filter((one) => one.differs || !only).map((one) => h('tr', null,
        h('td', null, h('code', null, one.key), ' ', one.differs && h('span', { class: 'badge changed' }, t('settings.differs'))),
        h('td', null, value(one.value, one.secret)),
        h('td', null, value(one.default, false)),
        h('td', null, String(one.line))));
    const shown = h('div', { class: 'stack' });
    const fill = (only) => {
        const found = rows(only);
        put(shown, found.length === 0 ? h('p', { class: 'empty' }, t('settings.all_default')) : table(['key', 'value', 'default', 'line'], found));
    };
    const only = h('input', { type: 'checkbox', checked: true, onchange: () => fill(only.checked) });
    fill(true);
    return h('section', { class: 'card stack', 'aria-label': t('settings.running') },
        h('div', { class: 'row between' }, h('h2', null, t('settings.running')), file ? h('code', null, file) : t('settings.embedded')),
        h('label', { class: 'row' }, only, t('settings.only')), shown);
}
