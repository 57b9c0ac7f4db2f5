// A user signs in to an application behind a reverse proxy that asks flowgate. A script of the application's page sets
// cookies around flowgate's, and sends headers that look like those of flowgate and of the proxy.

import { scenario } from './stage.mjs';

scenario(async (user) => {
    const ann = await user();
    // The application has no picture for the tab, and no permission to set flowgate's cookie.
    ann.allow(/favicon/, /console (error|warning)/);
    const url = new URL('../app/hostile', ann.url).href;
    await ann.page.goto(url);
    await ann.page.fill('input[name=username]', 'reader');
    await ann.page.fill('input[name=password]', process.env.PASSWORD);
    await ann.page.keyboard.press('Enter');
    await ann.page.waitForURL(url);
    await ann.page.evaluate(async () => {
        const headers = {};
        for (const name of ['User', 'Permissions', 'Identity']) {
            headers[`X-Flowgate-${name}`] = 'spoofed';
            headers[`X_Flowgate_${name}`] = 'spoofed';
            headers[`X-Flowgate_${name}`] = 'spoofed';
        }
        for (const name of ['For', 'Host', 'Proto', 'Port', 'Prefix', 'User']) {
            headers[`X-Forwarded-${name}`] = 'spoofed';
        }
        for (const name of ['X-Real-IP', 'X_Real_IP', 'X-Real_IP', 'X_Real-IP']) headers[name] = 'spoofed';
        headers.Forwarded = 'host=spoofed';
        const probe = (n) => fetch(`/app/probe${n}`, { headers });
        document.cookie = 'x__Host-flowgate=1; path=/app/probe1';
        document.cookie = 'own=2; path=/';
        await probe(1);
        document.cookie = 'x__Host-flowgate=1; path=/';
        document.cookie = '__Host-flowgate-passkey=3; path=/; secure';
        await probe(2);
        document.cookie = '__Host-flowgate-sign-in=4; path=/; secure';
        document.cookie = 'z=__Host-flowgate=5; path=/';
        await probe(3);
    });
});
