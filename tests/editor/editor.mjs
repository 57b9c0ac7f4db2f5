// The stock editor as a user uses it: their actions, in their words, and what the page then shows.
//
// Works on the editor's page by looking, clicking and typing, and asks the page's own objects only for what cannot be
// seen. It never sleeps: it waits for what it claims.

import assert from 'node:assert/strict';

// What a browser complains about in front of a bare Node-RED as well.
const USUAL = [
    // The catalogue of nodes to install is on another host, and there is no network.
    /catalogue\.nodered\.org/,
    // Monaco, when its dialog is closed soon.
    /TextModelPart is disposed/,
    // A request that the page itself has given up, as for the icon that another replaces.
    /ERR_ABORTED/,
];

export class Editor {
    #allowed = [...USUAL];
    #troubles = [];
    #tabChosen = 0;
    #batches = 0;

    constructor(page, { name, url, see }) {
        this.page = page;
        this.name = name;
        this.url = url;
        // Every request, console line and WebSocket of the page, for when something fails.
        this.log = [];
        this.see = (what) => see(page, `${name} ${what}`);
        this.#listen();
    }

    #listen() {
        const trouble = (line) => {
            this.log.push(line);
            this.#troubles.push(line);
        };
        this.page.on('response', (response) => {
            const line = `${response.status()} ${response.request().method()} ${response.url()}`;
            response.status() >= 400 ? trouble(line) : this.log.push(line);
        });
        this.page.on('requestfailed', (request) => trouble(`${request.failure()?.errorText} ${request.url()}`));
        this.page.on('pageerror', (error) => trouble(`page error: ${error.stack ?? error}`));
        this.page.on('websocket', (socket) => {
            this.log.push(`websocket ${socket.url()}`);
            socket.on('framereceived', ({ payload }) => (this.#batches += String(payload).startsWith('[')));
            socket.on('close', () => this.log.push('websocket closed'));
            socket.on('socketerror', (error) => this.log.push(`websocket error: ${error}`));
        });
        this.page.on('console', (message) => {
            const line = `console ${message.type()}: ${message.text()} (${message.location().url})`;
            message.type() === 'error' ? trouble(line) : this.log.push(line);
        });
    }

    // What went wrong although nothing allowed it.
    troubles() {
        const unexpected = this.#troubles.filter((line) => !this.#allowed.some((pattern) => pattern.test(line)));
        return unexpected.map((line) => `${this.name}: ${line}`);
    }

    // From now on such troubles are part of the scenario.
    allow(...patterns) {
        this.#allowed.push(...patterns);
    }

    // --- coming and going ---

    // Opens the editor; it shows the login dialog, because `GET /settings` is 401.
    async open() {
        this.allow(/\b401\b.*\/settings\?/);
        await this.page.goto(this.url);
        await this.loginDialog().waitFor();
    }

    loginDialog() {
        return this.page.locator('#node-dialog-login-fields');
    }

    async enter(user, password = process.env.PASSWORD) {
        await this.page.fill('#node-dialog-login-username', user);
        await this.page.fill('#node-dialog-login-password', password);
        await this.page.click('#node-dialog-login-submit');
    }

    async signIn(user) {
        await this.enter(user);
        await this.ready();
    }

    async openAndSignIn(user) {
        await this.open();
        await this.signIn(user);
    }

    // Signs in at the dialog of an ended session, and waits until events arrive on the new channel: it opens only after
    // the dialog has closed, and what happens before that is not shown.
    async signInAgain(user) {
        const before = this.#batches;
        await this.enter(user);
        await this.loginDialog().waitFor({ state: 'detached' });
        for (const end = Date.now() + 30_000; this.#batches === before; await this.page.waitForTimeout(20)) {
            assert(Date.now() < end, 'no events arrive on the new channel');
        }
    }

    async reload() {
        await this.page.reload();
        await this.ready();
    }

    // Everything is loaded and the runtime's messages arrive: until then inject buttons cannot be pressed.
    async ready() {
        await this.page.waitForFunction(() => window.RED?.runtime?.started === true);
        await this.page.locator('#red-ui-loading-progress').waitFor({ state: 'hidden' });
    }

    async signOut() {
        await this.page.click('#red-ui-header-button-user');
        await Promise.all([this.page.waitForEvent('load'), this.page.click('#usermenu-item-logout')]);
        await this.loginDialog().waitFor();
    }

    // The token that the editor holds.
    async token() {
        const kept = await this.page.evaluate(() => localStorage.getItem('auth-tokens'));
        return JSON.parse(kept).access_token;
    }

    // --- flows ---

    // Imports a JSON text with the dialog of the menu.
    async importFlows(flows) {
        await this.menu('menu-item-import');
        await this.page.fill('#red-ui-clipboard-dialog-import-text', flows);
        // The dialog looks at the text when a key goes up.
        await this.page.press('#red-ui-clipboard-dialog-import-text', 'End');
        await this.page.click('#red-ui-clipboard-dialog-ok');
        await this.page.locator('#red-ui-clipboard-dialog').waitFor({ state: 'hidden' });
    }

    async showFlow(label) {
        await this.chooseTab(this.page.locator('#red-ui-workspace-tabs .red-ui-tab').filter({ hasText: label }));
    }

    // Clicks on a tab, of a dialog too. The editor takes two clicks on tabs within 400 ms for a double click, whichever
    // tabs they are: users are not that quick.
    async chooseTab(tab) {
        await this.page.waitForFunction((last) => Date.now() - last > 400, this.#tabChosen);
        await tab.click();
        this.#tabChosen = Date.now();
    }

    node(id) {
        return this.page.locator(`[id="${id}"].red-ui-flow-node-group`);
    }


    // Drags a node type from the palette to a place of the flow; gives the id of the new node.
    async drag(type, x, y) {
        const before = await this.ids();
        const entry = this.page.locator(`.red-ui-palette-node[data-palette-type="${type}"]`);
        await entry.scrollIntoViewIfNeeded();
        const from = await entry.boundingBox();
        const flow = await this.page.locator('#red-ui-workspace-chart').boundingBox();
        await this.#dragMouse([from.x + from.width / 2, from.y + from.height / 2], [flow.x + x, flow.y + y]);
        await this.page.waitForFunction((count) => window.RED.nodes.createCompleteNodeSet().length > count, before.length);
        return (await this.ids()).find((id) => !before.includes(id));
    }

    // The ids of all elements, deployed or not.
    async ids() {
        return this.page.evaluate(() => window.RED.nodes.createCompleteNodeSet().map((node) => node.id));
    }

    // Draws a wire from a node's output to another's input.
    async connect(from, to) {
        const wires = this.page.locator('.red-ui-flow-link-line');
        const before = await wires.count();
        const middle = async (id, port) => {
            const box = await this.node(id).locator(port).first().boundingBox();
            return [box.x + box.width / 2, box.y + box.height / 2];
        };
        await this.#dragMouse(await middle(from, '.red-ui-flow-port-output'), await middle(to, '.red-ui-flow-port-input'));
        await wires.nth(before).waitFor({ state: 'attached' });
    }

    async #dragMouse([x, y], [toX, toY]) {
        const { mouse } = this.page;
        await mouse.move(x, y);
        await mouse.down();
        await mouse.move((x + toX) / 2, (y + toY) / 2, { steps: 5 });
        await mouse.move(toX, toY, { steps: 5 });
        await mouse.up();
    }

    // Selects nodes as with the mouse and the Ctrl key.
    async select(...ids) {
        await this.page.evaluate((wanted) => {
            const nodes = wanted.map((id) => window.RED.nodes.node(id));
            window.RED.view.select({ nodes });
        }, ids);
    }

    // Opens a node's dialog, calls `change` with the page, and closes it.
    async edit(id, change, button = 'Done') {
        await this.openDialog(id);
        await change(this.page);
        await this.closeDialog(button);
    }

    // Gives a node another name, in its dialog.
    async rename(id, name) {
        await this.openDialog(id);
        await this.page.fill('#node-input-name', name);
        await this.closeDialog('Done');
        await this.node(id).getByText(name).waitFor();
    }

    // Writes other code into a function node, in the code editor of its dialog.
    async program(id, code) {
        await this.openDialog(id);
        await this.page.locator('.red-ui-tray .monaco-editor .view-lines').filter({ visible: true }).click();
        await this.page.keyboard.press('Control+A');
        await this.page.keyboard.insertText(code);
        await this.closeDialog('Done');
    }

    deployButton() {
        return this.page.locator('#red-ui-header-button-deploy');
    }

    async canDeploy() {
        return !(await this.deployButton().getAttribute('class')).includes('disabled');
    }

    // Chooses how to deploy: `full`, `flow` or `node`.
    async chooseDeployment(type) {
        await this.page.click('#red-ui-header-button-deploy-options');
        await this.page.click(`#deploymenu-item-${type}`);
    }

    // Presses the button; gives the request's deployment type and the answer's status.
    async deploy() {
        return this.#deployment(() => this.deployButton().click());
    }

    async restartFlows() {
        return this.#deployment(() => this.chooseDeployment('reload'));
    }

    // The same for the button of a question.
    async pressAndDeploy(label) {
        return this.#deployment(() => this.press(label));
    }

    async #deployment(start) {
        const post = (response) => response.url() === `${this.url}flows` && response.request().method() === 'POST';
        const [response] = await Promise.all([this.page.waitForResponse(post), start()]);
        // Nothing else is deployed as long as the header has its shade: 300 ms at least.
        await this.page.locator('#red-ui-header-shade').waitFor({ state: 'hidden' });
        const type = response.request().headers()['node-red-deployment-type'];
        return { type, status: response.status() };
    }

