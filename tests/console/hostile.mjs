// Names, messages, tags and values that are HTML and scripts stay texts.

import assert from 'node:assert/strict';
import { scenario } from './stage.mjs';

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin');
    const { page } = admin;
    const quiet = async () => {
        assert.equal(await page.evaluate(() => window.pwned), undefined);
        assert.equal(await page.locator('main script, main iframe, dialog script, dialog img, main img').count(), 0);
    };
    await page.locator('.entry .title').filter({ hasText: '<img src=x onerror=' }).first().waitFor();
    await page.locator('.badge').filter({ hasText: 'v1.0' }).first().waitFor();
    await page.locator('.element').first().waitFor();
    for (const closed of await page.locator('details.element:not([open]) > summary').all()) await closed.click();
    await page.locator('.lines, .tree').first().waitFor();
    await quiet();
    await admin.seeAndCheck('sees hostile names');
    await page.getByRole('button', { name: /^Undo on/ }).first().click();
    await page.locator('dialog').getByText('What will change').waitFor();
    await quiet();
    await page.keyboard.press('Escape');

    await page.evaluate(() => { location.hash = '#/flows'; });
    await page.locator('summary').filter({ hasText: 'Nodes as a list' }).click();
    await page.locator('.chip').filter({ hasText: '<script>' }).first().click();
    await page.locator('summary').filter({ hasText: 'properties' }).click();
    await quiet();

    // Addresses are input too.
    for (const hash of ['#/history/<img src=x onerror=window.pwned=1>', '#/javascript:alert(1)', '#/flows/%E0%A4%A', '#/__proto__/x', '#/history/..%2f..%2fauth']) {
        admin.allow(/\b40[04]\b.*\/gateway\/deployments\//);
        await page.evaluate((hash) => { location.hash = hash; }, hash);
        await page.locator('main h1').waitFor();
        await quiet();
    }

    // The browser itself refuses to make HTML of a text, to run what is inline, and to show the page in a frame.
    const refused = await page.evaluate(() => {
        try {
            document.createElement('div').innerHTML = '<b>x</b>';
            return 'accepted';
        } catch (error) {
            return error.name;
        }
    });
    assert.equal(refused, 'TypeError');
    const response = await page.request.get(admin.url);
    const policy = response.headers()['content-security-policy'];
    for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]) {
        assert.ok(policy.includes(part), policy);
    }
    assert.ok(!policy.includes('unsafe'));
    admin.allow(/TrustedHTML|trusted-types|This document requires/);
});
