// Signing in with a provider: the editor's button, the sign-in page, the provider, and back; until a group is taken away, and until
// the user signs out, here or there.

import assert from 'node:assert/strict';
import { cue, scenario } from './scenario.mjs';

scenario(async (stage) => {
    const ann = await stage.user('ann');
    const throughProvider = async () => {
        await ann.loginDialog().locator('a.red-ui-button').click();
        await ann.page.getByText('Sign in with Corp').click();
        await ann.ready();
    };
    ann.allow(/\b401\b/, /WebSocket/);
    await ann.open();
    await ann.see('sees one button');
    await throughProvider();
    await ann.page.click('#red-ui-header-button-user');
    await ann.page.locator('#usermenu-item-username').getByText('oidc:corp:ann').waitFor();
    await ann.see('is signed in');
    await ann.page.keyboard.press('Escape');

    // No URL had the token, and another visit needs no sign-in.
    const token = await ann.token();
    assert.ok(token.length > 20 && !ann.log.some((line) => line.includes(token)));
    await ann.reload();
    assert.equal(await ann.loginDialog().count(), 0);

    // Removed from the group at the provider.
    await cue('take the group away');
    await ann.loginDialog().waitFor();
    await ann.see('has lost the group');
    await cue('give the group back');
    await throughProvider();

    // Signed out by the provider.
    await cue('log out at the provider');
    await ann.loginDialog().waitFor();
    await throughProvider();

    // Signs out here, and is led to the sign-out at the provider and back.
    const atProvider = ann.page.waitForRequest(/session\/end/);
    await ann.page.click('#red-ui-header-button-user');
    await ann.page.click('#usermenu-item-logout');
    await atProvider;
    await ann.page.waitForURL(stage.url);
    await ann.loginDialog().waitFor();
    await ann.see('has signed out');

    // A local user signs in on the same page.
    await ann.loginDialog().locator('a.red-ui-button').click();
    await ann.page.getByLabel('User name').fill('admin');
    await ann.page.getByLabel('Password').fill(process.env.PASSWORD);
    await ann.page.getByRole('button', { name: 'Sign in' }).click();
    await ann.ready();
    await ann.see('is a local user');
});
