// The start of the page: signs in, shows the frame, and the view that the part of the address after `#` names.

import * as api from './api.js';
import * as audit from './audit.js';
import { h, put } from './dom.js';
import * as flows from './flows.js';
import * as history from './history.js';
import * as now from './now.js';
import * as passkeys from './passkeys.js';
import * as proposals from './proposals.js';
import * as session from './session.js';
import * as sessions from './sessions.js';
import * as settings from './settings.js';
import { frame } from './frame.js';
import { signIn } from './sign_in.js';
import { stepUp } from './step_up.js';
import { t } from './text.js';
import * as theme from './theme.js';
import * as users from './users.js';

const VIEWS = { history, flows, proposals, now, passkeys, sessions, users, audit, settings };

let leave = () => {};

// The view of the address, with its parts and its query.
function route() {
    const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
    const [name, ...parts] = path.split('/').map(decoded);
    const shown = Object.hasOwn(VIEWS, name) && VIEWS[name].allowed() ? name : Object.keys(VIEWS).find((one) => VIEWS[one].allowed());
    return { name: shown, parts: shown === name ? parts : [], query: new URLSearchParams(query) };
}

function decoded(part) {
    try {
        return decodeURIComponent(part);
    } catch {
        return '';
    }
}

// Shows the view of the address; called again when it changes.
function show(isFirst) {
    const { name, parts, query } = route();
    shownView = name;
    leave();
    leave = () => {};
    const main = frame(VIEWS, name, signOut, start);
    document.title = `${t(`nav.${name}`)} – flowgate`;
    const place = h('div');
    put(main, place);
    leave = VIEWS[name].show(place, { parts, query }) ?? (() => {});
    if (!isFirst) main.focus({ preventScroll: true });
}

let shownView = null;

function addressChanged() {
    if (!session.current()) return;
    const { name, parts, query } = route();
    // A view that is there takes its next address itself.
    if (shownView === name && VIEWS[name].update?.({ parts, query })) return;
    show(false);
}

async function signOut() {
    const token = session.token();
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded', Authorization: `Bearer ${token}` };
    const form = new URLSearchParams({ token });
    const revoked = token && await api.send('POST', 'auth/revoke', { headers, form }).then((response) => response.text()).catch(() => '');
    session.forget();
    // The user signs out at the provider too, which leads back.
    if (revoked) return location.assign(JSON.parse(revoked).redirect);
    ask();
}

async function ask(notice) {
    leave();
    leave = () => {};
    document.querySelectorAll('dialog').forEach((dialog) => dialog.remove());
    await ways().catch(() => ({}));
    signIn(document.body, notice, () => start());
}

// Finds out how users sign in.
async function ways() {
    const prompts = await api.read('auth/login');
    session.offer({ providers: Boolean(prompts.providers), passkeys: Boolean(prompts.passkeys) });
    return prompts;
}

// Finds out who the user is, and shows the page.
async function start() {
    try {
        const prompts = await ways();
        if (!session.token()) {
            if (prompts.type) return ask();
            session.identify(null, ['*']);
        } else {
            const response = await api.send('GET', 'gateway/verify');
            const name = decoded(response.headers.get('X-Flowgate-User') ?? '');
            const permissions = (response.headers.get('X-Flowgate-Permissions') ?? '').split(' ').map(decoded);
            session.identify(name, permissions);
        }
    } catch (error) {
        if (error.code === 'session') return;
        return put(document.body, h('main', { class: 'empty' }, h('p', null, error.message),
            h('p', null, h('button', { onclick: start }, t('again')))));
    }
    show(true);
}

theme.use();
addEventListener('hashchange', addressChanged);
api.whenStepUpNeeded(stepUp);
session.whenEnded(() => ask(t('sign_in.ended')));
start();
