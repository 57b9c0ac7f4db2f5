// Proposals: one is rejected with a reason, one rebased and approved.

import assert from 'node:assert/strict';
import { cue, scenario } from './stage.mjs';

scenario(async (user) => {
    const ann = await user();
    await ann.openAndSignIn('ann', '#/proposals/1');
    await ann.page.getByRole('heading', { name: 'Proposal 1 by ann' }).waitFor();
    // Nobody approves an own proposal.
    await ann.button('Withdraw').waitFor();
    assert.equal(await ann.button('Approve and deploy').count(), 0);

    const bob = await user();
    await bob.openAndSignIn('bob', '#/proposals');
    const { page } = bob;
    await page.locator('.entry').filter({ hasText: 'Proposal 1' }).click();
    await page.locator('.lines .added, .tree .added').first().waitFor();
    await bob.seeAndCheck('sees a proposal');
    await bob.button('Reject').click();
    await page.locator('dialog textarea').fill('not on a Friday');
    await bob.seeAndCheck('gives a reason');
    await page.locator('dialog').getByRole('button', { name: 'Reject' }).click();
    await page.getByText('not on a Friday').waitFor();

    await page.locator('.entry').filter({ hasText: 'Proposal 2' }).click();
    await page.getByRole('heading', { name: 'Proposal 2 by eve' }).waitFor();
    await cue('other flows are deployed');
    await bob.button('Approve and deploy').click();
    bob.allow(/\b409\b.*approve/);
    await page.locator('dialog').getByRole('button', { name: 'Approve and deploy' }).click();
    await page.locator('dialog').getByRole('alert').waitFor();
    await bob.see('is told that other flows are active');
    await page.keyboard.press('Escape');
    await bob.button('Put onto the active flows').click();
    await page.locator('dialog').getByRole('button', { name: 'Put onto the active flows' }).click();
    await page.locator('dialog').waitFor({ state: 'detached' });
    await bob.button('Approve and deploy').click();
    await page.locator('dialog').getByRole('button', { name: 'Approve and deploy' }).click();
    await page.locator('.detail .badge.approved').waitFor();
    await bob.seeAndCheck('has approved a proposal');
    await cue('the proposal is deployed');
});
