// A token is revoked: the editor that holds it is notified at once, and asks for the password again.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');

    // Another session with all permissions revokes it, without an editor.
    const { request } = admin.page;
    const signIn = { client_id: 'node-red-admin', grant_type: 'password', scope: '*', username: 'admin' };
    const signedIn = await request.post(`${stage.url}auth/token`, {
        form: { ...signIn, password: process.env.PASSWORD },
    });
    const { access_token } = await signedIn.json();
    const revoked = await request.post(`${stage.url}auth/revoke`, {
        headers: { Authorization: `Bearer ${access_token}` }, form: { token: await admin.token() },
    });
    assert.equal(revoked.status(), 200);
    await admin.loginDialog().waitFor();
    await admin.see('sees the login dialog again');

    // With the password all goes on where it was.
    await admin.signInAgain('admin');
    await admin.act('core:show-debug-tab');
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 1');
    await admin.see('goes on');
});
