// Draws figures as bars relative to one peer, as an SVG that is readable on light and dark pages.

const COLOURS = { flowgate: '#d9480f', nginx: '#2b8a3e', HAProxy: '#1864ab', 'Node-RED': '#8f0000' };
const [LEFT, WIDTH, BAR, GAP] = [270, 800, 14, 16];

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** `figures` as for a table; a bar is a value divided by that of `one`. */
export function chart(title, figures, one) {
    const peers = Object.keys(figures[0].values);
    const relative = figures.map(({ what, values }) => ({ what, bars: peers.map((peer) => [peer, values[peer] / values[one]]) }));
    const most = Math.max(...relative.flatMap(({ bars }) => bars.map(([, size]) => size)));
    const scale = (WIDTH - LEFT - 70) / most;
    const group = peers.length * BAR + GAP;
    const height = 70 + group * relative.length;
    const text = (x, y, content, more = '') => `<text x="${x}" y="${y}" ${more}>${escape(content)}</text>`;
    const legend = peers.map((peer, at) =>
        `<rect x="${LEFT + at * 110}" y="34" width="12" height="12" fill="${COLOURS[peer]}"/>${text(LEFT + at * 110 + 18, 45, peer)}`);
    const rows = relative.flatMap(({ what, bars }, row) => {
        const top = 64 + row * group;
        return [
            text(LEFT - 10, top + (bars.length * BAR) / 2 + 4, what, 'text-anchor="end"'),
            ...bars.map(([peer, size], at) => {
                const y = top + at * BAR;
                const length = Math.max(1, size * scale).toFixed(1);
                return `<rect x="${LEFT}" y="${y}" width="${length}" height="${BAR - 2}" fill="${COLOURS[peer]}"/>`
                    + text(LEFT + Number(length) + 6, y + 10, size.toFixed(size < 0.1 ? 3 : 2), 'font-size="10"');
            }),
        ];
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}"`
        + ` font-family="system-ui, sans-serif" font-size="12" fill="#777" role="img" aria-label="${escape(title)}">\n`
        + [text(10, 20, title, 'font-size="14"'), ...legend, ...rows].join('\n') + '\n</svg>\n';
}
