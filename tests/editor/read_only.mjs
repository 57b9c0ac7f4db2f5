// A user who may only read: sees everything, changes nothing, whatever they try.

import assert from 'node:assert/strict';
import { scenario } from './scenario.mjs';

scenario(async (stage) => {
    const reader = await stage.user('reader');
    await reader.openAndSignIn('reader');
    await reader.node('greet').waitFor();
    assert.equal(await reader.canDeploy(), false);
    await reader.see('sees the flows');

    // They can move things about on their own screen, and not deploy that.
    await reader.rename('note', 'of the reader');
    assert.equal(await reader.canDeploy(), false);
    await reader.see('cannot deploy');

    // Nor do they get further without the editor's help, with the token that it holds.
    const token = await reader.token();
    const request = (method, path, data) => reader.page.request.fetch(stage.url + path, {
        method, data, headers: { Authorization: `Bearer ${token}`, 'Node-RED-API-Version': 'v2' },
    });
    const flows = await (await request('GET', 'flows')).json();
    for (const [method, path, data] of [
        ['POST', 'flows', { flows: [] }],
        ['POST', 'flow', { label: 'new', nodes: [] }],
        ['PUT', 'flow/tab-greeting', { label: 'other', nodes: [] }],
        ['DELETE', 'flow/tab-greeting'],
        ['POST', 'inject/ask', {}],
        ['POST', 'settings/user', {}],
    ]) {
        const answer = await request(method, path, data);
        assert.equal(answer.status(), 401, `${method} /${path}`);
    }
    assert.deepEqual(await (await request('GET', 'flows')).json(), flows);
});
