// Paints the visible part of a scene. Elements are found by the squares of a grid that they lie in, and at small scales are
// painted with less: ten thousand nodes at once are rectangles of a few colours.

import { heatText } from './heat.js';
import { bounds, ends } from './scene.js';
import { number } from './text.js';

// The side of a square of the grid.
const CELL = 400;
// Below this scale there are no labels, below the second no curves and outlines.
const LABELS = 0.35;
const OUTLINES = 0.18;

const FONT = '14px system-ui, sans-serif';
const EDGE = '#8a8a86';
const STATUS = { red: '#d0342c', green: '#2e9e5b', yellow: '#d99a00', blue: '#3d7be0', grey: '#8a8f98', gray: '#8a8f98' };
const SIGNS = { added: '+', removed: '−', changed: '~', moved: '→', repositioned: '→' };

export class Painter {
    constructor(canvas) {
        this.canvas = canvas;
        this.ctx = canvas.getContext('2d');
        this.ratio = 1;
        this.statuses = new Map();
        this.heat = new Map();
        this.selected = null;
        this.readColours();
    }

    readColours() {
        const style = getComputedStyle(document.documentElement);
        const read = (name) => style.getPropertyValue(`--${name}`).trim();
        this.colours = { ground: read('surface'), ink: read('ink'), muted: read('muted'), line: read('line'), wire: read('line-strong'), accent: read('accent'),
            added: read('add'), removed: read('remove'), changed: read('change'), moved: read('move'), repositioned: read('move') };
    }

    use(scene) {
        this.scene = scene;
        this.hasMarks = [...scene.nodes, ...scene.wires].some((one) => one.mark);
        this.cells = new Map();
        this.all = bounds(scene);
        for (const node of scene.nodes) this.enter(node, node.x, node.y, node.x + node.w, node.y + node.h);
        for (const wire of scene.wires) {
            const [x1, y1, x2, y2] = (wire.line = ends(wire));
            this.enter(wire, Math.min(x1, x2) - 75, Math.min(y1, y2), Math.max(x1, x2) + 75, Math.max(y1, y2));
        }
    }

    enter(one, left, top, right, bottom) {
        for (let x = Math.floor(left / CELL); x <= Math.floor(right / CELL); x++) {
            for (let y = Math.floor(top / CELL); y <= Math.floor(bottom / CELL); y++) {
                const key = `${x},${y}`;
                if (!this.cells.has(key)) this.cells.set(key, []);
                this.cells.get(key).push(one);
            }
        }
    }

    // What lies in a rectangle, at least.
    within(left, top, right, bottom) {
        const { x, y, w, h } = this.all;
        if (left <= x && top <= y && right >= x + w && bottom >= y + h) return this.scene;
        const [nodes, wires] = [new Set(), new Set()];
        for (let column = Math.floor(left / CELL); column <= Math.floor(right / CELL); column++) {
            for (let row = Math.floor(top / CELL); row <= Math.floor(bottom / CELL); row++) {
                for (const one of this.cells.get(`${column},${row}`) ?? []) (one.line ? wires : nodes).add(one);
            }
        }
        return { nodes: [...nodes], wires: [...wires] };
    }

    at(x, y) {
        const { nodes } = this.within(x, y, x, y);
        return nodes.findLast((node) => x >= node.x && x <= node.x + node.w && y >= node.y && y <= node.y + node.h) ?? null;
    }

    paint(view, width, height) {
        const { ctx } = this;
        const { x, y, scale } = view;
        ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        ctx.fillStyle = this.colours.ground;
        ctx.fillRect(0, 0, width, height);
        const factor = scale * this.ratio;
        ctx.setTransform(factor, 0, 0, factor, -x * factor, -y * factor);
        this.scale = scale;
        const seen = this.within(x, y, x + width / scale, y + height / scale);
        this.groups();
        this.wires(seen.wires);
        if (scale < OUTLINES) this.far(seen.nodes);
        else this.near(seen.nodes);
        if (this.heat.size === 0) return;
        if (scale >= LABELS) this.counts(seen.wires);
        this.hot(seen.nodes);
    }

    // How many messages went through each wire, at its middle.
    counts(wires) {
        const { ctx, colours } = this;
        ctx.font = '12px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        ctx.textAlign = 'center';
        ctx.lineWidth = 4;
        for (const { from, port, line: [x1, y1, x2, y2] } of wires) {
            const sent = this.heat.get(from.id)?.outputs[port] ?? 0;
            if (sent === 0) continue;
            const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
            ctx.strokeStyle = colours.ground;
            ctx.strokeText(number(sent), x, y);
            ctx.fillStyle = colours.ink;
            ctx.fillText(number(sent), x, y);
        }
        ctx.textAlign = 'start';
    }

