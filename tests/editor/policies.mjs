// A user whose deployments the policies refuse, one after the other: each time the editor shows the reason, in words that
// help, and keeps the changes.

import assert from 'node:assert/strict';
import { cue, scenario } from './scenario.mjs';

const FREEZE = '[[policy.freeze]]\ncron = "* * * * *"\nduration = "2h"\nreason = "the line is running"';

// What refuses the change of a comment, and what the editor shows then.
const OF_A_COMMENT = [
    ['forbid_types', { policy: 'forbid_types = ["comment"]' },
        'Deploy failed: nodes of these types must not be added or changed here: comment note ("of <ann> & co")'],
    ['restrict_types', { policy: 'restrict_types = ["comment"]' },
        'Deploy failed: adding or changing these nodes needs the permission node-types:TYPE: comment note'],
    ['max_bytes', { policy: 'max_bytes = "1KiB"' }, /bytes, and at most 1024 are allowed/],
    ['rights to flows', { permissions: ['read', 'settings.write', 'flows.write:Other'] },
        'for which you lack the permission flows.write:FLOW: comment note'],
    ['freeze', { policy: FREEZE }, /deployments are frozen until .*: the line is running/],
    ['read_only', { policy: 'read_only = true' }, 'the flows are read-only here'],
    ['approve', { policy: 'approve = ["*"]' },
        'the change waits for the approval of another user as proposal 1: /gateway/proposals/1'],
    ['approve, again', { policy: 'approve = ["*"]' },
        'the change waits for the approval of another user as proposal 1: /gateway/proposals/1'],
];

// A gateway with other rules.
const rules = (changes) => cue(JSON.stringify(changes));

scenario(async (stage) => {
    const ann = await stage.user('ann');
    ann.allow(/\b403\b.*\/flows/, /\b428\b.*\/flows/, /\b409\b.*\/flows/);
    const refused = async (name, status, reason) => {
        assert.equal((await ann.deploy()).status, status, name);
        await ann.notice(reason);
        await ann.see(`is refused by ${name}`);
        await ann.closeNotices();
        assert.equal(await ann.canDeploy(), true, name);
    };
    await ann.openAndSignIn('ann');
    await ann.showFlow('Greeting');
    await ann.rename('note', 'of <ann> & co');
    for (const [name, changes, reason] of OF_A_COMMENT) {
        await rules(changes);
        await refused(name, 403, reason);
    }

    // One more node.
    await rules({ policy: 'max_nodes = 5' });
    await ann.drag('comment', 400, 300);
    await refused('max_nodes', 403, /the flows have \d+ elements, and at most 5 are allowed/);

    // A tab that another user has locked.
    await rules({});
    await ann.showFlow('Locked');
    await ann.act('core:unlock-flow');
    await refused('locked', 403, /these are locked.* flows\.unlock: tab locked \("Locked"\)/);
    await ann.act('core:undo');

    // A type that the runtime lacks: the editor asks first.
    await rules({ policy: 'require_types = true' });
    await ann.showFlow('Greeting');
    await ann.act('core:undo');
    const tab = { id: 'unknown', type: 'tab', label: 'Unknown' };
    const strange = { id: 'strange', type: 'strange', z: 'unknown', name: '', x: 100, y: 100, wires: [] };
    await ann.importFlows(JSON.stringify([tab, strange]));
    await ann.deployButton().click();
    assert.equal((await ann.pressAndDeploy('Confirm deploy')).status, 403);
    await ann.notice('the runtime does not have the types of these nodes: strange ');
    await ann.see('is refused by require_types');
    await ann.reload();

    // Another user has deployed meanwhile, and ann wants to overwrite it.
    await ann.showFlow('Greeting');
    await ann.rename('note', 'of ann');
    await cue('another user deploys');
    await ann.notice('The flows on the server have been updated');
    await rules({ policy: 'require_rev = true' });
    assert.equal((await ann.deploy()).status, 409);
    await ann.press('Review changes');
    await ann.closeDialog('Cancel');
    assert.equal((await ann.deploy()).status, 409);
    assert.equal((await ann.pressAndDeploy('Ignore & deploy')).status, 428);
    await ann.notice('so that no changes of others are overwritten unseen');
    await ann.see('is refused by require_rev');
});
