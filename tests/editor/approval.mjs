// A user whose change needs the approval of another is shown the number of the proposal; once it is approved, the editor
// is notified.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const ann = await stage.user('ann');
    await ann.openAndSignIn('ann');
    await ann.showFlow('Greeting');
    await ann.rename('note', 'of ann');
    await ann.chooseDeployment('node');
    ann.allow(/\b403\b.*\/flows/);
    assert.equal((await ann.deploy()).status, 403);
    await ann.notice('the change waits for the approval of another user as proposal 1: /gateway/proposals/1');
    await ann.see('waits for approval');
    assert.equal(await ann.canDeploy(), true);

    // Another user approves it, without an editor.
    const { request } = ann.page;
    const signIn = { client_id: 'node-red-admin', grant_type: 'password', scope: '', username: 'bob' };
    const signedIn = await request.post(`${stage.url}auth/token`, {
        form: { ...signIn, password: process.env.PASSWORD },
    });
    const { access_token } = await signedIn.json();
    const approved = await request.post(`${stage.url}gateway/proposals/1/approve`, {
        headers: { Authorization: `Bearer ${access_token}` },
    });
    assert.equal(approved.status(), 200);
    await ann.notice('The flows on the server have been updated');
    await ann.see('is notified that it is deployed');
});
