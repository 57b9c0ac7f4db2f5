// What a package adds to the editor: a sidebar, edit forms of its nodes, entries in the palette.

import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;

    // The sidebar of FlowFuse's dashboard shows the page and group of the flows.
    await page.evaluate(() => window.RED.sidebar.show('dashboard-2.0'));
    await page.locator('#dashboard-tabs-list').waitFor();
    const sidebar = page.locator('#red-ui-sidebar-content');
    for (const name of ['Page', 'Group']) await sidebar.getByText(name, { exact: true }).first().waitFor();
    await admin.see('sees the sidebar of the dashboard');

    // The palette has the package's nodes, and a node its edit form.
    await page.locator('.red-ui-palette-node[data-palette-type="ui-gauge"]').waitFor({ state: 'attached' });
    await page.evaluate(() => window.RED.editor.edit(window.RED.nodes.node('button')));
    await page.locator('.red-ui-tray #node-input-label').waitFor();
    await admin.see('edits a button of the dashboard');
    await admin.closeDialog('Cancel');
});