    // The errors of a node, at its corner: a sign and a number, not a colour alone.
    errors({ x, y, w, h }, errors) {
        const { ctx, colours } = this;
        const text = `! ${number(errors)}`;
        ctx.font = 'bold 12px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        const width = ctx.measureText(text).width + 12;
        ctx.fillStyle = colours.removed;
        ctx.beginPath();
        ctx.roundRect(x + w - width / 2, y + h - 8, width, 18, 9);
        ctx.fill();
        ctx.fillStyle = colours.ground;
        ctx.fillText(text, x + w - width / 2 + 6, y + h + 1);
    }

    // The share of the engine's time as a frame, the wider the more, and share and messages as text at the input.
    hot(nodes) {
        const { ctx, colours } = this;
        for (const node of nodes) {
            const used = this.heat.get(node.id);
            if (!used) continue;
            const { x, y, w, h } = node;
            const width = 2 + 10 * Math.sqrt(Math.min(used.share, 1));
            ctx.strokeStyle = colours.removed;
            ctx.globalAlpha = 0.35 + 0.65 * Math.sqrt(Math.min(used.share, 1));
            ctx.lineWidth = width;
            ctx.strokeRect(x - width / 2, y - width / 2, w + width, h + width);
            ctx.globalAlpha = 1;
            if (this.scale < LABELS) continue;
            ctx.fillStyle = colours.removed;
            ctx.font = '12px system-ui, sans-serif';
            ctx.textBaseline = 'middle';
            ctx.fillText(heatText(used), x, y - width - 8);
            if (used.errors > 0) this.errors(node, used.errors);
        }
    }

    groups() {
        const { ctx } = this;
        for (const { x, y, w, h, fill, stroke, name, mark } of this.scene.groups) {
            ctx.globalAlpha = 0.25;
            ctx.fillStyle = fill ?? this.colours.line;
            if (fill) ctx.fillRect(x, y, w, h);
            ctx.globalAlpha = 1;
            ctx.strokeStyle = mark ? this.colours[mark] : stroke ?? this.colours.wire;
            ctx.lineWidth = mark ? 2 : 1;
            ctx.strokeRect(x, y, w, h);
            if (!name || this.scale < LABELS) continue;
            ctx.fillStyle = this.colours.muted;
            ctx.font = FONT;
            ctx.textBaseline = 'top';
            ctx.fillText(name, x + 8, y + 6);
        }
    }

    // One path for each kind of wire.
    wires(wires) {
        const { ctx } = this;
        const straight = this.scale < OUTLINES;
        for (const kind of ['', 'removed', 'added']) {
            ctx.beginPath();
            for (const { line: [x1, y1, x2, y2], mark } of wires) {
                if (mark !== kind) continue;
                ctx.moveTo(x1, y1);
                if (straight) ctx.lineTo(x2, y2);
                else this.curve(x1, y1, x2, y2);
            }
            ctx.strokeStyle = kind ? this.colours[kind] : this.colours.wire;
            ctx.globalAlpha = kind || !this.hasMarks ? 1 : 0.6;
            // Of the screen: a line of less than a pixel is as slow as one of a pixel, and harder to see.
            ctx.lineWidth = straight ? 1 / this.scale : kind ? 2.5 : 2;
            ctx.setLineDash(kind === 'removed' && !straight ? [6, 5] : []);
            ctx.stroke();
        }
        ctx.setLineDash([]);
        ctx.globalAlpha = 1;
    }

    curve(x1, y1, x2, y2) {
        const reach = x2 >= x1 ? Math.min(75, Math.max(20, Math.hypot(x2 - x1, y2 - y1) / 2)) : 75 + Math.min(80, (x1 - x2) / 4);
        this.ctx.bezierCurveTo(x1 + reach, y1, x2 - reach, y2, x2, y2);
    }

    // From far away: rectangles, one path for each colour.
    far(nodes) {
        const { ctx } = this;
        for (const [colour, of] of byColour(nodes, ({ mark, colour }) => (mark ? this.colours[mark] : colour))) {
            ctx.fillStyle = colour;
            ctx.beginPath();
            for (const { x, y, w, h } of of) ctx.rect(x, y, w, h);
            ctx.fill();
        }
    }

    // From near: all nodes of one look with one path for each colour, then the nodes that stand out, one by one.
    near(nodes) {
        const isPlain = (node) => !node.mark && !node.disabled && node.id !== this.selected;
        const plain = nodes.filter(isPlain);
        this.ctx.globalAlpha = this.hasMarks ? 0.5 : 1;
        this.batch(plain);
        for (const node of nodes) {
            if (!isPlain(node)) this.special(node);
        }
        this.ctx.globalAlpha = 1;
        if (this.scale < LABELS || this.statuses.size === 0) return;
        for (const node of nodes) {
            const status = this.statuses.get(node.id);
            if (status) this.status(node, status);
        }
    }

