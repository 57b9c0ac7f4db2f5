// Plays the cases of a file against a runtime and reports every difference from what they expect: check.mjs URL FILE [NAME], with
// the token in TOKEN. NAME: only cases whose name has this text in it. Ends with 1 if anything differs.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { Runtime, ordered, play } from './play.mjs';

const [url, file, name = ''] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(file, 'utf8'));
const runtime = await Runtime.reach(url, process.env.TOKEN);
await runtime.deploy([]);
for (const [title, given] of Object.entries(cases).filter(([title]) => title.includes(name))) {
    const seen = await play(runtime, given, given.expect.length).catch((error) => [error.message]);
    if (!isDeepStrictEqual(seen, ordered(given.expect, given))) {
        process.exitCode = 1;
        console.log(`✗ ${title}\n${difference(given.expect, seen)}`);
    }
}
runtime.close();

function difference(expected, seen) {
    const lines = [];
    for (let n = 0; n < Math.max(expected.length, seen.length); n++) {
        const [a, b] = [JSON.stringify(expected[n]), JSON.stringify(seen[n])];
        lines.push(a === b ? `    ${a}` : `  - ${a ?? 'nothing'}\n  + ${b ?? 'nothing'}`);
    }
    return lines.join('\n');
}
