// Asks the user for the password or a second factor again, when the gateway says that what they want to do needs a fresh one.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h } from './dom.js';
import * as session from './session.js';
import { t } from './text.js';
import * as webauthn from './webauthn.js';

// Resolves to whether it was given.
export async function stepUp(refusal) {
    if (!session.isLocal()) return false;
    const password = h('input', { type: 'password', autocomplete: 'current-password', required: true });
    const code = h('input', { autocomplete: 'one-time-code', spellcheck: 'false' });
    const error = h('p', { class: 'notice bad', role: 'alert', hidden: true });
    const fields = h('div', { class: 'stack' },
        h('label', { class: 'field' }, t('sign_in.password'), password),
        h('label', { class: 'field' }, t('sign_in.code'), code, h('span', { class: 'hint' }, t('sign_in.code_hint'))));
    const offersPasskeys = session.offers().passkeys && webauthn.supported;
    const button = offersPasskeys && h('button', { type: 'button', class: 'primary', onclick: usePasskey }, t('step_up.passkey'));
    let byPasskey = false;

    async function usePasskey() {
        error.hidden = true;
        try {
            await webauthn.stepUp();
            byPasskey = true;
            button.closest('dialog').close();
        } catch (problem) {
            error.textContent = api.reason(problem);
            error.hidden = false;
        }
    }

    const confirmed = await confirm({
        title: t('step_up.title'), text: refusal.message, action: t('step_up.button'),
        body: async () => ({ elements: [button, error, fields], allowed: true }),
        act: () => byPassword(password.value, code.value.trim()),
    });
    return confirmed || byPasskey;
}

async function byPassword(password, code) {
    try {
        await api.send('POST', 'gateway/step-up', { body: { password, code } });
    } catch (problem) {
        throw new Error(api.reason(problem));
    }
}
