// Plays the cases of a file against a runtime and reports every difference from what they expect: check.mjs URL FILE [NAME], with
// the token in TOKEN. NAME: only cases whose name has this text in it. Ends with 1 if anything differs.
//
// Many cases are about times. A play during which the machine was late says nothing about the runtime: what differs in it
// is played again, some times.

import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import { Runtime, ordered, play } from './play.mjs';

/** A timer of 5 ms that takes more milliseconds than this is late; the shortest times that cases tell apart are 50 ms. */
const LATE = 20;

/** How often a case is played. */
const PLAYS = 6;

const [url, file, name = ''] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(file, 'utf8'));
const timer = monitorEventLoopDelay({ resolution: 5 });
timer.enable();
const runtime = await Runtime.reach(url, process.env.TOKEN);
await runtime.deploy([]);
for (const [title, given] of Object.entries(cases).filter(([title]) => title.includes(name))) {
    const differs = await differenceOf(given);
    if (differs) {
        process.exitCode = 1;
        console.log(`✗ ${title}\n${differs}`);
    }
}
runtime.close();

/** What differs from what the case expects; undefined: nothing. */
async function differenceOf(given) {
    for (let plays = 1; ; plays++) {
        timer.reset();
        const seen = await play(runtime, given, given.expect.length).catch((error) => [error.message]);
        if (isDeepStrictEqual(seen, ordered(given.expect, given))) {
            return undefined;
        }
        const took = Math.round(timer.max / 1e6);
        if (took <= LATE || plays === PLAYS) {
            return `${difference(given.expect, seen)}\n  a timer of 5 ms took ${took} ms at most`;
        }
        console.log(`played again, because a timer of 5 ms took ${took} ms: ${difference(given.expect, seen)}`);
    }
}

function difference(expected, seen) {
    const lines = [];
    for (let n = 0; n < Math.max(expected.length, seen.length); n++) {
        const [a, b] = [JSON.stringify(expected[n]), JSON.stringify(seen[n])];
        lines.push(a === b ? `    ${a}` : `  - ${a ?? 'nothing'}\n  + ${b ?? 'nothing'}`);
    }
    return lines.join('\n');
}
