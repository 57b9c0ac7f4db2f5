// The context sidebar: what nodes and flows keep is shown, read again one by one, and deleted.

import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;
    await admin.program('greet', [
        "flow.set('greeted', { who: msg.payload });",
        "context.set('times', (context.get('times') ?? 0) + 1);",
        "global.set('last', new Date(0));",
        "node.status({ text: 'greeted ' + context.get('times') });",
    ].join('\n'));
    await admin.deployAs('full');
    await admin.inject('ask');
    await admin.status('greet', 'greeted 1');

    // Each part is read on request.
    await admin.node('greet').click();
    await admin.act('core:show-context-tab');
    const parts = page.locator('.red-ui-sidebar-context-stack .red-ui-palette-category');
    const part = (title) => parts.filter({ has: page.locator('.red-ui-palette-header').getByText(title, { exact: true }) });
    const read = (title) => part(title).locator('.red-ui-palette-header button').last().click();
    const value = (title, name) => part(title).locator('tr').filter({ hasText: name });
    await read('Node');
    await value('Node', 'times').getByText('1', { exact: true }).waitFor();
    await read('Flow');
    await value('Flow', 'greeted').locator('.red-ui-debug-msg-object-handle').first().click();
    await value('Flow', 'greeted').getByText('"Ada"').last().waitFor();
    await read('Global');
    await value('Global', 'last').getByText('1970').filter({ visible: true }).first().waitFor();
    await admin.see('sees the context');

    // One value is read again.
    await admin.inject('ask');
    await admin.status('greet', 'greeted 2');
    await value('Node', 'times').hover();
    await value('Node', 'times').locator('.fa-refresh').click();
    await value('Node', 'times').getByText('2', { exact: true }).waitFor();

    // One is deleted, and begins anew.
    await value('Node', 'times').hover();
    await value('Node', 'times').locator('.fa-trash').click();
    await page.locator('.red-ui-popover').getByRole('button', { name: 'Delete', exact: true }).click();
    await part('Node').getByText('empty').waitFor();
    await admin.see('has deleted a value');
    await admin.inject('ask');
    await admin.status('greet', 'greeted 1');
});
