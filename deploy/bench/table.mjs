// A Markdown table of figures: a row each, a column for each peer.

/** `figures`: `{ what, unit, values: { peer: number } }`, all with the same peers. */
export function table(figures) {
    const peers = Object.keys(figures[0].values);
    const row = (cells) => `| ${cells.join(' | ')} |`;
    return [
        row(['', ...peers]),
        row(['---', ...peers.map(() => '---:')]),
        ...figures.map(({ what, unit, values }) => row([what, ...peers.map((peer) => `${short(values[peer])} ${unit}`)])),
    ].join('\n');
}

/** Three significant digits. */
function short(value) {
    return value >= 100 ? Math.round(value).toLocaleString('en') : Number(value.toPrecision(3));
}