    // `edge` and `width` are of the outlines.
    batch(nodes, edge = EDGE, width = 1) {
        const { ctx } = this;
        for (const [colour, of] of byColour(nodes, ({ colour }) => colour)) {
            ctx.beginPath();
            for (const node of of) this.outline(node);
            ctx.fillStyle = colour;
            ctx.fill();
        }
        ctx.beginPath();
        for (const node of nodes) this.outline(node);
        ctx.lineWidth = width;
        ctx.strokeStyle = edge;
        ctx.stroke();
        ctx.setLineDash([]);
        if (this.scale >= LABELS) this.inside(nodes.filter(({ type }) => type !== 'junction'));
    }

    outline({ x, y, w, h }) {
        this.ctx.roundRect(x, y, w, h, Math.min(5, w / 2));
    }

    // One that differs, is chosen or disabled.
    special(node) {
        const { ctx, colours } = this;
        const { mark } = node;
        if (node.ghost) this.ghost(node);
        const isChosen = node.id === this.selected;
        ctx.globalAlpha = node.disabled || mark === 'removed' || (this.hasMarks && !mark) ? 0.5 : 1;
        ctx.setLineDash(node.disabled || mark === 'removed' ? [6, 4] : []);
        if (isChosen) this.batch([node], colours.accent, 3);
        else if (mark) this.batch([node], colours[mark], 3);
        else this.batch([node]);
        ctx.globalAlpha = 1;
        if (mark) this.sign(node);
    }

    // Labels, the place of the icon, and ports.
    inside(nodes) {
        const { ctx } = this;
        ctx.fillStyle = 'rgb(0 0 0 / 7%)';
        ctx.beginPath();
        for (const { x, y, h } of nodes) ctx.rect(x, y, 30, h);
        ctx.fill();
        ctx.fillStyle = '#202124';
        ctx.font = FONT;
        ctx.textBaseline = 'middle';
        for (const { x, y, h, label } of nodes) {
            if (label) ctx.fillText(label, x + 38, y + h / 2 + 1);
        }
        ctx.beginPath();
        for (const { x, y, w, h, inputs, outputs } of nodes) {
            if (inputs) ctx.rect(x - 4.5, y + h / 2 - 4.5, 9, 9);
            for (let port = 0; port < outputs; port++) ctx.rect(x + w - 4.5, y + h / 2 - 4.5 + (port - (outputs - 1) / 2) * 13, 9, 9);
        }
        ctx.fillStyle = '#d9d9d9';
        ctx.fill();
        ctx.strokeStyle = EDGE;
        ctx.lineWidth = 1;
        ctx.stroke();
    }

    // Where the node was.
    ghost({ ghost, x, y, w, h }) {
        const { ctx } = this;
        ctx.strokeStyle = this.colours.moved;
        ctx.lineWidth = 1.5;
        ctx.setLineDash([3, 4]);
        ctx.strokeRect(ghost.x, ghost.y, ghost.w, ghost.h);
        ctx.beginPath();
        ctx.moveTo(ghost.x + ghost.w / 2, ghost.y + ghost.h / 2);
        ctx.lineTo(x + w / 2, y + h / 2);
        ctx.stroke();
        ctx.setLineDash([]);
    }

    // Beside its colour a mark has a sign, for those who do not tell the colours apart.
    sign({ x, y, w, mark }) {
        const { ctx } = this;
        ctx.fillStyle = this.colours[mark];
        ctx.beginPath();
        ctx.arc(x + w, y, 10, 0, 2 * Math.PI);
        ctx.fill();
        ctx.fillStyle = this.colours.ground;
        ctx.font = 'bold 15px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        ctx.textAlign = 'center';
        ctx.fillText(SIGNS[mark], x + w, y + 1);
        ctx.textAlign = 'start';
    }

    status({ x, y, h }, { text, fill, shape }) {
        const { ctx } = this;
        const colour = Object.hasOwn(STATUS, fill) ? STATUS[fill] : null;
        if (colour) {
            ctx.beginPath();
            ctx.arc(x + 8, y + h + 10, 4.5, 0, 2 * Math.PI);
            ctx.fillStyle = ctx.strokeStyle = colour;
            ctx.lineWidth = 2;
            shape === 'ring' ? ctx.stroke() : ctx.fill();
        }
        ctx.fillStyle = this.colours.muted;
        ctx.font = '12px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        ctx.fillText(String(text ?? '').slice(0, 60), x + (colour ? 18 : 4), y + h + 11);
    }
}

function byColour(nodes, colourOf) {
    const found = new Map();
    for (const node of nodes) {
        const colour = colourOf(node);
        if (!found.has(colour)) found.set(colour, []);
        found.get(colour).push(node);
    }
    return found;
}
