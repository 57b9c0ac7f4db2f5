// Plays the cases of a file against a runtime and says where something else is seen: check.mjs URL FILE [NAME], with
// the token in TOKEN. NAME: only cases whose name has this text in it. Ends with 1 if anything differs.

import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { Runtime, play } from './play.mjs';

const [url, file, name = ''] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(file, 'utf8'));
const runtime = await Runtime.reach(url, process.env.TOKEN);
await runtime.deploy([]);
for (const [title, given] of Object.entries(cases).filter(([title]) => title.includes(name))) {
    const seen = await play(runtime, given, given.seen.length).catch((error) => [error.message]);
    if (!isDeepStrictEqual(seen, given.seen)) {
        process.exitCode = 1;
        console.log(`✗ ${title}\n${difference(given.seen, seen)}`);
    }
}
runtime.close();

function difference(wanted, seen) {
    const lines = [];
    for (let n = 0; n < Math.max(wanted.length, seen.length); n++) {
        const [a, b] = [JSON.stringify(wanted[n]), JSON.stringify(seen[n])];
        lines.push(a === b ? `    ${a}` : `  - ${a ?? 'nothing'}\n  + ${b ?? 'nothing'}`);
    }
    return lines.join('\n');
}
