// Now: what is not as usual, and the numbers of the last hour, each with what it means.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/now');
    const { page } = admin;
    await page.locator('.notice.warn').waitFor();
    // The first numbers are there after ten seconds, the next after twenty.
    const requests = page.getByRole('region', { name: 'Requests' });
    await requests.locator('polyline').waitFor();
    await page.waitForFunction(() => document.querySelectorAll('.tile .value').length === 10);
    assert.match(await requests.locator('.value').textContent(), /^[1-9]/);
    assert.match(await page.getByRole('region', { name: 'Memory' }).locator('.value').textContent(), /MiB$/);
    assert.match(await requests.getByRole('img').getAttribute('aria-label'), /^Requests from .* at most/);
    await admin.seeAndCheck('sees the last hour');
    const phone = await user({ ...PHONE, colorScheme: 'dark', locale: 'de-DE' });
    await phone.openAndSignIn('admin', '#/now');
    await phone.page.locator('.tile').nth(9).waitFor();
    await phone.seeAndCheck('sees the last hour on a phone');
    await cue('done');
});
