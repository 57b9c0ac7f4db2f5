// The runtime is restarted: the editor waits for it, and goes on.

import { cue, scenario } from './scenario.mjs';

scenario(async (stage) => {
    const admin = await stage.user('admin');
    await admin.openAndSignIn('admin');
    await admin.act('core:show-debug-tab');
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 1');

    // Requests of the editor fail meanwhile, with these errors.
    admin.allow(/\b50[234]\b/, /WebSocket/);
    await cue('stop the runtime');
    await admin.notice('Lost connection to server, reconnecting');
    await admin.see('has lost the connection');

    await cue('start the runtime');
    await admin.page.getByText('Lost connection to server').waitFor({ state: 'hidden' });
    await admin.inject('ask');
    await admin.debugMessage('Hello Ada, 1', 2);
    await admin.rename('note', 'after the restart');
    await admin.deployAs('full');
    await admin.see('goes on');
});
