// A page of a flow registers service workers: one for its own directory answers there, one for the whole host is refused.

import assert from 'node:assert/strict';
import { scenario } from './stage.mjs';

scenario(async (user) => {
    const ann = await user();
    ann.allow(/favicon/, /403 GET .*sw\.js/, /console error/);
    const page = (path) => ann.page.goto(new URL(path, ann.url).href);
    await page('/app/page');
    const register = (script, scope) => ann.page.evaluate(async ([script, scope]) => {
        try {
            const registration = await navigator.serviceWorker.register(script, { scope });
            return new URL(registration.scope).pathname;
        } catch (error) {
            return error.name;
        }
    }, [script, scope]);
    assert.equal(await register('/sw.js', '/'), 'TypeError');
    assert.equal(await register('/app/sw.js', '/'), 'SecurityError');
    assert.equal(await register('/app/sw.js', '/app/'), '/app/');
    await ann.page.evaluate(() => navigator.serviceWorker.ready.then(() => {}));
    await page('/app/page');
    assert.equal(await ann.page.textContent('body'), 'the worker');
    await ann.open();
    assert.notEqual(await ann.page.textContent('body'), 'the worker');
});
