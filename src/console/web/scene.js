// What a drawing of a tab has: nodes, wires and groups with their places, and how each differs.
//
// Sizes are those of Node-RED's editor: a grid of 20, nodes of 30 in height and 100 in width at least, ports 13 apart.

import { colour, hasInput } from './palette.js';

const GRID = 20;
const HEIGHT = 30;
const WIDTH = 100;
const PORT = 13;
// The part of a node's width that is not its label: icon, ports, margins.
const FRAME = 50;

const measure = document.createElement('canvas').getContext('2d');
measure.font = '14px system-ui, sans-serif';
const widths = new Map();

function textWidth(text) {
    let width = widths.get(text);
    if (width === undefined) {
        // Names repeat; so that they do not fill the memory.
        if (widths.size > 20_000) widths.clear();
        width = measure.measureText(text).width;
        widths.set(text, width);
    }
    return width;
}

// Characters of a label that are drawn. Our choice: longer ones would cover the tab.
const MAX_LABEL = 60;

function label(node, subflows) {
    const name = node.name || node.label || (node.type === 'inject' && node.topic) || subflows.get(node.type) || node.type;
    const text = String(name);
    return text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL)}…` : text;
}

const number = (value) => (Number.isFinite(value) ? value : 0);

// A node with its rectangle, from the centre that the flow set has.
function shape(node, subflows) {
    const text = node.type === 'junction' ? '' : label(node, subflows);
    const outputs = Array.isArray(node.wires) ? node.wires.length : 0;
    const isSmall = node.type === 'junction' || (node.l === false) || (node.l === undefined && /^link (in|out)$/.test(node.type));
    const w = node.type === 'junction' ? 12 : isSmall ? HEIGHT : Math.max(WIDTH, GRID * Math.ceil((textWidth(text) + FRAME) / GRID));
    const h = node.type === 'junction' ? 12 : Math.max(HEIGHT, outputs * PORT + 4);
    const inputs = node.type === 'junction' || hasInput(node.type) ? 1 : 0;
    return {
        id: node.id, type: node.type, label: isSmall ? '' : text, name: text, outputs, inputs, w, h,
        x: number(node.x) - w / 2, y: number(node.y) - h / 2, colour: colour(node.type), disabled: node.d === true, mark: '',
    };
}

function isDrawn(node, tab) {
    return node.z === tab && node.type !== 'group' && node.type !== 'tab' && Number.isFinite(node.x) && Number.isFinite(node.y);
}

function group(node) {
    const style = node.style ?? {};
    return { id: node.id, name: node.name ? String(node.name) : '', x: number(node.x), y: number(node.y), w: number(node.w), h: number(node.h),
        fill: plain(style.fill), stroke: plain(style.stroke), mark: '' };
}

// A colour as the editor writes it; a canvas would take other texts too.
function plain(text) {
    return typeof text === 'string' && /^#[0-9a-f]{3,8}$/i.test(text) ? text : null;
}

function subflowNames(flows) {
    return new Map(flows.filter((node) => node.type === 'subflow').map((node) => [`subflow:${node.id}`, node.name || node.id]));
}

// The tab or subflow `id` of a flow set.
export function tab(flows, id) {
    const subflows = subflowNames(flows);
    const nodes = new Map();
    const wires = [];
    const groups = [];
    for (const node of flows) {
        if (node.z === id && node.type === 'group') groups.push(group(node));
        else if (isDrawn(node, id)) nodes.set(node.id, { ...shape(node, subflows), from: node });
    }
    for (const one of nodes.values()) {
        (one.from.wires ?? []).forEach((targets, port) => {
            for (const target of Array.isArray(targets) ? targets : []) {
                const to = nodes.get(target);
                if (to) wires.push({ from: one, to, port, mark: '', key: `${one.id} ${port} ${target}` });
            }
        });
        delete one.from;
    }
    // Large groups are behind small ones.
    groups.sort((a, b) => b.w * b.h - a.w * a.h);
    return { id, nodes: [...nodes.values()], wires, groups };
}

// The same of two flow sets, `flow` being the difference of one flow: as it is after, with what was removed.
export function marked(before, after, flow) {
    const [old, now] = [tab(before, flow.id), tab(after, flow.id)];
    const marks = new Map(flow.elements.map((found) => [found.id, found.difference]));
    // A long difference does not list all elements. What is on one side only was moved, if another flow has it.
    const ids = (flows) => new Set(flows.map((node) => node.id));
    const [allBefore, allAfter] = [ids(before), ids(after)];
    const was = new Map(old.nodes.map((node) => [node.id, node]));
    const shown = new Map(now.nodes.map((node) => [node.id, node]));
    for (const node of now.nodes) {
        node.mark = marks.get(node.id) ?? (was.has(node.id) ? '' : allBefore.has(node.id) ? 'moved' : 'added');
        const place = was.get(node.id);
        if (node.mark === 'added' || !place) continue;
        if (place.x !== node.x || place.y !== node.y) node.ghost = { x: place.x, y: place.y, w: place.w, h: place.h };
    }
    const gone = old.nodes.filter((node) => !shown.has(node.id));
    for (const node of gone) {
        node.mark = allAfter.has(node.id) ? 'moved' : 'removed';
        shown.set(node.id, node);
    }
    for (const one of now.groups) one.mark = marks.get(one.id) ?? '';
    const groups = new Set(now.groups.map((one) => one.id));
    const goneGroups = old.groups.filter((one) => !groups.has(one.id)).map((one) => ({ ...one, mark: 'removed' }));
    const keys = new Set(old.wires.map((wire) => wire.key));
    for (const wire of now.wires) wire.mark = keys.has(wire.key) ? '' : 'added';
    const kept = new Set(now.wires.map((wire) => wire.key));
    const cut = old.wires.filter((wire) => !kept.has(wire.key)).map((wire) =>
        ({ ...wire, from: shown.get(wire.from.id), to: shown.get(wire.to.id), mark: 'removed' }));
    return { id: flow.id, nodes: [...now.nodes, ...gone], wires: [...now.wires, ...cut], groups: [...goneGroups, ...now.groups] };
}

// The ends of a wire.
export function ends({ from, to, port }) {
    const gap = from.type === 'junction' ? 0 : PORT;
    const y1 = from.y + from.h / 2 + (port - (from.outputs - 1) / 2) * gap;
    return [from.x + from.w, y1, to.x, to.y + to.h / 2];
}

// The rectangle around everything; of the nodes that differ, if there are such.
export function bounds(scene, markedOnly = false) {
    let all = [...scene.nodes, ...scene.groups];
    const differing = all.filter((one) => one.mark);
    if (markedOnly && differing.length > 0) all = differing;
    if (all.length === 0) return { x: 0, y: 0, w: 400, h: 200 };
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const one of all) {
        left = Math.min(left, one.x);
        top = Math.min(top, one.y);
        right = Math.max(right, one.x + one.w);
        bottom = Math.max(bottom, one.y + one.h);
    }
    return { x: left, y: top, w: right - left, h: bottom - top };
}
