// How a scenario runs: `scenario(async (stage) => { … })` is a whole script. It gets a stage on which any number of
// people open the editor, each with a browser context of their own. What it throws, and everything that went wrong
// in a browser and was not allowed, ends the script with exit code 1.
//
// From the environment: GATEWAY, its URL; PASSWORD, everybody's; BROWSER, where the browser of `browser.mjs` listens;
// SCREENSHOTS, a directory; SCENARIO, the name in front of the screenshots' names.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { chromium } from 'playwright-core';
import { Editor } from './editor.mjs';
import { Visitor } from './visitor.mjs';

const { GATEWAY, BROWSER, SCREENSHOTS, SCENARIO } = process.env;

// How long anything may take: long, because machines that run tests are busy.
const TIMEOUT = 30_000;

export async function scenario(play) {
    const browser = await chromium.connect(BROWSER);
    const stage = new Stage(browser);
    try {
        await play(stage);
        stage.complain();
    } catch (error) {
        console.log(error.stack ?? error);
        await stage.leaveEvidence();
        process.exitCode = 1;
    } finally {
        await browser.close();
        input?.close();
    }
}

class Stage {
    constructor(browser) {
        this.browser = browser;
        this.url = GATEWAY;
        this.people = [];
        this.pictures = 0;
    }

    // A user of the editor with a browser of their own, in which nothing is open yet.
    async user(name) {
        return this.#enter(Editor, name);
    }

    // The same of other pages.
    async visitor(name) {
        return this.#enter(Visitor, name);
    }

    async #enter(Kind, name) {
        const context = await this.browser.newContext({
            // The gateway's certificate is the self-signed one of its first start.
            ignoreHTTPSErrors: true,
            viewport: { width: 1280, height: 800 },
        });
        context.setDefaultTimeout(TIMEOUT);
        const person = new Kind(await context.newPage(), { name, url: this.url, see: (...a) => this.#see(...a) });
        this.people.push(person);
        return person;
    }

    // Keeps a screenshot of a user's page.
    async #see(page, what) {
        await page.waitForFunction(() => !window.jQuery || window.jQuery(':animated').length === 0);
        mkdirSync(SCREENSHOTS, { recursive: true });
        const number = String(++this.pictures).padStart(2, '0');
        const file = `${SCENARIO}-${number}-${what.replaceAll(/[^A-Za-z0-9]+/g, '-')}.png`;
        await page.screenshot({ path: join(SCREENSHOTS, file), animations: 'disabled' });
    }

    // Fails after an unexpected error in a browser.
    complain() {
        const troubles = this.people.flatMap((editor) => editor.troubles());
        if (troubles.length > 0) {
            throw new Error(`the browser has troubles:\n  ${troubles.join('\n  ')}`);
        }
    }

    async leaveEvidence() {
        for (const editor of this.people) {
            console.log(`${editor.name} has seen:\n  ${editor.log.join('\n  ')}`);
            await editor.see('when it failed').catch((error) => console.log(`no screenshot: ${error.message}`));
        }
    }
}

let input;

// Asks the test around us to do something, and waits until it is done.
export async function cue(what) {
    input ??= createInterface({ input: process.stdin });
    const done = new Promise((resolve) => input.once('line', resolve));
    process.stdout.write(`cue: ${what}\n`);
    await done;
}
