// What a peer receives: it is kept until a step asks for it, so that it does not matter in which pieces it came.

const TIMEOUT = 8_000;

export const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Until something is so. */
export async function waitFor(ask, what) {
    const end = Date.now() + TIMEOUT;
    while (!(await ask())) {
        if (Date.now() > end) {
            throw new Error(`too late: ${what}`);
        }
        await sleep(5);
    }
}

/** The bytes that a case means: a text, or `{"base64": text}`. */
export function bytes(data) {
    return typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.base64, 'base64');
}

/** Bytes as a case shows them. */
export function inText(data) {
    const text = data.toString('utf8');
    return Buffer.from(text).equals(data) ? text : { base64: data.toString('base64') };
}

export class Peer {
    constructor({ name, seen }) {
        this.name = name;
        this.seen = seen;
        this.received = Buffer.alloc(0);
        this.connections = 0;
        this.ended = 0;
    }

    receive(data) {
        this.received = Buffer.concat([this.received, data]);
    }

    show(what) {
        this.seen.push({ [this.name]: what });
    }

    /** Waits for a text (or bytes) and shows all that was received until then. */
    async until(data) {
        const wanted = bytes(data);
        await waitFor(() => this.received.includes(wanted), `${this.name} receives ${JSON.stringify(data)}, not ${this.received}`).catch((error) =>
            this.show({ late: error.message }),
        );
        this.show(inText(this.received));
        this.received = Buffer.alloc(0);
    }

    /** Waits until this number of connections have been made to this peer in all. */
    async connected(count) {
        await waitFor(() => this.connections >= count, `${count} connections to ${this.name}`);
    }

    /** Waits until this number of connections have ended. */
    async closed(count) {
        await waitFor(() => this.ended >= count, `${count} connections to ${this.name} end`);
        this.show({ ended: this.ended });
    }
}
