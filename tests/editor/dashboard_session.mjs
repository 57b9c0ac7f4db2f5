// A dashboard of a Node-RED behind the gateway's sign-in page, as two users use it. It comes back when Node-RED does; a user
// whose session ends in the middle is cut off, and goes on after another sign-in, while the other one uses it on.

import assert from 'node:assert/strict';
import { together } from './dashboard.mjs';
import { cue } from './scenario.mjs';

async function signIn(page, user) {
    await page.fill('input[name=username]', user);
    await page.fill('input[name=password]', process.env.PASSWORD);
    await page.click('button');
}

// `path` leads to its page. `reloads`: it leads to the sign-in by itself when it is refused; else the user loads it again.
export async function useBehindSignIn(stage, { path, reloads }) {
    const users = [await stage.visitor('ann'), await stage.visitor('bob')];
    const [ann, bob] = users;
    const { button, pressUntilBothSeeIt } = together(users);
    for (const [{ page }, user] of [[ann, 'reader'], [bob, 'admin']]) {
        await page.goto(new URL(path, stage.url).href);
        await signIn(page, user);
        await button(page).waitFor();
    }
    await button(ann.page).click();
    for (const { page } of users) await page.getByText('pressed 1', { exact: true }).first().waitFor();

    await cue('restart Node-RED');
    await pressUntilBothSeeIt(ann);
    await bob.see('sees it after Node-RED was restarted');

    const refused = ann.page.waitForResponse((response) => response.status() === 401);
    await cue("end the reader's sessions");
    await refused;
    if (reloads) {
        await ann.page.locator('input[name=username]').waitFor();
    } else {
        await ann.page.reload();
    }
    assert.match(ann.page.url(), /\/gateway\/sign-in\?return=/);
    await ann.see('is led to the sign-in');
    await button(bob.page).click();
    await signIn(ann.page, 'reader');
    await button(ann.page).waitFor();
    await pressUntilBothSeeIt(bob);
    await ann.see('goes on after another sign-in');
}
