// The difference of two JSON values as a tree: what is the same is left out, down to the values that differ.

import { h } from './dom.js';
import { t } from './text.js';

// Levels shown. Our choice: deeper values are written on one line.
const MAX_DEPTH = 12;

export function tree(before, after) {
    return h('div', { class: 'tree' }, node(before, after, 0));
}

function node(before, after, depth) {
    const both = isBranch(before) && isBranch(after) && Array.isArray(before) === Array.isArray(after);
    if (!both || depth >= MAX_DEPTH) return leaf(before, after);
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    const differing = keys.filter((key) => !same(before[key], after[key]));
    return h('ul', null, differing.map((key) => h('li', null, `${key}: `, node(own(before, key), own(after, key), depth + 1))));
}

// A key may be the name of something that all objects have.
function own(value, key) {
    return Object.hasOwn(value, key) ? value[key] : undefined;
}

function leaf(before, after) {
    return [
        before !== undefined && mark('removed', before),
        before !== undefined && after !== undefined && ' ',
        after !== undefined && mark('added', after),
    ];
}

function mark(kind, value) {
    return h('span', { class: kind }, h('span', { class: 'unseen' }, `${t(`difference.${kind}`)}: `), written(value));
}

function written(value) {
    return typeof value === 'string' && value !== '' ? value : JSON.stringify(value);
}

function isBranch(value) {
    return typeof value === 'object' && value !== null;
}

function same(a, b) {
    return JSON.stringify(a) === JSON.stringify(b);
}
