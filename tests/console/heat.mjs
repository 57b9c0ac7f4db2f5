// Which nodes use the engine's time and have errors, and how many messages go through the wires, is measured and shown in the drawing,
// and as text.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

const picture = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(document.querySelector('.drawing canvas').toDataURL())))));

// Measures until the function node has done something: on a busy machine a measurement may be too short.
async function measured(person, measure, row) {
    for (let tries = 0; tries < 10; tries++) {
        const answered = person.page.waitForResponse((response) => response.url().includes('/gateway/profile'));
        await person.button(measure).focus();
        await person.page.keyboard.press('Enter');
        await answered;
        // It is disabled until the answer is shown.
        await person.page.waitForFunction(() => document.querySelector('button:disabled') === null);
        if (await row.count() > 0) return;
    }
    assert.fail('no measurement shows the node');
}

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/flows/orders');
    const { page } = admin;
    await page.getByRole('heading', { name: 'Orders' }).waitFor();
    const before = await picture(page);
    const row = page.getByRole('region', { name: 'Time and messages' }).locator('tbody tr').filter({ hasText: 'Parse' });
    await measured(admin, 'Measure', row);
    const cells = await row.locator('td').allTextContents();
    assert.match(cells.join('|'), /^Parse function\|[\d.]+ %\|\d+\|\d+\|0$/);
    // Every message that the second node got is an error of it.
    const second = page.getByRole('region', { name: 'Time and messages' }).locator('tbody tr').filter({ hasText: 'Check' });
    const [, , received, sent, errors] = await second.locator('td').allTextContents();
    assert.ok(Number(errors) > 0 && errors === received, `${received} received, ${errors} errors`);
    assert.equal(sent, '–');
    assert.notEqual(await picture(page), before);
    await admin.seeAndCheck('sees which node uses the time');
    await admin.button('Clear').click();
    assert.equal(await picture(page), before);

    const dark = await user({ ...PHONE, colorScheme: 'dark', locale: 'de-DE' });
    await dark.openAndSignIn('admin', '#/flows/orders');
    await measured(dark, 'Messen', dark.page.locator('.card tbody tr').filter({ hasText: 'Parse' }));
    await dark.seeAndCheck('sees it on a dark phone');

    // A user who may not measure is not offered it.
    const reader = await user();
    await reader.openAndSignIn('flows only', '#/flows/orders');
    await reader.page.getByRole('heading', { name: 'Orders' }).waitFor();
    assert.equal(await reader.button('Measure').count(), 0);
    await cue('done');
});
