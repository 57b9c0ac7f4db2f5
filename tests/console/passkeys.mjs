// Passkeys with Chromium's virtual authenticator: registering one in the console, signing in with it there and on the sign-in page,
// and giving it as the second factor.

import assert from 'node:assert/strict';
import { cue, scenario } from './stage.mjs';

// Gives the browser of a person an authenticator of the device, whose user is verified.
async function withAuthenticator(person) {
    const session = await person.page.context().newCDPSession(person.page);
    await session.send('WebAuthn.enable');
    const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
    const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', { options });
    return {
        verify: (isUserVerified) => session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified }),
        forget: () => session.send('WebAuthn.clearCredentials', { authenticatorId }),
        credentials: async () => (await session.send('WebAuthn.getCredentials', { authenticatorId })).credentials,
    };
}

scenario(async (user) => {
    const ann = await user();
    const device = await withAuthenticator(ann);
    await ann.open();
    await ann.button('Sign in with a passkey').waitFor();
    await ann.seeAndCheck('sees the sign-in with a passkey');
    await ann.signIn('admin');
    await cue('the password alone does not deploy');

    // Registering.
    await ann.page.locator('.nav').getByText('Passkeys').click();
    await ann.page.getByText('You have no passkey.').waitFor();
    await ann.button('Register a passkey').click();
    await ann.page.locator('dialog input').fill('Laptop <b>');
    await ann.seeAndCheck('names the passkey');
    await ann.page.locator('dialog').getByRole('button', { name: 'Register a passkey' }).click();
    await ann.page.locator('td').getByText('Laptop <b>').waitFor();
    await ann.seeAndCheck('has a passkey');
    const [made] = await device.credentials();
    assert.equal(made.rpId, 'localhost');
    assert.ok(made.isResidentCredential);

    // Signing in with it: no name, no password.
    await ann.page.click('.who summary');
    await ann.button('Sign out').click();
    await ann.button('Sign in with a passkey').click();
    await ann.page.locator('.who summary').filter({ hasText: 'admin' }).waitFor();
    const kept = await ann.page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]);
    assert.deepEqual(kept, [['flowgate.console'], [], '']);

    // A device that does not verify its user signs nobody in.
    await ann.page.click('.who summary');
    await ann.button('Sign out').click();
    await device.verify(false);
    await ann.button('Sign in with a passkey').click();
    await ann.page.getByRole('alert').filter({ hasText: 'No passkey was used' }).waitFor();
    await device.verify(true);

    // With the password, a second factor is asked for when it is needed, and what was wanted goes on.
    await ann.signIn('admin');
    await ann.page.locator('.nav').getByText('Passkeys').click();
    await ann.page.locator('td').getByText('Laptop <b>').waitFor();
    ann.allow(/\b403 DELETE\b/, /console error: .*\b403\b/);
    await ann.page.locator('td').getByRole('button').click();
    await ann.page.locator('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await ann.button('Use a passkey').waitFor();
    await ann.seeAndCheck('is asked for a second factor');
    await ann.button('Use a passkey').click();
    await ann.page.getByText('You have no passkey.').waitFor();

    // The sign-in page: another passkey, because that one is gone. The device still has it, and would offer either.
    await device.forget();
    await ann.button('Register a passkey').click();
    await ann.page.locator('dialog input').fill('Again');
    await ann.page.locator('dialog').getByRole('button', { name: 'Register a passkey' }).click();
    await ann.page.locator('td').getByText('Again').waitFor();
    const page = new URL('/gateway/sign-in?return=%2Fgateway%2Fsign-in', ann.url).href;
    await ann.page.goto(page);
    await ann.page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor();
    await ann.seeAndCheck('sees the button on the sign-in page');
    await ann.page.getByRole('button', { name: 'Sign in with a passkey' }).click();
    await ann.page.getByText('You are signed in as admin.').waitFor();
    const cookies = await ann.page.context().cookies();
    const names = cookies.map(({ name }) => name);
    assert.deepEqual(names, ['__Host-flowgate'], 'the challenge is forgotten');
    await cue('done');
});
