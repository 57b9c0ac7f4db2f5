// Two users edit the same flows: the later one is notified, and cannot overwrite the other's work by accident.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const ann = await stage.user('Ann');
    const bob = await stage.user('Bob');
    await ann.openAndSignIn('admin');
    await bob.openAndSignIn('admin');

    // Bob is notified of Ann's deployment.
    await ann.rename('note', 'of Ann');
    await ann.deployAs('full');
    await bob.notice('The flows on the server have been updated');
    await bob.see('is notified of a deployment');

    // What Bob deploys then is stale. Changes to different nodes can be merged.
    bob.allow(/\b409\b/);
    await bob.rename('show', 'of Bob');
    assert.equal((await bob.deploy()).status, 409);
    await bob.notice('The changes include no conflicts and can be merged automatically');
    await bob.see('has a conflict that can be merged');
    await bob.press('Merge');
    await bob.node('note').getByText('of Ann').waitFor();
    await bob.deployAs('full');

    // Ann changes what Bob has changed: she has to look, and may overwrite.
    await ann.notice('The flows on the server have been updated');
    ann.allow(/\b409\b/);
    await ann.rename('show', 'of Ann too');
    assert.equal((await ann.deploy()).status, 409);
    await ann.notice('The changes include conflicts that must be resolved');
    await ann.see('has a conflict that cannot be merged');
    await ann.press('Review changes');
    await ann.page.getByText('1 unresolved conflict').waitFor();
    await ann.see('reviews the changes');
    await ann.closeDialog('Cancel');
    assert.equal((await ann.deploy()).status, 409);
    assert.equal((await ann.pressAndDeploy('Ignore & deploy')).status, 200);
    await ann.notice('Successfully deployed');

    // Bob looks at the flows anew.
    await bob.notice('The flows on the server have been updated');
    await bob.reload();
    await bob.node('show').getByText('of Ann too').waitFor();
});
