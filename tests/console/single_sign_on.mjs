// Signing in with a provider, and out at both sides.

import assert from 'node:assert/strict';
import { scenario } from './stage.mjs';

scenario(async (user) => {
    const ann = await user();
    // The provider is another origin, and its sign-out has the token that it made itself; what it leads back to is the editor.
    ann.allow(/another origin: http:\/\/127\.0\.0\.1:/, /id_token_hint/, /\b40[14] GET \S+\/$/, /console error: .*\b40[14]\b/);
    await ann.open();
    await ann.page.getByText('Sign in with a provider').waitFor();
    await ann.seeAndCheck('sees the sign-in with a provider');
    await ann.page.getByText('Sign in with a provider').click();
    await ann.page.getByText('Sign in with Corp').click();
    await ann.page.locator('.who summary').filter({ hasText: 'oidc:corp:ann' }).waitFor();
    await ann.seeAndCheck('is signed in with a provider');

    // The token is in the session storage of this tab only, and no address had it.
    const kept = await ann.page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage), document.cookie, location.pathname]);
    assert.deepEqual(kept, [['flowgate.console'], [], '', new URL(ann.url).pathname]);
    const token = await ann.page.evaluate(() => JSON.parse(sessionStorage.getItem('flowgate.console')).token);
    assert.ok(token.length > 20 && !ann.log.some((line) => line.includes(token)));
    await ann.page.reload();
    await ann.page.locator('.who summary').filter({ hasText: 'oidc:corp:ann' }).waitFor();

    // Its page leads back by a script: what is opened before that has happened is cut off.
    const atProvider = ann.page.waitForRequest(/session\/end/);
    await ann.page.click('.who summary');
    await ann.button('Sign out').click();
    await atProvider;
    await ann.page.waitForURL(new URL('..', ann.url).href);
    await ann.open();
    await ann.page.getByText('Sign in with a provider').waitFor();
    assert.deepEqual(await ann.page.evaluate(() => Object.keys(sessionStorage)), []);
});
