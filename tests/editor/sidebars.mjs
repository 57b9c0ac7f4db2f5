// What there is around the flows: settings that are kept, context, the palette manager, help, search.

import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;

    // Context is what the flow has stored in it.
    await admin.inject('ask');
    await admin.status('greet', 'greeted 1');
    await admin.act('core:show-context-tab');
    const context = page.locator('.red-ui-sidebar-context-stack');
    await context.locator('.red-ui-palette-header').filter({ hasText: 'Flow' }).locator('button').last().click();
    await context.getByText('greeted').waitFor();
    await context.getByText('"Ada"').waitFor();
    await admin.see('sees the context');

    // Help of a node type.
    await admin.node('greet').click();
    await admin.act('core:show-help-tab');
    await page.getByText('A JavaScript function to run against the messages').filter({ visible: true }).first().waitFor();
    await admin.see('reads the help');

    // Search finds a node by its name.
    await admin.act('core:search');
    await page.locator('#red-ui-search input').pressSequentially('a note');
    await page.locator('#red-ui-search').getByText('a note').first().waitFor();
    await admin.see('searches');
    await page.keyboard.press('Escape');

    // The palette manager shows what is installed.
    await admin.menu('menu-item-edit-palette');
    await admin.dialogOpens();
    await page.locator('.red-ui-palette-module-name').getByText('node-red').first().waitFor();
    await admin.see('manages the palette');
    await admin.closeDialog('Close');

    // A setting of the view is kept with the user.
    await admin.changesTheGrid();
    await admin.see('has another grid');
});
