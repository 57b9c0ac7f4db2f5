// How a scenario of the console runs: `scenario(async (stage) => { … })` is a whole script. What it throws, every error in
// a browser that was not allowed, every request to another origin, and every finding of axe-core of weight end it with 1.
//
// From the environment: as for `tests/editor/scenario.mjs`.

import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { chromium } from 'playwright-core';

const { GATEWAY, BROWSER, SCREENSHOTS, SCENARIO, PASSWORD } = process.env;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// How long anything may take: long, because machines that run tests are busy.
const TIMEOUT = 30_000;

export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

let pictures = 0;
let input;

export async function scenario(play) {
    const browser = await chromium.connect(BROWSER);
    const people = [];
    const user = async (options) => {
        const person = await Person.in(browser, options);
        people.push(person);
        return person;
    };
    try {
        await play(user);
        const troubles = people.flatMap((one) => one.troubles());
        assert.equal(troubles.length, 0, `the browser has troubles:\n  ${troubles.join('\n  ')}`);
    } catch (error) {
        console.log(error.stack ?? error);
        for (const one of people) {
            console.log(one.log.join('\n'));
            await one.see('when it failed').catch(() => {});
        }
        process.exitCode = 1;
    } finally {
        await browser.close();
        input?.close();
    }
}

// Asks the test around us to do something, and waits until it is done.
export async function cue(what) {
    input ??= createInterface({ input: process.stdin });
    const done = new Promise((resolve) => input.once('line', resolve));
    process.stdout.write(`cue: ${what}\n`);
    await done;
}

class Person {
    #allowed = [];
    #troubles = [];
    log = [];
    clicks = 0;

    static async in(browser, options) {
        const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, locale: 'en-GB', reducedMotion: 'reduce', ...options });
        context.setDefaultTimeout(TIMEOUT);
        const person = new Person();
        person.page = await context.newPage();
        person.url = `${GATEWAY}gateway/`;
        person.#listen();
        return person;
    }

    #listen() {
        const trouble = (line) => { this.log.push(line); this.#troubles.push(line); };
        this.page.on('request', (request) => {
            if (!request.url().startsWith(GATEWAY)) trouble(`a request to another origin: ${request.url()}`);
            if (/token|access/i.test(new URL(request.url()).search)) trouble(`a token in an address: ${request.url()}`);
        });
        this.page.on('response', (response) => {
            const line = `${response.status()} ${response.request().method()} ${response.url()}`;
            response.status() >= 400 ? trouble(line) : this.log.push(line);
        });
        this.page.on('pageerror', (error) => trouble(`page error: ${error.stack ?? error}`));
        this.page.on('dialog', (dialog) => { trouble(`a script of others runs: ${dialog.message()}`); dialog.dismiss(); });
        this.page.on('console', (message) => {
            const line = `console ${message.type()}: ${message.text()} (${message.location().url})`;
            ['error', 'warning'].includes(message.type()) ? trouble(line) : this.log.push(line);
        });
    }

    allow(...patterns) {
        this.#allowed.push(...patterns);
    }

    troubles() {
        return this.#troubles.filter((line) => !this.#allowed.some((pattern) => pattern.test(line)));
    }

    async open(hash = '') {
        await this.page.goto(this.url + hash);
    }

    async enter(user, password = PASSWORD, code = '') {
        await this.page.fill('input[name=username]', user);
        await this.page.fill('input[name=password]', password);
        await this.page.fill('input[name=code]', code);
        await this.page.keyboard.press('Enter');
    }

    async signIn(user, code) {
        await this.enter(user, PASSWORD, code);
        await this.page.locator('.bar').waitFor();
    }

    async openAndSignIn(user, hash = '') {
        await this.open(hash);
        await this.signIn(user);
    }

    button(name) {
        return this.page.getByRole('button', { name, exact: true });
    }

    // A click that counts.
    async click(locator) {
        this.clicks++;
        await locator.click();
    }

    async see(what) {
        mkdirSync(SCREENSHOTS, { recursive: true });
        const number = String(++pictures).padStart(2, '0');
        const file = `${SCENARIO}-${number}-${what.replaceAll(/[^A-Za-z0-9]+/g, '-')}.png`;
        await this.page.screenshot({ path: join(SCREENSHOTS, file), animations: 'disabled' });
    }

    // Keeps a screenshot, and asks axe-core what is hard to use without eyes or a mouse.
    async seeAndCheck(what) {
        await this.see(what);
        // A page that is wider than the screen hides its navigation on a phone.
        const width = await this.page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(width[0] <= width[1], `${what}: the page is ${width[0]} pixels wide, the screen ${width[1]}`);
        await this.page.evaluate(AXE);
        const found = await this.page.evaluate(async () => (await window.axe.run()).violations);
        const heavy = found.filter(({ impact }) => ['serious', 'critical'].includes(impact));
        const shown = heavy.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join('\n    ')}`);
        assert.equal(heavy.length, 0, `${what}:\n  ${shown.join('\n  ')}`);
    }
}
