// The statuses of nodes, from the channel that editors use (`/comms`). The token is in the first frame, never in the
// address.

import { url } from './api.js';
import * as session from './session.js';

// Until the next try after a lost connection, in milliseconds: doubled each time up to the most.
const FIRST_DELAY = 1000;
const LONGEST_DELAY = 60_000;
// Nodes whose statuses are kept. Our choice: a flow set that shows more at a time shows the newest.
const MAX_KEPT = 20_000;

const DEPLOYED = 'notification/runtime-deploy';
const TOPICS = ['status/#', 'notification/#'];

export class Statuses {
    // Calls `changed` with all statuses by the id of the node, at most once a frame, and `deployed` with the revision of each
    // deployment.
    constructor(changed, deployed) {
        this.deployed = deployed;
        this.all = new Map();
        this.changed = changed;
        this.delay = FIRST_DELAY;
        this.open();
    }

    of(id) {
        return this.all.get(id);
    }

    stop() {
        this.stopped = true;
        clearTimeout(this.timer);
        const { socket } = this;
        // Browsers complain of one that is closed before it is open.
        if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
        else socket?.close();
    }

    open() {
        const address = url('comms');
        address.protocol = address.protocol.replace('http', 'ws');
        const socket = new WebSocket(address);
        this.socket = socket;
        const token = session.token();
        const subscribe = () => TOPICS.forEach((topic) => socket.send(JSON.stringify({ subscribe: topic })));
        socket.onopen = () => (token ? socket.send(JSON.stringify({ auth: token })) : subscribe());
        socket.onmessage = ({ data }) => this.take(JSON.parse(data), subscribe);
        socket.onclose = () => this.again();
    }

    take(message, subscribe) {
        if (!Array.isArray(message)) {
            if (message.auth === 'ok') subscribe();
            this.isRefused = message.auth === 'fail';
            return;
        }
        this.delay = FIRST_DELAY;
        for (const { topic, data } of message) {
            if (topic === DEPLOYED && data?.revision) this.deployed(data.revision);
            if (!topic?.startsWith('status/')) continue;
            const id = topic.slice('status/'.length);
            this.all.delete(id);
            if (data && Object.keys(data).length > 0) this.all.set(id, data);
            if (this.all.size > MAX_KEPT) this.all.delete(this.all.keys().next().value);
        }
        this.asked ??= requestAnimationFrame(() => {
            this.asked = null;
            if (!this.stopped) this.changed(this.all);
        });
    }

    again() {
        if (this.stopped || this.isRefused) return;
        this.timer = setTimeout(() => this.open(), this.delay);
        this.delay = Math.min(this.delay * 2, LONGEST_DELAY);
    }
}
