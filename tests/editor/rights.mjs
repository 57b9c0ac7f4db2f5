// A user who may change one flow only: deploys that one, and is shown the reason why a deployment is refused.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const ann = await stage.user('ann');
    await ann.openAndSignIn('ann');
    await ann.showFlow('Greeting');
    await ann.node('note').waitFor();

    // Everything at once, as the editor deploys by default, and the modified nodes.
    await ann.rename('note', 'of ann');
    assert.equal(await ann.deployAs('full'), 'full');
    await ann.rename('note', 'of ann again');
    assert.equal(await ann.deployAs('node'), 'nodes');
    ann.allow(/\b403\b.*\/flows/);

    // A change of another flow is refused, and its node is named.
    await ann.showFlow('Other');
    await ann.rename('other-note', 'of ann, too');
    await ann.deploy();
    await ann.notice('comment other-note');
    await ann.see('cannot change another flow');
    assert.equal(await ann.canDeploy(), true);
});
