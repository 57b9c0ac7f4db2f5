// The frame around the views: the navigation, and the user's menu.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h, put, toast } from './dom.js';
import * as session from './session.js';
import * as text from './text.js';
import { t } from './text.js';
import * as theme from './theme.js';

// Shows the frame with the view `name` as the current one; returns the place of the view.
export function frame(views, name, signOut, again) {
    const links = Object.keys(views).filter((view) => views[view].allowed());
    const main = h('main', { id: 'main', tabindex: '-1' });
    put(document.body,
        h('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); main.focus(); } }, t('skip')),
        h('header', { class: 'bar' },
            h('a', { class: 'brand', href: '#/', 'aria-label': 'flowgate' },
                h('img', { src: document.querySelector('link[rel=icon]').href, alt: '' }), h('span', null, 'flowgate')),
            h('nav', { class: 'nav', 'aria-label': t('nav.label') }, links.map((view) =>
                h('a', { href: `#/${view}`, 'aria-current': view === name && 'page' }, t(`nav.${view}`)))),
            menu(signOut, again)),
        main);
    // On a phone not all fit. `scrollIntoView` would move the place at which the Tab key begins.
    const current = document.querySelector('.nav [aria-current]');
    if (current) current.parentElement.scrollLeft = current.offsetLeft - (current.parentElement.clientWidth - current.offsetWidth) / 2;
    return main;
}

function menu(signOut, again) {
    const user = session.current();
    const choice = (label, options, chosen, choose) => h('label', null, label,
        h('select', { onchange: (event) => choose(event.target.value) }, options.map(([value, name]) =>
            h('option', { value, selected: value === chosen }, name))));
    const languages = text.languages().map((one) => [one, new Intl.DisplayNames(one, { type: 'language' }).of(one)]);
    const themes = theme.THEMES.map((one) => [one, t(`theme.${one}`)]);
    const details = h('details', { class: 'who' },
        h('summary', null, user.name ?? t('menu.nobody')),
        h('div', { class: 'sheet' },
            choice(t('menu.language'), languages, text.current(), (one) => { text.choose(one); again(); }),
            choice(t('menu.theme'), themes, theme.current(), theme.choose),
            h('a', { class: 'button', href: api.url('./').href }, t('menu.editor')),
            session.token() && h('button', { onclick: signOut }, t('menu.sign_out')),
            session.token() && h('button', { class: 'danger', onclick: everywhere }, t('menu.everywhere'))));
    details.addEventListener('keydown', (event) => {
        if (event.key !== 'Escape') return;
        details.open = false;
        details.querySelector('summary').focus();
    });
    return details;
}

// Ends all sessions of the user, this one too.
async function everywhere() {
    const user = session.current().name;
    await confirm({
        title: t('menu.everywhere'),
        text: t('everywhere.text', { user }),
        action: t('menu.everywhere'),
        danger: true,
        act: async () => {
            const done = await (await api.send('DELETE', 'gateway/sessions', { query: { user } })).json();
            toast(t('sessions.ended', { n: done.revoked }));
            session.ended();
        },
    });
}
