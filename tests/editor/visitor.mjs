// A user of the pages that packages and flows serve.

export class Visitor {
    #troubles = [];

    constructor(page, { name, see }) {
        this.page = page;
        this.name = name;
        this.log = [];
        this.see = (what) => see(page, `${name} ${what}`);
        page.on('console', (message) => this.log.push(`console ${message.type()}: ${message.text()}`));
        page.on('response', (response) => this.log.push(`${response.status()} ${response.url()}`));
        page.on('pageerror', (error) => {
            // Chromium registers no service worker of a site whose certificate it does not trust.
            if (!/service ?worker/i.test(String(error))) this.#troubles.push(`${name}: page error: ${error.stack ?? error}`);
        });
    }

    // What went wrong.
    troubles() {
        return this.#troubles;
    }
}
