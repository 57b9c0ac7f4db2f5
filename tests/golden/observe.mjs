// Plays the cases of files against a real Node-RED and writes what was seen into them. `--dry` shows it instead;
// `--new` plays only cases that have no `expect`. `--packages=DIRECTORY`: this Node-RED has the packages of its node_modules.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { Runtime, play } from './play.mjs';
import { format } from './format.mjs';

const dry = process.argv.includes('--dry');
const fresh = process.argv.includes('--new');
const packages = process.argv.map((argument) => argument.match(/^--packages=(.*)/)?.[1]).find(Boolean);
const files = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const port = 20_000 + (process.pid % 10_000);
const directory = mkdtempSync(join(tmpdir(), 'observe-'));
writeFileSync(
    join(directory, 'settings.js'),
    `module.exports = { uiHost: '127.0.0.1', uiPort: ${port}, logging: { console: { level: 'off' } }, telemetry: { enabled: false } };`,
);
if (packages) {
    symlinkSync(resolve(packages, 'node_modules'), join(directory, 'node_modules'));
}
const red = join(dirname(createRequire(import.meta.url).resolve('node-red/package.json')), 'red.js');
const child = spawn('node', [red, '-u', directory, '-s', join(directory, 'settings.js')], { cwd: directory, stdio: 'inherit' });
try {
    const runtime = await reached(`http://127.0.0.1:${port}/`);
    await runtime.deploy([]);
    for (const file of files) {
        const cases = JSON.parse(readFileSync(file, 'utf8'));
        for (const [name, given] of Object.entries(cases)) {
            if (!given.known_difference && !(fresh && given.expect) && name.includes(process.env.CASE ?? '')) {
                given.expect = await play(runtime, given).catch((error) => {
                    console.error(`${file}: ${name}: ${error.message}`);
                    return [];
                });
            }
        }
        dry ? console.log(format(cases)) : writeFileSync(file, format(cases));
    }
    runtime.close();
} finally {
    child.kill();
    child.on('exit', () => rmSync(directory, { recursive: true, force: true }));
}

async function reached(url) {
    for (let tries = 0; ; tries++) {
        try {
            return await Runtime.reach(url);
        } catch (error) {
            if (tries > 200) {
                throw error;
            }
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
    }
}
