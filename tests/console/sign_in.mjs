// Signing in with and without a second factor, and the ways in which a session ends.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { PHONE, cue, scenario } from './stage.mjs';

// The code that an authenticator app shows for the secret 12345678901234567890 (RFC 6238), so many steps from now.
function code(steps) {
    const counter = Buffer.alloc(8);
    counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
    const tag = createHmac('sha1', '12345678901234567890').update(counter).digest();
    const number = tag.readUInt32BE(tag[19] & 15) & 0x7fff_ffff;
    return String(number % 1_000_000).padStart(6, '0');
}

scenario(async (user) => {
    const ann = await user();
    await ann.open();
    await ann.seeAndCheck('sees the sign-in');

    ann.allow(/\b400\b.*\/auth\/token/, /\b403\b.*\/auth\/token/);
    await ann.enter('ann', 'wrong', '000000');
    await ann.page.getByRole('alert').filter({ hasText: 'wrong password' }).waitFor();
    await ann.seeAndCheck('has typed a wrong password');

    // With the second factor, by keyboard alone.
    await ann.signIn('ann', code(0));
    await ann.page.locator('.who summary').filter({ hasText: 'ann' }).waitFor();
    await ann.page.locator('.entry').first().waitFor();

    // The token is in the session storage of this tab, and nowhere else.
    const kept = await ann.page.evaluate(() => [Object.keys(sessionStorage), Object.keys(localStorage), document.cookie, location.href]);
    assert.deepEqual(kept, [['flowgate.console'], [], '', ann.url]);
    await ann.page.reload();
    await ann.page.locator('.entry').first().waitFor();

    // Signing out ends the session at the gateway.
    const token = await ann.page.evaluate(() => JSON.parse(sessionStorage.getItem('flowgate.console')).token);
    const status = async () => (await ann.page.request.get(`${ann.url}sessions`, { headers: { Authorization: `Bearer ${token}` } })).status();
    assert.equal(await status(), 200);
    await ann.page.click('.who summary');
    await ann.button('Sign out').click();
    await ann.page.locator('.sign-in').waitFor();
    assert.equal(await status(), 401);
    assert.deepEqual(await ann.page.evaluate(() => Object.keys(sessionStorage)), []);

    // Signing out everywhere ends the session of another browser too, which is led back to the sign-in.
    const [one, other] = [await user(), await user(PHONE)];
    await one.openAndSignIn('admin');
    await other.openAndSignIn('admin');
    await other.page.locator('.entry').first().waitFor();
    await one.page.click('.who summary');
    await one.button('Sign out everywhere').click();
    await one.see('is asked whether to sign out everywhere');
    await one.page.locator('dialog').getByRole('button', { name: 'Sign out everywhere' }).click();
    await one.page.locator('.sign-in').waitFor();
    other.allow(/\b401\b/);
    await other.page.locator('.nav').getByText('Sessions').click();
    await other.page.getByText('Your session has ended').waitFor();
    await other.seeAndCheck('is signed out on a phone');

    // German, by keyboard.
    const german = await user({ locale: 'de-DE' });
    await german.openAndSignIn('admin');
    await german.page.getByRole('heading', { name: 'Verlauf' }).waitFor();
    assert.equal(await german.page.evaluate(() => document.documentElement.lang), 'de');
    await german.page.keyboard.press('Tab');
    assert.equal(await german.page.evaluate(() => document.activeElement.className), 'skip');

    // A user who may read nothing sees what is allowed, and no wall of errors.
    const nobody = await user();
    await nobody.openAndSignIn('nobody');
    await nobody.page.getByRole('heading', { name: 'Sessions' }).waitFor();
    assert.deepEqual(await nobody.page.locator('.nav a').allTextContents(), ['Sessions']);
    await nobody.page.locator('summary').filter({ hasText: 'What you may do' }).click();
    const request = (name) => nobody.page.locator('tr').filter({ has: nobody.page.getByText(name, { exact: true }) });
    await request('GET /gateway/deployments').getByText('“flows.read” is missing.').waitFor();
    await request('GET /gateway/sessions').getByText('Every user may.').waitFor();
    await nobody.seeAndCheck('may see their sessions only');
    await cue('done');
});
