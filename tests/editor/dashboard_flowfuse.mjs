// @flowfuse/node-red-dashboard, for users who sign in with the gateway's page.

import { useDashboard } from './dashboard.mjs';
import { scenario } from './scenario.mjs';

async function signIn(page) {
    await page.fill('input[name=username]', 'reader');
    await page.fill('input[name=password]', process.env.PASSWORD);
    await page.click('button');
}

scenario((stage) => useDashboard(stage, { path: 'dashboard/page1', signIn }));