    // Deploys in one of the ways and sees that it worked.
    async deployAs(type) {
        await this.chooseDeployment(type);
        const sent = await this.deploy();
        assert.equal(sent.status, 200);
        await this.notice('Successfully deployed');
        assert.equal(await this.canDeploy(), false);
        return sent.type;
    }

    // Presses the button of an inject node; again if it is not found: Node-RED answers a deployment before its nodes have started.
    async inject(id) {
        const answered = (response) => response.url() === `${this.url}inject/${id}`;
        for (let status = 404, presses = 0; status === 404; presses++) {
            assert.ok(presses < 100, `${id} does not start`);
            const button = this.node(id).locator('.red-ui-flow-node-button-button');
            const [response] = await Promise.all([this.page.waitForResponse(answered), button.click()]);
            status = response.status();
        }
    }

    // Waits until a node shows a status.
    async status(id, text) {
        await this.node(id).locator('.red-ui-flow-node-status-label').getByText(text, { exact: true }).waitFor();
    }

    // --- around the flows ---

    async menu(item) {
        await this.page.click('#red-ui-header-button-sidemenu');
        await this.page.click(`#${item}`);
    }

    // Changes a setting of the view, which is there again when the page is loaded anew.
    async changesTheGrid() {
        await this.menu('menu-item-user-settings');
        await this.dialogOpens();
        await this.page.fill('#user-settings-view-grid-size', '40');
        const [saved] = await Promise.all([
            this.page.waitForResponse((response) => response.request().postData()?.includes('"view-grid-size":"40"')),
            this.closeDialog('Close'),
        ]);
        assert.equal(saved.url(), `${this.url}settings/user`);
        assert.equal(saved.status(), 204);
        await this.reload();
        const view = await this.page.evaluate(() => window.RED.settings.get('editor').view);
        assert.equal(view['view-grid-size'], '40');
    }

