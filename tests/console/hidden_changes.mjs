// An approver sees what a thousand new elements and invisible characters would hide, before there is a button to approve.

import assert from 'node:assert/strict';
import { scenario } from './stage.mjs';

scenario(async (user) => {
    const bob = await user();
    await bob.openAndSignIn('bob', '#/proposals/1');
    const { page } = bob;
    await page.getByRole('heading', { name: 'Proposal 1 by eve' }).waitFor();
    await page.getByText('for the audit on Monday').waitFor();
    // What is changed comes before what is new, and invisible characters have their number.
    const first = page.locator('details.element').first();
    await first.getByText('convert 1').first().waitFor();
    await page.locator('mark.invisible').filter({ hasText: '\\u{202E}' }).first().waitFor();
    await page.getByText(/^You can approve it when \d+ more elements are listed below\.$/).waitFor();
    assert.equal(await bob.button('Approve and deploy').count(), 0);
    await bob.seeAndCheck('does not see all changes yet');

    const more = page.getByRole('button', { name: /^Show \d+ more( elements?)?$/ });
    while (await more.count() > 0) {
        assert.equal(await bob.button('Approve and deploy').count(), 0);
        const left = await more.count();
        const label = await more.first().textContent();
        await more.first().click();
        await page.waitForFunction(([label, left]) => {
            const labels = [...document.querySelectorAll('button')].map((button) => button.textContent);
            return labels.filter((text) => /^Show \d+ more/.test(text)).length < left || !labels.includes(label);
        }, [label, left]);
    }
    await bob.button('Approve and deploy').waitFor();
});
