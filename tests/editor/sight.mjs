// A user who sees one flow of two: opens the editor, sees that one, changes it and deploys everything, as the editor does
// by default. The other flow is not there, stays as it is, and goes on.

import assert from 'node:assert/strict';
import { scenario, cue } from './scenario.mjs';

scenario(async (stage) => {
    const ann = await stage.user('ann');
    await ann.openAndSignIn('ann');
    await ann.showFlow('Greeting');
    await ann.node('note').waitFor();
    assert.equal(await ann.page.getByText('Other').count(), 0);
    assert.ok((await ann.ids()).every((id) => !id.startsWith('other')));
    assert.equal(await ann.canDeploy(), false);
    await ann.see('sees one flow');

    // Its messages and status come, those of the other do not.
    await ann.act('core:show-debug-tab');
    await ann.inject('ask');
    await ann.debugMessage('Hello Ada, 1');
    await ann.status('greet', 'greeted 1');
    await cue('the other flow runs');
    assert.equal(await ann.page.getByText('of the other flow').count(), 0);

    // Everything, as the editor deploys by default.
    await ann.rename('note', 'of ann');
    assert.equal(await ann.deployAs('full'), 'full');
    await cue('the other flow has not restarted');
    await ann.inject('ask');
    await ann.debugMessage(/Hello Ada/, 2);
    await ann.see('has deployed');

    // What the editor has then is up to date: it deploys again, and loads again, without a conflict.
    await ann.rename('note', 'of ann again');
    assert.equal(await ann.deployAs('node'), 'nodes');
    await cue('the other flow has not restarted');
    await ann.reload();
    await ann.showFlow('Greeting');
    await ann.node('note').getByText('of ann again').waitFor();
    assert.equal(await ann.canDeploy(), false);

    // Another user's deployment is announced; what has changed there is none of Ann's.
    await cue('the other flow changes');
    await ann.notice('The flows on the server have been updated');
    ann.allow(/\b409\b/);
    await ann.rename('note', 'of ann at last');
    await ann.chooseDeployment('full');
    assert.equal((await ann.deploy()).status, 409);
    await ann.notice('The changes include no conflicts and can be merged automatically');
    await ann.press('Merge');
    await ann.deployAs('full');
    await cue('the other flow is as changed');
});
