// Back to an earlier flow set, or one flow of it: first what that would change and whether it is allowed, then the act.

import * as api from './api.js';
import { confirm } from './dialog.js';
import { h, toast } from './dom.js';
import { entryTitle } from './entry.js';
import { number, t } from './text.js';

// Asks and rolls back; resolves to whether it was done. `flow` is the one flow to be taken back, `entry` what is undone.
export function undo({ target, flow, title, entry }) {
    let rev;
    return confirm({
        title,
        text: flow ? t('undo.text_flow', { flow: flow.label }) : t('undo.text'),
        action: t('undo.confirm'),
        field: { label: t('undo.message'), max: 500, value: t(target === entry.rev ? 'restore.said' : 'undo.said', { what: entryTitle(entry) }).slice(0, 500) },
        body: async () => {
            const [active, earlier] = await Promise.all([api.flows(), api.flowSet(target)]);
            rev = active.rev;
            const wanted = flow ? takenBack(active.flows, earlier, flow.id) : earlier;
            const [diff, checked] = await Promise.all([
                api.read('gateway/diff', { from: rev, to: target }), api.check(wanted, rev)]);
            return { elements: dryRun(diff, checked, flow), allowed: checked.allowed };
        },
        act: async (message) => {
            const path = `gateway/deployments/${encodeURIComponent(target)}/rollback`;
            const headers = { ...api.message(message), ...api.CHANGED_FLOWS };
            const response = await api.send('POST', path, { query: { flow: flow?.id }, headers, body: { rev } });
            const done = await response.json();
            toast(response.status === 202 ? t('undo.proposed', { n: String(done.id) }) : t('undo.done'));
        },
    });
}

// The active flows with one flow as it was earlier, as the gateway does it.
export function takenBack(active, earlier, id) {
    const isOf = (node) => (node.type === 'tab' || node.type === 'subflow' ? node.id === id : node.z === id);
    const place = active.findIndex(isOf);
    const kept = active.filter((node) => !isOf(node));
    kept.splice(place < 0 ? kept.length : place, 0, ...earlier.filter(isOf));
    return kept;
}

// What would happen.
function dryRun(diff, checked, flow) {
    const flows = diff.flows.filter((one) => !flow || one.id === flow.id);
    const lines = flows.map((one) => {
        const count = (kinds) => one.elements.filter((found) => kinds.includes(found.difference)).length;
        return h('li', { class: 'row between' },
            h('span', null, one.id === null ? t('changes.shared') : String(one.label || one.id)),
            h('span', { class: 'counts' },
                [['added', ['added'], '+'], ['changed', ['changed', 'moved', 'repositioned'], '~'], ['removed', ['removed'], '−']].map(([kind, kinds, sign]) =>
                    count(kinds) > 0 && h('span', { class: kind, title: t(`difference.${kind}`) }, `${sign}${number(count(kinds))}`))));
    });
    return [
        h('h3', null, t('dry_run.title')),
        lines.length === 0 ? h('p', { class: 'notice' }, t('dry_run.nothing')) : h('ul', { class: 'stack' }, lines),
        h('p', { class: 'small muted' }, t('dry_run.plan', { stop: checked.stop.length, start: checked.start.length })),
        checked.violations.map((found) => h('p', { class: 'notice bad' }, found.message)),
        checked.approval && h('p', { class: 'notice warn' }, t('dry_run.approval')),
        checked.findings.length > 0 && h('details', null,
            h('summary', null, t('dry_run.findings', { n: checked.findings.length })),
            h('ul', { class: 'small' }, checked.findings.slice(0, 20).map((found) => h('li', null, found.message)))),
    ];
}
