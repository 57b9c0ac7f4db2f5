// Signing in, what the editor loads then, and signing out.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.open();
    await admin.see('sees the login dialog');

    // A wrong password is reported.
    admin.allow(/\b(400|401|403)\b.*\/auth\/token/);
    await admin.enter('admin', 'wrong');
    await admin.page.getByText('Login failed').waitFor();
    await admin.see('has typed a wrong password');

    // With the right one everything loads: node types with their icons, over HTTP/2.
    await admin.signIn('admin');
    const types = await admin.page.locator('.red-ui-palette-node').count();
    assert.ok(types > 40, `${types} node types in the palette`);
    const protocols = await admin.page.evaluate(() =>
        [...new Set(performance.getEntriesByType('resource').map((entry) => entry.nextHopProtocol))].filter(Boolean));
    assert.deepEqual(protocols, [new URL(stage.url).protocol === 'https:' ? 'h2' : 'http/1.1']);
    await admin.see('sees the palette');

    // The user's menu shows the name.
    await admin.page.click('#red-ui-header-button-user');
    await admin.page.locator('#usermenu-item-username').getByText('admin').waitFor();
    await admin.see('sees their name in the menu');
    await admin.page.keyboard.press('Escape');

    // Another visit needs no password.
    await admin.reload();
    assert.equal(await admin.loginDialog().count(), 0);

    // Signing out ends the session, here and at the gateway.
    const token = await admin.token();
    await admin.signOut();
    await admin.see('has signed out');
    const answer = await admin.page.request.get(`${stage.url}flows`, { headers: { Authorization: `Bearer ${token}` } });
    assert.equal(answer.status(), 401);
});
