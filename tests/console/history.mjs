// "Which deployment broke line 3, and undo it": three clicks from the first page. Then other ways through the history.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin');
    const { page } = admin;
    await page.locator('.entry').nth(4).waitFor();
    await page.locator('.drawing canvas').waitFor();
    await admin.seeAndCheck('sees the history');

    // One: the flow. The newest deployment that touched it is shown with what it changed.
    await admin.click(admin.button('Line 3'));
    await page.locator('.entry').filter({ hasText: 'Tune line 3' }).waitFor();
    await page.locator('.entry[aria-current]').filter({ hasText: 'Tune line 3' }).waitFor();
    await page.locator('.lines .removed').getByText('return msg.payload / 10').waitFor();
    await page.locator('.lines .added').getByText('return msg.payload / 0').waitFor();
    await page.locator('.lines .added .code-keyword').getByText('return').waitFor();
    await admin.seeAndCheck('sees what broke line 3');

    // Two: undo, with what it would do.
    await admin.click(admin.button('Undo on “Line 3”'));
    await page.locator('dialog').getByText('What will change').waitFor();
    await admin.seeAndCheck('sees what the undo will change');

    // Three: yes.
    await admin.click(page.locator('dialog').getByRole('button', { name: 'Roll back' }));
    await page.getByText('Rolled back.').waitFor();
    assert.equal(admin.clicks, 3);
    await page.locator('.entry').filter({ hasText: 'Undo: Tune line 3' }).waitFor();
    await admin.seeAndCheck('has undone it');
    await cue('line 3 is as before, and line 1 as it was changed since');

    // All flows again; a deployment is compared with another one.
    await admin.button('All flows').click();
    await page.locator('.entry').filter({ hasText: 'Add line 2' }).click();
    await page.getByRole('heading', { name: 'Add line 2' }).waitFor();
    await page.locator('.detail').getByText('by Node-RED').waitFor({ state: 'detached' });
    await page.locator('.element').filter({ hasText: 'convert 2' }).first().waitFor();
    await admin.seeAndCheck('sees what added line 2');
    const options = await page.locator('.detail select option').allTextContents();
    const other = options.findIndex((text) => text.includes('Line 1 is faster'));
    await page.locator('.detail select').selectOption({ index: other });
    await page.waitForFunction(() => location.hash.includes('from='));
    await page.locator('.element .badge').filter({ hasText: 'removed' }).first().waitFor();

    // A deployment gets a tag.
    await admin.button('Tag').click();
    await page.locator('dialog input').fill('good-state');
    await admin.seeAndCheck('gives a tag');
    await page.locator('dialog').getByRole('button', { name: 'Tag' }).click();
    await page.locator('.entry .badge').filter({ hasText: 'good-state' }).waitFor();

    // The filter by user.
    await page.getByRole('searchbox', { name: 'By user' }).fill('bob');
    await page.keyboard.press('Enter');
    await page.locator('.entry').filter({ hasText: 'Add line 2' }).waitFor({ state: 'detached' });
    await page.locator('.entry').filter({ hasText: 'Line 1 is faster' }).waitFor();

    // The same in the dark.
    const dark = await user({ colorScheme: 'dark' });
    await dark.openAndSignIn('admin');
    await dark.page.locator('.entry').filter({ hasText: 'Tune line 3' }).last().click();
    await dark.page.locator('.lines').first().waitFor();
    await dark.seeAndCheck('sees the history in the dark');

    // On a phone the list comes first, and a deployment has the page for itself.
    const phone = await user(PHONE);
    await phone.openAndSignIn('admin');
    await phone.page.locator('.entry').nth(4).waitFor();
    await phone.seeAndCheck('sees the history on a phone');
    await phone.page.locator('.entry').filter({ hasText: 'Tune line 3' }).last().tap();
    await phone.page.locator('.lines').first().waitFor();
    await phone.seeAndCheck('sees a deployment on a phone');
    const width = await phone.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `the page is ${width} wide`);
    await phone.page.locator('.back').tap();
    await phone.page.locator('.entry').first().waitFor();

    // A user who may only read is offered no change.
    const reader = await user();
    await reader.openAndSignIn('reader');
    await reader.page.locator('.element').first().waitFor();
    assert.equal(await reader.page.getByRole('button', { name: /Undo|Back to this state/ }).count(), 0);
    await cue('done');
});
