// A curve of an hour: the values of samples over their times, from 0.

import { h, svg } from './dom.js';
import { clock, t } from './text.js';

const WIDTH = 300;
const HEIGHT = 56;
// The hour that the gateway keeps, in seconds.
const HOUR = 3600;
// After a start the curve is of a shorter time, in seconds.
const SHORTEST = 300;

// `series` has one list of values or several in the same measure; `null` is a gap. `unit` writes a value.
export function chart(times, series, { label, unit }) {
    const end = times.at(-1) ?? 0;
    const highest = Math.max(...series.flat().map((value) => value ?? 0), 0);
    const span = Math.min(Math.max(end - (times[0] ?? end), SHORTEST), HOUR);
    const x = (at) => WIDTH - ((end - times[at]) / span) * WIDTH;
    const y = (value) => HEIGHT - 2 - (highest > 0 ? value / highest : 0) * (HEIGHT - 6);
    const point = (at, value) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`;
    const curves = series.map((values, which) => pieces(values).map((piece) => svg('polyline', {
        class: which === 0 ? 'curve' : 'curve second', points: piece.map(([at, value]) => point(at, value)).join(' ') })));
    const areas = pieces(series[0] ?? []).map((piece) => svg('polygon', { class: 'area',
        points: `${x(piece[0][0]).toFixed(1)},${HEIGHT} ${piece.map(([at, value]) => point(at, value)).join(' ')} ${x(piece.at(-1)[0]).toFixed(1)},${HEIGHT}` }));
    const said = times.length > 0 ? t('now.chart', { label, most: unit(highest), from: clock(times[0] * 1000), to: clock(end * 1000) }) : label;
    const drawn = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': said }, areas, curves);
    return h('div', null, drawn, h('div', { class: 'row between small muted', 'aria-hidden': 'true' },
        h('span', null, times.length > 0 ? clock((end - span) * 1000) : ''), h('span', null, times.length > 0 ? t('now.most', { most: unit(highest) }) : '')));
}

// The stretches without gaps, as `[index, value]`.
function pieces(values) {
    const found = [];
    let piece = null;
    values.forEach((value, at) => {
        if (value === null) {
            piece = null;
            return;
        }
        if (!piece) found.push(piece = []);
        piece.push([at, value]);
    });
    return found;
}
