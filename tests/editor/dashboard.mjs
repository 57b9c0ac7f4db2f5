// A dashboard with a button, a slider, texts and a chart, as two users in two browsers use it: what one does reaches the
// native nodes behind, and what these send comes to both. It goes on after the node host and the gateway have ended.

import assert from 'node:assert/strict';
import { cue } from './scenario.mjs';

// What two users do together: one presses, and both see it.
export function together(users) {
    const button = (page) => page.getByRole('button', { name: 'Press' });
    const counts = () => Promise.all(users.map(({ page }) => page.getByText(/^pressed \d+$/).first().textContent()));
    // Until a page is connected again, a click may be lost, or wait and be counted with others.
    const pressUntilBothSeeIt = async ({ page }) => {
        const [before] = await counts();
        const end = Date.now() + 60_000;
        for (let tries = 0; ; tries += 1) {
            if (tries % 50 === 0) await button(page).click();
            const [one, other] = await counts();
            if (one !== before && one === other) return;
            assert(Date.now() < end, 'the dashboard does not come back');
            await page.waitForTimeout(20);
        }
    };
    return { button, pressUntilBothSeeIt };
}

// `path` leads to its page, where `signIn` signs in if that is needed.
export async function useDashboard(stage, { path, signIn }) {
    const users = [await stage.visitor('ann'), await stage.visitor('bob')];
    const [ann, bob] = users;
    const { button, pressUntilBothSeeIt } = together(users);
    const see = async (text) => {
        for (const { page } of users) await page.getByText(text, { exact: true }).first().waitFor();
    };

    for (const { page } of users) {
        await page.goto(new URL(path, stage.url).href);
        if (signIn) await signIn(page);
        await button(page).waitFor();
    }
    await button(ann.page).click();
    await see('pressed 1');
    await button(bob.page).click();
    await see('pressed 2');
    await ann.page.getByRole('slider').first().focus();
    for (const step of [1, 2, 3]) {
        await ann.page.keyboard.press('ArrowRight');
        await see(`level ${step}`);
    }
    for (const { page } of users) await page.locator('canvas').first().waitFor();
    await ann.see('uses the dashboard');
    await bob.see('sees the same');

    await cue('kill the node host');
    await pressUntilBothSeeIt(ann);
    await bob.see('sees it after the host was killed');

    await cue('restart the gateway');
    await pressUntilBothSeeIt(bob);
    await ann.see('goes on after the restart');
}
