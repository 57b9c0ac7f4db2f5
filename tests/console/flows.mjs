// The flows as drawings: read, moved, zoomed, searched; with statuses; and ten thousand nodes.

import assert from 'node:assert/strict';
import { PHONE, cue, scenario } from './stage.mjs';

// Least frames a second of a pan, and most milliseconds to the first drawing. The bars of this machine are 50 and 1000; a
// machine that runs all tests at a time has a fraction of it left.
const { FRAMES = '15', FIRST_PAINT = '6000' } = process.env;

// Moves a drawing in each of many frames; returns the frames a second.
async function pan(page) {
    return page.evaluate(async () => {
        const canvas = document.querySelector('.drawing canvas');
        const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
        await next();
        const started = performance.now();
        const frames = 120;
        for (let i = 0; i < frames; i++) {
            canvas.dispatchEvent(new WheelEvent('wheel', { deltaX: i < frames / 2 ? 12 : -12, deltaY: i % 2 ? 5 : -5, cancelable: true }));
            await next();
        }
        return frames * 1000 / (performance.now() - started);
    });
}

scenario(async (user) => {
    const admin = await user();
    await admin.openAndSignIn('admin', '#/flows');
    const { page } = admin;
    await page.getByRole('heading', { name: 'Greeting' }).waitFor();
    await cue('press the button');
    // A status comes over the channel, and is shown with the node.
    await page.locator('summary').filter({ hasText: 'Nodes as a list' }).click();
    await page.getByRole('searchbox').fill('greet');
    await page.getByRole('button', { name: 'greet (function)' }).click();
    await page.getByRole('heading', { name: 'greet', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Full deployment' }).or(page.getByText('knows no change')).first().waitFor();
    await admin.seeAndCheck('sees a flow and a node');

    // By keyboard: the drawing takes keys, and its pixels change.
    const canvas = page.locator('.drawing canvas');
    await canvas.focus();
    const picture = () => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(document.querySelector('.drawing canvas').toDataURL())))));
    const before = await picture();
    await page.keyboard.press('ArrowRight');
    const moved = await picture();
    assert.notEqual(moved, before);
    await page.keyboard.press('+');
    assert.notEqual(await picture(), moved);
    await page.keyboard.press('0');
    assert.equal(await picture(), before);

    await cue('deploy ten thousand nodes');
    // The channel tells of the deployment.
    await page.getByText('Other flows have been deployed since.').waitFor();
    const started = Date.now();
    await admin.button('Show them').click();
    await page.getByRole('link', { name: 'Ten thousand' }).click();
    await page.getByRole('heading', { name: 'Ten thousand' }).waitFor();
    await picture();
    const first = Date.now() - started;
    const far = await pan(page);
    await canvas.focus();
    await page.keyboard.press('0');
    for (let i = 0; i < 14; i++) await page.keyboard.press('+');
    const near = await pan(page);
    console.log(`10,000 nodes: first drawing ${first} ms, pan ${far.toFixed(1)} frames/s as a whole, ${near.toFixed(1)} near`);
    await admin.see('sees a part of ten thousand nodes');
    await page.keyboard.press('0');
    await admin.see('sees ten thousand nodes');
    assert.ok(far >= Number(FRAMES) && near >= Number(FRAMES) && first <= Number(FIRST_PAINT));

    const dark = await user({ colorScheme: 'dark', ...PHONE });
    await dark.openAndSignIn('admin', '#/flows/tab-greeting');
    await dark.page.getByRole('heading', { name: 'Greeting' }).waitFor();
    await dark.page.locator('.drawing canvas').waitFor();
    await dark.seeAndCheck('sees a flow on a dark phone');
    await cue('done');
});
