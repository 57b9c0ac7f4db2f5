// A flow built by hand: nodes dragged from the palette, wired, edited, deployed, run, switched off and on.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    const { page } = admin;

    // Dragged and wired.
    const inject = await admin.drag('inject', 140, 120);
    const code = await admin.drag('function', 340, 120);
    const debug = await admin.drag('debug', 560, 120);
    const branch = await admin.drag('switch', 340, 240);
    await admin.connect(inject, code);
    await admin.connect(code, debug);
    await admin.connect(code, branch);
    await admin.see('has built a flow');

    // Edited in their dialogs, each with its words, icons and help.
    await admin.rename(inject, 'go');
    await admin.edit(code, async () => {
        await page.fill('#node-input-name', 'count');
        await page.locator('.red-ui-tray .monaco-editor .view-lines').filter({ visible: true }).click();
        await page.keyboard.press('Control+A');
        await page.keyboard.insertText([
            "const n = (context.get('n') || 0) + 1;",
            "context.set('n', n);",
            "node.status({ fill: 'blue', shape: 'ring', text: 'run ' + n });",
            "msg.payload = { n, text: 'run ' + n };",
            'return msg;',
        ].join('\n'));
        await admin.see('edits a function');
    });
    await admin.edit(branch, async () => {
        await page.fill('#node-input-name', 'which');
        await admin.see('edits a switch');
    });
    await admin.edit(debug, async () => {
        await page.fill('#node-input-name', 'result');
        await admin.see('edits a debug node');
    });

    // It runs: debug messages can be opened, the status is shown.
    assert.equal(await admin.deployAs('full'), 'full');
    await admin.act('core:show-debug-tab');
    await admin.inject(inject);
    await admin.status(code, 'run 1');
    const messages = page.locator('.red-ui-debug-msg');
    await messages.getByText('"run 1"').waitFor();
    await page.locator('.red-ui-debug-msg-object-handle').first().click();
    await messages.locator('.red-ui-debug-msg-object-key').getByText('text').filter({ visible: true }).waitFor();
    await admin.see('sees a message and a status');

    // The button of a debug node switches it off and on, at once.
    const toggle = async () => {
        const switched = page.waitForResponse((response) => response.url().includes(`/debug/${debug}/`));
        await admin.node(debug).locator('.red-ui-flow-node-button-button').click();
        return (await switched).status();
    };
    assert.equal(await toggle(), 201);
    await admin.inject(inject);
    await admin.status(code, 'run 2');
    await admin.see('has switched a debug node off');
    assert.equal(await toggle(), 200);
    await admin.inject(inject);
    await admin.status(code, 'run 3');
    await messages.getByText('"run 3"').waitFor();
    assert.equal(await messages.getByText('"run 2"').count(), 0);

    // A node that is disabled does not run.
    await admin.select(code);
    await admin.act('core:disable-selected-nodes');
    assert.equal(await admin.deployAs('node'), 'nodes');
    await admin.node(code).and(page.locator('.red-ui-flow-node-disabled')).waitFor();
    await admin.inject(inject);
    await admin.see('has disabled a node');
    await admin.select(code);
    await admin.act('core:enable-selected-nodes');
    assert.equal(await admin.deployAs('flow'), 'flows');
    await admin.inject(inject);
    await admin.status(code, 'run 1');

    // What is deleted is gone; what is there is there after a reload.
    await admin.select(branch);
    await admin.act('core:delete-selection');
    await admin.deployAs('full');
    await admin.reload();
    await admin.node(debug).getByText('result').waitFor();
    assert.equal(await admin.node(branch).count(), 0);

    // All flows are stopped and started.
    const state = async (action) => {
        const done = page.waitForResponse((response) => response.url().endsWith('/flows/state') && response.request().method() === 'POST');
        await admin.act(action);
        return (await done).status();
    };
    assert.equal(await state('core:stop-flows'), 200);
    await admin.notice('Flows stopped');
    await admin.see('has stopped the flows');
    assert.equal(await state('core:start-flows'), 200);
    await page.locator('.red-ui-notification').getByText('Flows stopped').waitFor({ state: 'hidden' });
    await admin.inject(inject);
    await admin.status(code, 'run 1');
});
