// Passkeys: asks the gateway for a challenge, and the browser for an authenticator's answer. The challenge is in a cookie of this
// browser, which only these requests send.

import * as api from './api.js';
import { t } from './text.js';

// Browsers since 2025 read and write the JSON themselves.
export const supported = Boolean(window.PublicKeyCredential?.parseRequestOptionsFromJSON);

async function challenge(path) {
    return (await api.send('GET', path, { cookies: true })).json();
}

// What the user did not want, or the authenticator could not do: browsers do not say which.
async function asked(action) {
    try {
        return await action();
    } catch (error) {
        throw error instanceof DOMException ? new Error(t('passkeys.failed')) : error;
    }
}

async function answer(path) {
    const options = await challenge(path);
    const credential = await asked(() => navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) }));
    return api.send('POST', path, { body: credential, cookies: true });
}

// Signs in; the token, as of `auth/token`.
export async function signIn() {
    return (await answer('gateway/passkeys/sign-in')).json();
}

// Gives a second factor in this session.
export async function stepUp() {
    await answer('gateway/step-up/passkey');
}

export async function register(name) {
    const options = await challenge('gateway/passkeys/options');
    const credential = await asked(() => navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }));
    await api.send('POST', 'gateway/passkeys', { body: { name, credential }, cookies: true });
}
