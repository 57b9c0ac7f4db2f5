// The palette manager: a package is installed from a catalogue, its nodes are used, disabled and enabled, and it is removed;
// another editor is told each time.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

const PACKAGE = 'node-red-contrib-first';

scenario(async (stage) => {
    const ann = await stage.user('Ann');
    const bob = await stage.user('Bob');
    await ann.openAndSignIn('admin');
    await bob.openAndSignIn('admin');
    const { page } = ann;
    const inPalette = (editor) => editor.page.locator(`.red-ui-palette-node[data-palette-type="${PACKAGE}"]`);
    const both = (state) => Promise.all([ann, bob].map((editor) => inPalette(editor).waitFor({ state })));
    const entry = () => page.locator('.red-ui-editableList-item-content').filter({ visible: true }).filter({ hasText: PACKAGE });
    const press = (label) => entry().locator('a.red-ui-button').filter({ visible: true }).getByText(label, { exact: true }).first().click();
    // The button that opens the page of the package has the same class.
    const confirm = (what) => page.locator(`.red-ui-palette-module-install-confirm-button-${what}`).last().click();
    const showTab = async (label) => {
        const tab = page.locator('#red-ui-palette-editor-tabs .red-ui-tab').filter({ hasText: label });
        await ann.chooseTab(tab);
    };

    // What is installed is listed; the catalogue is that of the configuration.
    await ann.menu('menu-item-edit-palette');
    await ann.dialogOpens();
    await page.locator('.red-ui-palette-module-name').getByText('node-red', { exact: true }).first().waitFor();
    assert.equal(await entry().count(), 0);
    await showTab('Install');
    await entry().waitFor();
    await ann.see('looks into the catalogue');
    await press('install');
    await confirm('install');
    await both('visible');
    await ann.notice('Node added to palette');
    await bob.notice('Node added to palette');
    await entry().getByText('installed', { exact: true }).waitFor();
    await ann.see('has installed a package');

    // The set of nodes is disabled and enabled.
    await showTab('Nodes');
    await press('disable all');
    await both('hidden');
    await bob.notice('Node disabled');
    await press('enable all');
    await both('visible');
    await bob.notice('Node enabled');

    // A node of it can be used.
    await ann.closeDialog('Close');
    const id = await ann.drag(PACKAGE, 400, 300);
    await ann.deployAs('full');
    await ann.node(id).waitFor();
    await ann.see('uses the package');

    // When nothing uses it any more, it is removed.
    await ann.node(id).click();
    await page.keyboard.press('Delete');
    await ann.deployAs('full');
    await ann.menu('menu-item-edit-palette');
    await ann.dialogOpens();
    await press('remove');
    await confirm('remove');
    await both('detached');
    await bob.notice('Node removed from palette');
    await ann.see('has removed the package');
});
