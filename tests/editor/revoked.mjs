// An administrator revokes a token: the editor that holds it is told at once, and asks for the password again.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const reader = await stage.somebody('reader');
    await reader.openAndSignIn('reader', 'open sesame');
    const admin = reader.page.request;
    const form = {
        client_id: 'node-red-admin', grant_type: 'password', scope: '*', username: 'admin', password: 'open sesame',
    };
    const { access_token } = await (await admin.post(`${stage.url}auth/token`, { form })).json();
    const revoked = await admin.post(`${stage.url}auth/revoke`, {
        headers: { Authorization: `Bearer ${access_token}` }, form: { token: await reader.token() },
    });
    assert.equal(revoked.status(), 200);

    await reader.loginDialog().waitFor();
    await reader.see('is asked again who they are');

    // With the password all goes on where it was.
    await reader.enter('reader', 'open sesame');
    await reader.loginDialog().waitFor({ state: 'detached' });
    await reader.receives();
    await reader.see('goes on');
});
