// The difference of two texts, line by line.

import { h } from './dom.js';
import { highlighted } from './highlight.js';
import { t } from './text.js';

// Cells of the table of the longest common subsequence. Our choice: 16 MB and a tenth of a second; above it all lines
// between the common beginning and end are shown as replaced.
const MAX_CELLS = 4_000_000;

// Unchanged lines around a change. As `diff -u`.
const CONTEXT = 3;

// The lines of both in order: `[kind, line, number before, number after]`, kind '', 'added' or 'removed'.
export function lines(before, after) {
    const [a, b] = [before.split('\n'), after.split('\n')];
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start++;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
    const found = [];
    for (let i = 0; i < start; i++) found.push(['', a[i], i + 1, i + 1]);
    middle(a.slice(start, a.length - end), b.slice(start, b.length - end), start, found);
    for (let i = end; i > 0; i--) found.push(['', a[a.length - i], a.length - i + 1, b.length - i + 1]);
    return found;
}

function middle(a, b, offset, found) {
    const width = b.length + 1;
    const isLarge = (a.length + 1) * width > MAX_CELLS;
    // The length of the longest common subsequence of what follows `i` and `j`.
    const common = new Uint32Array(isLarge ? 0 : (a.length + 1) * width);
    for (let i = a.length - 1; i >= 0 && !isLarge; i--) {
        for (let j = b.length - 1; j >= 0; j--) {
            const next = (i + 1) * width + j + 1;
            common[i * width + j] = a[i] === b[j] ? common[next] + 1 : Math.max(common[next - 1], common[i * width + j + 1]);
        }
    }
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
        if (!isLarge && i < a.length && j < b.length && a[i] === b[j]) {
            found.push(['', a[i], offset + ++i, offset + ++j]);
        } else if (i < a.length && (isLarge || j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            found.push(['removed', a[i], offset + ++i, null]);
        } else {
            found.push(['added', b[j], null, offset + ++j]);
        }
    }
}

const SIGNS = { added: '+', removed: '−', '': '' };

// The same to look at: changes with the lines around them; code in colours.
export function lineDiff(before, after, isCode = false) {
    const all = lines(before, after);
    const [coloured, colouredAfter] = isCode ? [before, after].map((text) => highlighted(text.split('\n'))) : [[], []];
    const shown = ([, line, old, number]) => (number ? colouredAfter[number - 1] : coloured[old - 1]) ?? line;
    const near = all.map(() => false);
    all.forEach(([kind], at) => {
        if (kind) near.fill(true, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
    });
    const rows = [];
    for (let at = 0; at < all.length; at++) {
        if (near[at]) {
            rows.push(row(all[at], shown(all[at])));
        } else if (at === 0 || near[at - 1]) {
            let end = at;
            while (end < all.length && !near[end]) end++;
            rows.push(h('div', { class: 'gap' }, h('span'), h('span'), h('span'), h('span', null, t('lines.same', { n: end - at }))));
        }
    }
    return h('div', { class: 'lines', role: 'group', 'aria-label': t('lines.label'), tabindex: '0' }, rows);
}

function row([kind, line, before, after], shown) {
    return h('div', { class: kind },
        h('span', { class: 'number', 'aria-hidden': 'true' }, before ?? ''),
        h('span', { class: 'number', 'aria-hidden': 'true' }, after ?? ''),
        h('span', null, h('span', { 'aria-hidden': 'true' }, SIGNS[kind]), kind && h('span', { class: 'unseen' }, t(`difference.${kind}`))),
        h('span', null, line ? shown : ' '));
}
