// Users with their rights, and service tokens: one is made, shown once, used and revoked.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/users');
    const { page } = admin;
    const person = (name) => page.locator('.people > li').filter({ has: page.getByRole('heading', { name, exact: true }) });
    await person('ann').getByText('yes').waitFor();
    await person('bob').getByText('no', { exact: true }).waitFor();
    assert.ok(!/\$2b\$|GEZDGNBV/.test(await page.content()));

    // What another user may do, and why.
    await person('reader').getByText('What reader may do').click();
    const request = (name) => person('reader').locator('tr').filter({ has: page.locator('code').getByText(name, { exact: true }) });
    await request('GET /gateway/deployments').getByText('“read” covers “flows.read”.').waitFor();
    await request('GET /gateway/audit').getByText('“gateway.audit” is missing.').waitFor();
    await admin.seeAndCheck('sees the users');

    // By keyboard.
    await page.getByText('There are no service tokens.').waitFor();
    await admin.button('Make a token').focus();
    await page.keyboard.press('Enter');
    const dialog = page.locator('dialog');
    await dialog.getByLabel('Name').fill('ci');
    await dialog.getByLabel('Permissions').fill('flows.read flows.write');
    await dialog.getByLabel('Lifetime').selectOption('30');
    await admin.seeAndCheck('makes a token');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    const text = page.getByLabel('The token “ci”', { exact: true });
    const token = await text.inputValue();
    assert.equal(token.length, 43);
    await page.getByText('flows.write', { exact: true }).waitFor();
    await admin.seeAndCheck('sees the token once');
    await cue(`the token works ${token}`);

    // A name that is taken is refused where it was given.
    admin.allow(/\b409 POST\b/, /console error: .*\b409\b/);
    await admin.button('Make a token').click();
    await dialog.getByLabel('Name').fill('ci');
    await dialog.getByLabel('Permissions').fill('flows.read');
    await dialog.getByRole('button', { name: 'Make a token' }).click();
    await dialog.getByRole('alert').filter({ hasText: 'another token has this name' }).waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    await admin.button('Hide it').click();
    await text.waitFor({ state: 'detached' });
    assert.ok(!(await page.content()).includes(token));
    const kept = await page.evaluate(() => JSON.stringify([sessionStorage, localStorage, document.cookie, location.href]));
    assert.ok(!kept.includes(token));

    const phone = await user({ ...PHONE, colorScheme: 'dark', locale: 'de-DE' });
    await phone.openAndSignIn('admin', '#/users');
    await phone.page.getByText('flows.write', { exact: true }).waitFor();
    await phone.seeAndCheck('sees users and tokens on a phone');

    await page.getByRole('button', { name: 'Revoke the token “ci”' }).click();
    await admin.see('revokes the token');
    await dialog.getByRole('button', { name: 'Revoke', exact: true }).click();
    await page.getByText('There are no service tokens.').waitFor();
    await cue(`the token is revoked ${token}`);

    const reader = await user();
    await reader.openAndSignIn('reader', '#/users');
    await reader.page.locator('.nav a').first().waitFor();
    assert.ok(!(await reader.page.locator('.nav a').allTextContents()).includes('Users'));
    await cue('done');
});