    // Opens a node's dialog. A busy editor may take a double click for two: then it is made again.
    async openDialog(id) {
        await this.node(id).dblclick();
        await this.page.locator('.red-ui-tray').waitFor({ timeout: 5_000 }).catch(() => this.node(id).dblclick());
        await this.dialogOpens();
    }

    // A dialog that slides in from the right has the focus when it is there.
    async dialogOpens() {
        await this.page.waitForFunction(() => document.activeElement?.closest('.red-ui-tray'));
    }

    async closeDialog(button) {
        await this.page.locator('.red-ui-tray-toolbar').getByText(button, { exact: true }).click();
        await this.page.locator('.red-ui-tray').waitFor({ state: 'detached' });
    }

    // Runs one of the editor's actions, as the action list does.
    async act(action) {
        await this.page.evaluate((name) => window.RED.actions.invoke(name), action);
    }

    // Waits until the debug sidebar shows a text for the first, second, … time.
    async debugMessage(text, time = 1) {
        await this.page.locator('.red-ui-debug-msg-payload').getByText(text).nth(time - 1).waitFor();
    }

    // Waits until a notice or a question says something.
    async notice(text) {
        await this.page.locator('.red-ui-notification').getByText(text).filter({ visible: true }).last().waitFor();
    }

    // Closes the notices that a click closes; they may still be sliding in.
    async closeNotices() {
        const notices = this.page.locator('.red-ui-notification');
        await notices.evaluateAll((shown) => shown.forEach((notice) => notice.click()));
        await this.noNotices();
    }

    // Waits until no notice lies over the flow any more.
    async noNotices() {
        await this.page.locator('.red-ui-notification').filter({ visible: true }).first().waitFor({ state: 'hidden' });
    }

    // Answers a question.
    async press(label) {
        await this.page.locator('.red-ui-notification button:not(.disabled)').filter({ hasText: label }).last().click();
    }
}
