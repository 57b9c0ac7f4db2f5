// One element that differs, with its properties: code as lines, other values as a tree.

import { h } from './dom.js';
import { lineDiff } from './line_diff.js';
import { t } from './text.js';
import { tree } from './value_diff.js';

// Properties whose texts are code or prose with lines of their own.
const TEXTS = new Set(['func', 'initialize', 'finalize', 'template', 'info', 'format', 'html', 'sql', 'query', 'css']);

// Those of them that are JavaScript.
const CODE = new Set(['func', 'initialize', 'finalize']);

export function element(found) {
    const credentials = found.credentials === 'changed';
    const properties = Object.entries(found.properties ?? {});
    const line = [
        h('span', { class: `badge ${found.difference}` }, t(`difference.${found.difference}`)),
        h('span', { class: 'name' }, String(found.name || found.id)),
        h('span', { class: 'small muted nowrap' }, found.type),
        credentials && h('span', { class: 'badge changed' }, t('changes.credentials')),
    ];
    if (properties.length === 0) return h('div', { class: 'element' }, h('div', { class: 'line' }, line));
    const details = h('details', { class: 'element' }, h('summary', null, line));
    // Filled when it is opened: a large change has thousands of lines.
    const open = () => {
        if (details.childElementCount === 1) details.append(...properties.map(([name, values]) => property(name, values)));
    };
    details.addEventListener('toggle', () => details.open && open());
    if (found.difference === 'changed' && properties.length <= 3) {
        details.open = true;
        open();
    }
    return details;
}

function property(name, values) {
    return h('div', { class: 'property' }, h('h4', null, name), difference(name, values));
}

function difference(name, { before, after }) {
    const isText = (value) => value === undefined || typeof value === 'string';
    const hasLines = TEXTS.has(name) || [before, after].some((value) => typeof value === 'string' && value.includes('\n'));
    if (isText(before) && isText(after) && hasLines) return lineDiff(before ?? '', after ?? '', CODE.has(name));
    return tree(before, after);
}
