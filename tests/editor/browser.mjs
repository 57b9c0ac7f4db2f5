// One headless Chromium for all scenarios: says on one line where to reach it, and ends when its input does, so
// that it never outlives the tests.

import { chromium } from 'playwright-core';

const server = await chromium.launchServer({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // Nothing but this machine can be reached: a test is the same with and without a network.
    args: ['--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'],
});
process.stdout.write(server.wsEndpoint() + '\n');
process.stdin.resume();
process.stdin.on('end', async () => {
    await server.close();
    process.exit();
});
