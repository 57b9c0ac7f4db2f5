// Putting flows in order: subflows, links, groups, configuration nodes, export, search, system information.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;
    await admin.node('greet').waitFor();

    // A node becomes a subflow, and that is edited.
    await admin.select('greet');
    await admin.act('core:convert-to-subflow');
    await admin.deployAs('full');
    await admin.act('core:show-debug-tab');
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 1');
    await page.locator('.red-ui-palette-node[data-palette-type^="subflow:"]').dblclick();
    await admin.node('greet').waitFor();
    await admin.program('greet', "msg.payload = 'In a subflow: ' + msg.payload;\nreturn msg;");
    await admin.see('edits a subflow');
    assert.equal(await admin.deployAs('flow'), 'flows');
    await admin.showFlow('Greeting');
    await admin.inject('ask');
    await admin.debugMessage('In a subflow: Ada');
    await admin.see('has a subflow');

    // A wire becomes a pair of links.
    await admin.noNotices();
    await page.locator('.red-ui-flow-link-background').first().click({ force: true });
    await admin.act('core:split-wire-with-link-nodes');
    await admin.deployAs('node');
    await admin.inject('ask');
    await admin.debugMessage('In a subflow: Ada', 2);
    await admin.see('has links');

    // Nodes are grouped.
    await admin.select('ask', 'show');
    await admin.act('core:group-selection');
    await page.locator('.red-ui-flow-group').first().waitFor();
    await admin.deployAs('full');
    await admin.see('has a group');

    // A configuration node is made in the dialog of the node that needs it, and is in the sidebar.
    const listener = await admin.drag('mqtt in', 180, 360);
    await admin.edit(listener, async () => {
        await page.click('#node-input-btn-broker-add');
        await page.fill('#node-config-input-name', 'nowhere');
        await page.fill('#node-config-input-broker', '127.0.0.1');
        await page.fill('#node-config-input-port', '1');
        await admin.see('adds a configuration node');
        await page.locator('#node-config-dialog-ok').click();
        await page.locator('#node-config-dialog-ok').waitFor({ state: 'detached' });
        await page.fill('#node-input-topic', 'news');
    });
    await admin.deployAs('full');
    await admin.status(listener, 'connecting');
    await admin.act('core:show-config-tab');
    await page.locator('.red-ui-sidebar-node-config').getByText('nowhere').filter({ visible: true }).first().waitFor();
    await admin.see('sees the configuration nodes');

    // Export shows the JSON of what is selected, import takes it.
    await admin.select('ask', 'show');
    await admin.act('core:show-export-dialog');
    await admin.chooseTab(page.locator('#red-ui-clipboard-dialog').getByText('JSON', { exact: true }));
    const exported = page.locator('#red-ui-clipboard-dialog-export-text');
    await exported.waitFor();
    const text = await exported.inputValue();
    assert.ok(JSON.parse(text).some((node) => node.id === 'ask'), text);
    await admin.see('exports nodes');
    await page.locator('#red-ui-clipboard-dialog-cancel').click();

    // Search finds nodes by their names and types.
    await admin.act('core:search');
    await page.locator('#red-ui-search input').pressSequentially('mqtt in');
    await page.locator('#red-ui-search').getByText('news').first().waitFor();
    await admin.see('searches');
    await page.keyboard.press('Escape');

    // Help and information.
    await admin.select('show');
    await admin.act('core:show-help-tab');
    await page.getByText('Displays selected message properties in the debug sidebar tab').filter({ visible: true }).first().waitFor();
    await admin.act('core:show-system-info');
    await admin.dialogOpens();
    await page.locator('.red-ui-tray .monaco-editor').getByText('diagnostics').first().waitFor();
    await admin.see('sees the system information');
    await admin.closeDialog('Done');

    // Nothing can be installed, so there is no palette manager.
    await page.click('#red-ui-header-button-sidemenu');
    await page.locator('#menu-item-user-settings').waitFor();
    assert.equal(await page.locator('#menu-item-edit-palette').count(), 0);
    await admin.see('opens the menu');
    await page.keyboard.press('Escape');
    await page.click('#red-ui-header-button-sidemenu');

    // A setting of the view is kept with the user.
    await admin.changesTheGrid();

    // Debug messages in a window of their own.
    await admin.act('core:show-debug-tab');
    const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#red-ui-sidebar-debug-open')]);
    await popup.locator('.red-ui-debug-content').first().waitFor();
    await admin.showFlow('Greeting');
    await admin.inject('ask');
    await popup.locator('.red-ui-debug-msg-payload').getByText('In a subflow: Ada').waitFor();
});
