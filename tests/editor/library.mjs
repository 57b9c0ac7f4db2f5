// The library: functions and flows that are kept for later, and the examples that come with the nodes.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;
    // Two dialogs of jQuery UI, one over the other, may hand the focus to each other until one gives up.
    admin.allow(/^page error: RangeError: Maximum call stack size exceeded[^]*_focusTabbable/);

    // A function is saved.
    await admin.edit('greet', async () => {
        await page.click('#node-input-function-lookup');
        await page.click('#node-input-function-menu-save-library');
        const name = page.locator('#red-ui-library-dialog-save-filename');
        await name.waitFor();
        assert.equal(await name.inputValue(), 'greet.js');
        await admin.see('saves a function');
        const saved = page.waitForResponse((response) => response.request().method() === 'POST' && response.url().includes('/library/'));
        await page.locator('.ui-dialog-buttonset button').filter({ hasText: 'Save', visible: true }).click();
        assert.equal((await saved).status(), 204);
    });

    // And loaded into another node, which then has its code.
    const other = await admin.drag('function', 340, 320);
    await admin.edit(other, async () => {
        await page.click('#node-input-function-lookup');
        await page.click('#node-input-function-menu-open-library');
        const dialog = page.locator('.ui-dialog').filter({ has: page.locator('#red-ui-library-dialog-load') });
        await dialog.getByText('function', { exact: true }).first().click();
        await dialog.getByText('greet.js').first().click();
        await dialog.locator('.view-lines').getByText('greeted').first().waitFor();
        await admin.see('finds a function');
        await dialog.locator('.ui-dialog-buttonset button').filter({ hasText: 'Load' }).click();
        await page.locator('.red-ui-tray .view-lines').getByText('greeted').first().waitFor();
    });
    await admin.deployAs('full');

    // Flows are kept too.
    await admin.select('ask', 'show');
    await admin.act('core:show-export-dialog');
    await admin.chooseTab(page.locator('#red-ui-clipboard-dialog').getByRole('link', { name: 'Local' }));
    const name = page.locator('#red-ui-clipboard-dialog-tab-library-name');
    await name.fill('two-nodes');
    await admin.see('saves flows');
    const saved = page.waitForResponse((response) => response.request().method() === 'POST' && response.url().includes('/library/'));
    await page.locator('#red-ui-clipboard-dialog-export').click();
    assert.equal((await saved).status(), 204);

    // They are imported from there.
    await admin.act('core:show-import-dialog');
    await admin.chooseTab(page.locator('#red-ui-clipboard-dialog').getByRole('link', { name: 'Local' }));
    await page.locator('#red-ui-clipboard-dialog').getByText('two-nodes').first().click();
    await admin.see('finds flows');
    await page.locator('#red-ui-clipboard-dialog-cancel').click();

    // Examples come with the nodes.
    await admin.act('core:show-import-dialog');
    const dialog = page.locator('#red-ui-clipboard-dialog');
    await admin.chooseTab(dialog.getByRole('link', { name: 'Examples' }));
    for (const folder of ['node-red', 'common', 'link']) {
        await dialog.getByText(folder, { exact: true }).filter({ visible: true }).first().click();
    }
    await dialog.getByText('03 - Link call').click();
    await admin.see('finds examples');
    const before = (await admin.ids()).length;
    await page.locator('#red-ui-clipboard-dialog-ok').click();
    await page.waitForFunction((count) => window.RED.nodes.createCompleteNodeSet().length > count, before);
    await page.keyboard.press('Escape');
});
