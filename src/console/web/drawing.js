// A tab as a drawing that can be moved and zoomed by mouse, touch and keyboard.
//
// One canvas, on which only what is visible is drawn. Its nodes are a list beside it for screen readers.

import { h } from './dom.js';
import { Painter } from './painter.js';
import { bounds } from './scene.js';
import { t } from './text.js';
import * as theme from './theme.js';

const MIN = 0.02;
const MAX = 3;
// Pixels around everything when it is fitted.
const MARGIN = 32;
// Pixels of an arrow key; with Shift four times as many.
const STEP = 60;
const ZOOM = 1.25;

export class Drawing {
    // `wheel`: whether the wheel moves the drawing; else only with Ctrl, because the page scrolls.
    constructor({ label, wheel = false, choose = () => {} }) {
        this.wheel = wheel;
        this.choose = choose;
        this.canvas = h('canvas', { tabindex: '0', role: 'application', 'aria-label': label, 'aria-roledescription': t('drawing.role') });
        const button = (text, name, action) => h('button', { type: 'button', title: name, 'aria-label': name, onclick: action }, text);
        this.element = h('div', { class: wheel ? 'drawing' : 'drawing in-text' }, this.canvas,
            h('div', { class: 'zoom' },
                button('−', t('drawing.out'), () => this.zoom(1 / ZOOM)),
                button('+', t('drawing.in'), () => this.zoom(ZOOM)),
                button('⤢', t('drawing.fit'), () => this.fit())));
        this.painter = new Painter(this.canvas);
        this.view = { x: 0, y: 0, scale: 1 };
        this.pointers = new Map();
        this.frames = 0;
        this.resize = new ResizeObserver(() => this.resized());
        this.resize.observe(this.element);
        this.leaveTheme = theme.onChange(() => { this.painter.readColours(); this.draw(); });
        this.listen();
    }

    stop() {
        this.resize.disconnect();
        this.leaveTheme();
        this.stopped = true;
    }

    // Shows a scene, as a whole.
    show(scene) {
        this.painter.use(scene);
        this.scene = scene;
        this.fit();
    }

    // The statuses of nodes by id have changed.
    statuses(all) {
        this.painter.statuses = all;
        this.draw();
    }

    // What nodes used of the engine, by id.
    heat(found) {
        this.painter.heat = found;
        this.draw();
    }

    select(id) {
        this.painter.selected = id;
        this.draw();
    }

    resized() {
        const { clientWidth: width, clientHeight: height } = this.canvas;
        const ratio = Math.min(devicePixelRatio, 2);
        const wasEmpty = !this.width;
        this.width = width;
        this.height = height;
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(height * ratio);
        this.painter.ratio = ratio;
        if (wasEmpty) this.fit();
        else this.paint();
    }

    fit() {
        if (!this.scene || !this.width) return;
        const { x, y, w, h } = bounds(this.scene);
        const scale = Math.min((this.width - 2 * MARGIN) / Math.max(w, 1), (this.height - 2 * MARGIN) / Math.max(h, 1), 1);
        this.view.scale = Math.max(scale, MIN);
        this.view.x = x + w / 2 - this.width / 2 / this.view.scale;
        this.view.y = y + h / 2 - this.height / 2 / this.view.scale;
        this.draw();
    }

    move(dx, dy) {
        this.view.x -= dx / this.view.scale;
        this.view.y -= dy / this.view.scale;
        this.draw();
    }

    // Around a point of the canvas; its middle if there is none.
    zoom(factor, x = this.width / 2, y = this.height / 2) {
        const scale = Math.min(Math.max(this.view.scale * factor, MIN), MAX);
        this.view.x += x / this.view.scale - x / scale;
        this.view.y += y / this.view.scale - y / scale;
        this.view.scale = scale;
        this.draw();
    }

    draw() {
        this.asked ??= requestAnimationFrame(() => {
            this.asked = null;
            if (!this.stopped) this.paint();
        });
    }

    paint() {
        if (!this.scene || !this.width) return;
        this.painter.paint(this.view, this.width, this.height);
        this.frames++;
    }

    listen() {
        const { canvas } = this;
        canvas.addEventListener('pointerdown', (event) => this.pressed(event));
        canvas.addEventListener('pointermove', (event) => this.dragged(event));
        for (const name of ['pointerup', 'pointercancel']) canvas.addEventListener(name, (event) => this.released(event));
        canvas.addEventListener('wheel', (event) => this.wheeled(event), { passive: false });
        canvas.addEventListener('keydown', (event) => this.key(event));
    }

    point(event) {
        const box = this.canvas.getBoundingClientRect();
        return { x: event.clientX - box.left, y: event.clientY - box.top };
    }

    pressed(event) {
        this.canvas.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, this.point(event));
        this.hasMoved = this.pointers.size > 1;
    }

    dragged(event) {
        const before = this.pointers.get(event.pointerId);
        if (!before) return;
        const now = this.point(event);
        this.pointers.set(event.pointerId, now);
        if (Math.hypot(now.x - before.x, now.y - before.y) > 2) this.hasMoved = true;
        if (this.pointers.size === 1) return this.move(now.x - before.x, now.y - before.y);
        const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
        const distance = (point) => Math.max(Math.hypot(point.x - other.x, point.y - other.y), 1);
        this.zoom(distance(now) / distance(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }

    released(event) {
        const point = this.pointers.get(event.pointerId);
        this.pointers.delete(event.pointerId);
        if (!point || this.hasMoved || event.type === 'pointercancel') return;
        const { x, y, scale } = this.view;
        this.choose(this.painter.at(x + point.x / scale, y + point.y / scale));
    }

    wheeled(event) {
        if (!this.wheel && !event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const { x, y } = this.point(event);
        if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 300), x, y);
        else this.move(-event.deltaX, -event.deltaY);
    }

    key(event) {
        const far = event.shiftKey ? 4 * STEP : STEP;
        const actions = {
            ArrowLeft: () => this.move(far, 0), ArrowRight: () => this.move(-far, 0),
            ArrowUp: () => this.move(0, far), ArrowDown: () => this.move(0, -far),
            '+': () => this.zoom(ZOOM), '=': () => this.zoom(ZOOM), '-': () => this.zoom(1 / ZOOM), 0: () => this.fit(),
        };
        if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        actions[event.key]();
    }
}
