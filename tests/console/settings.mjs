// The settings: what differs from the defaults, what a reload would change, and where the file has a mistake.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/settings');
    const { page } = admin;
    await page.getByText('Nothing: the file has what counts now.').waitFor();
    await page.locator('code').filter({ hasText: 'auth.user.nobody.permissions' }).waitFor();
    const hash = page.locator('tr').filter({ hasText: 'auth.user.admin.password_hash' });
    await hash.getByText('not shown').waitFor();
    assert.ok(!(await page.content()).includes('$2b$'));
    await admin.seeAndCheck('sees the settings');

    await cue('the file is changed');
    await admin.button('Read again').click();
    const change = page.getByRole('region', { name: 'What a reload would change' }).locator('tr').filter({ hasText: 'auth.user.nobody.permissions' });
    await change.getByText('by a reload').waitFor();
    assert.match(await change.textContent(), /changed.*\["http\.read"\].*\[\]/);
    await admin.seeAndCheck('sees what a reload would change');

    await cue('the file has a mistake');
    // By keyboard.
    await admin.button('Read again').focus();
    await page.keyboard.press('Enter');
    await page.getByText('gateway.toml:2:8: limits.body: expected a size').waitFor();
    await admin.seeAndCheck('sees the mistake');

    const phone = await user({ ...PHONE, colorScheme: 'dark', locale: 'de-DE' });
    await phone.openAndSignIn('admin', '#/settings');
    await phone.page.getByText('Die Datei hat einen Fehler').waitFor();
    await phone.seeAndCheck('sees the settings on a phone');

    const reader = await user();
    await reader.openAndSignIn('reader', '#/settings');
    await reader.page.locator('.nav a').first().waitFor();
    assert.ok(!(await reader.page.locator('.nav a').allTextContents()).includes('Settings'));
    await cue('done');
});
