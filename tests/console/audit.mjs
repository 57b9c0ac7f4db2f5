// The audit log: new records come by themselves, a search finds old ones, the chain is verified and the log copied.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/audit');
    const { page } = admin;
    const rows = page.locator('.records tbody tr');
    await rows.filter({ hasText: 'process.start' }).waitFor();
    await admin.seeAndCheck('sees the audit log');

    // Another user signs in: their record comes without a click.
    await cue('bob signs in, and fails once');
    await rows.filter({ hasText: 'auth.login.fail.credentials' }).first().waitFor();
    await rows.filter({ hasText: 'bob' }).first().waitFor();

    await page.getByLabel('Outcome').selectOption('true');
    await page.getByLabel('User', { exact: true }).fill('bob');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => {
        const shown = [...document.querySelectorAll('.records tbody .badge')].map((badge) => badge.textContent);
        return shown.length > 0 && shown.every((event) => event === 'auth.login.fail.credentials');
    });
    await admin.see('has searched');
    await page.getByLabel('Text', { exact: true }).fill('no line has this');
    await admin.button('Search').click();
    await page.getByText('No record fits.').waitFor();

    // By keyboard.
    await admin.button('Verify').focus();
    await page.keyboard.press('Enter');
    await page.locator('.notice.good').filter({ hasText: /^Intact: \d+ records/ }).waitFor();
    await admin.seeAndCheck('has verified the chain');
    const [download] = await Promise.all([page.waitForEvent('download'), admin.button('Download all').click()]);
    assert.equal(download.suggestedFilename(), 'audit.ndjson');

    const phone = await user({ ...PHONE, colorScheme: 'dark', locale: 'de-DE' });
    await phone.openAndSignIn('admin', '#/audit');
    await phone.page.locator('.records tbody tr').filter({ hasText: 'audit.export' }).waitFor();
    await phone.seeAndCheck('sees the audit log on a phone');

    // A user who may not read it is not offered it.
    const reader = await user();
    await reader.openAndSignIn('reader', '#/audit');
    await reader.page.locator('.nav a').first().waitFor();
    assert.ok(!(await reader.page.locator('.nav a').allTextContents()).includes('Audit'));
    assert.equal(await reader.page.locator('.records').count(), 0);
    await cue('done');
});
