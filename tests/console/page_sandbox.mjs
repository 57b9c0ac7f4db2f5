// An administrator who is signed in to the console opens a page of a flow in the same tab. In the
// sandbox it reads neither the token nor anything else of the console's origin, and a page with a
// form and a WebSocket works; with `same_origin = true` the same page takes the token.

import assert from 'node:assert/strict';
import { scenario } from './stage.mjs';

scenario(async (user) => {
    const ann = await user();
    await ann.openAndSignIn('admin');
    const token = await ann.page.evaluate(() => {
        // As the stock editor keeps its token.
        localStorage.setItem('auth-tokens', 'of the editor');
        return JSON.parse(sessionStorage.getItem('flowgate.console')).token;
    });
    // What fails in a sandbox is an error in the browser's console, and a request of another
    // origin.
    ann.allow(/console error/, /a request to another origin: wss:/);
    const shows = async (path) => {
        await ann.page.goto(new URL(path, ann.url).href);
        const out = ann.page.locator('#out').filter({ hasNotText: 'running' });
        return out.textContent();
    };

    assert.equal(await shows('/trusted'), `${token} | of the editor | no cookie | 200`, 'the attack is none');
    assert.equal(await shows('/evil'), 'SecurityError | SecurityError | SecurityError | TypeError');
    await ann.see('a page of a flow that reads nothing');

    assert.equal(await shows('/board'), 'null | HELLO | TypeError | 200');
    await ann.page.getByRole('button', { name: 'Save' }).click();
    await ann.page.getByText('saved it').waitFor();

    // The console itself goes on.
    await ann.open();
    await ann.page.locator('.bar').waitFor();
});
