// Adds a button for passkeys to the sign-in page. Without scripts, or without passkeys in the browser, the page stays as it is.

'use strict';

(() => {
    const challenge = new URL('sign-in', document.currentScript.src);
    const form = document.querySelector('form');
    if (!form || !window.PublicKeyCredential?.parseRequestOptionsFromJSON) return;

    const answer = document.createElement('input');
    answer.type = 'hidden';
    answer.name = 'passkey';
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Sign in with a passkey';
    const error = document.createElement('p');
    error.className = 'error';
    error.setAttribute('role', 'alert');
    error.hidden = true;
    error.textContent = 'No passkey was used. Try again, or sign in with your password.';
    form.append(answer, button, error);

    async function signIn() {
        const response = await fetch(challenge, { cache: 'no-store', credentials: 'same-origin' });
        if (!response.ok) throw new Error(`status ${response.status}`);
        const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await response.json());
        const credential = await navigator.credentials.get({ publicKey });
        answer.value = JSON.stringify(credential);
        form.elements.password.value = '';
        // Unlike a click on the button of the form, this does not ask for the fields that are empty.
        form.submit();
    }

    button.addEventListener('click', async () => {
        button.disabled = true;
        error.hidden = true;
        try {
            await signIn();
        } catch {
            error.hidden = false;
        } finally {
            button.disabled = false;
        }
    });
})();
