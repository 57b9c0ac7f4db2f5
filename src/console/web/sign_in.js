// The form to sign in: user, password, and the code of an authenticator app; or a passkey; or a link to the gateway's sign-in page,
// where the providers of the company are.
//
// A code goes at the end of the password, as from the stock editor: the gateway knows which users have a second factor.

import * as api from './api.js';
import { h, put } from './dom.js';
import * as session from './session.js';
import { t } from './text.js';
import * as webauthn from './webauthn.js';

// Shows the form in the place of everything; calls `done` after the sign-in.
export function signIn(body, notice, done) {
    const { providers, passkeys } = session.offers();
    const error = h('p', { class: 'notice bad', role: 'alert', hidden: true });
    const user = h('input', { name: 'username', autocomplete: 'username', required: true, autocapitalize: 'none', spellcheck: 'false' });
    const password = h('input', { name: 'password', type: 'password', autocomplete: 'current-password', required: true });
    const code = h('input', { name: 'code', autocomplete: 'one-time-code', inputmode: 'text', spellcheck: 'false', 'aria-describedby': 'code-hint' });
    const button = h('button', { class: 'primary', type: 'submit' }, t('sign_in.button'));
    const form = h('form', { onsubmit: (event) => submit(event) },
        h('h1', { class: 'brand' }, h('img', { src: document.querySelector('link[rel=icon]').href, alt: '' }), 'flowgate'),
        h('p', { class: 'muted' }, t('sign_in.intro')),
        notice && h('p', { class: 'notice', role: 'status' }, notice),
        error,
        h('label', { class: 'field' }, t('sign_in.user'), user),
        h('label', { class: 'field' }, t('sign_in.password'), password),
        h('label', { class: 'field' }, t('sign_in.code'), code, h('span', { class: 'hint', id: 'code-hint' }, t('sign_in.code_hint'))),
        button,
        passkeys && webauthn.supported && h('button', { type: 'button', onclick: withPasskey }, t('sign_in.passkey')),
        providers && h('a', { class: 'button', href: 'sign-in?console=true' }, t('sign_in.provider')));

    async function submit(event) {
        event.preventDefault();
        button.disabled = true;
        error.hidden = true;
        try {
            await ask(user.value, password.value + code.value.trim());
            done();
        } catch (problem) {
            show(problem);
            code.value = '';
            password.focus();
            password.select();
        } finally {
            button.disabled = false;
        }
    }

    async function withPasskey() {
        error.hidden = true;
        try {
            const granted = await webauthn.signIn();
            session.begin(granted.access_token, granted.expires_in);
            done();
        } catch (problem) {
            show(problem);
        }
    }

    function show(problem) {
        error.textContent = api.reason(problem);
        error.hidden = false;
    }

    put(body, h('main', { class: 'sign-in' }, form));
    document.title = `${t('sign_in.button')} – flowgate`;
    user.focus();
}

async function ask(username, password) {
    const form = new URLSearchParams({ client_id: 'node-red-editor', grant_type: 'password', scope: '', username, password });
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const granted = await (await api.send('POST', 'auth/token', { headers, form })).json();
    session.begin(granted.access_token, granted.expires_in);
}
