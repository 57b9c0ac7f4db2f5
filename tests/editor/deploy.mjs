// Building a flow and running it: import, deploy in each of the ways, inject, debug messages, status.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    await admin.importFlows(readFileSync(new URL('greeting.json', import.meta.url), 'utf8'));
    await admin.showFlow('Greeting');
    await admin.see('has imported a flow');

    // The whole flow set. Then it runs: the button of the inject node, the debug sidebar, the status.
    assert.equal(await admin.deployAs('full'), 'full');
    await admin.act('core:show-debug-tab');
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 1');
    await admin.status('greet', 'greeted 1');
    await admin.see('has injected a message');

    // Only the nodes that were modified: the function counts on.
    await admin.rename('note', 'another note');
    assert.equal(await admin.deployAs('node'), 'nodes');
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 2');
    await admin.status('greet', 'greeted 2');

    // The flows that were modified: here the code of the function, in Monaco.
    await admin.program('greet', "msg.payload = 'Good day ' + msg.payload;\nreturn msg;");
    assert.equal(await admin.deployAs('flow'), 'flows');
    await admin.inject('ask');
    await admin.debugMessage('Good day Ada');
    await admin.see('has deployed in each way');

    // Everything anew, as it is stored.
    assert.deepEqual(await admin.restartFlows(), { type: 'reload', status: 200 });
    await admin.notice('Successfully restarted flows');
    await admin.inject('ask');
    await admin.debugMessage('Good day Ada', 2);
    await admin.see('has restarted the flows');

    // All is still there after a reload of the page.
    await admin.reload();
    await admin.showFlow('Greeting');
    await admin.node('note').getByText('another note').waitFor();
    assert.equal(await admin.canDeploy(), false);
});
