// What a peer hears: it is kept until a step asks for it, so that it does not matter in which pieces it came.

const PATIENCE = 8_000;

export const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Until something is so. */
export async function patiently(ask, what) {
    const end = Date.now() + PATIENCE;
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

export class Heard {
    constructor({ name, seen }) {
        this.name = name;
        this.seen = seen;
        this.heard = Buffer.alloc(0);
        this.connections = 0;
        this.ended = 0;
    }

    hear(data) {
        this.heard = Buffer.concat([this.heard, data]);
    }

    tell(what) {
        this.seen.push({ [this.name]: what });
    }

    /** Waits for a text (or bytes) and shows all that was heard up to then. */
    async until(data) {
        const wanted = bytes(data);
        await patiently(() => this.heard.includes(wanted), `${this.name} hears ${JSON.stringify(data)}, not ${this.heard}`).catch((error) =>
            this.tell({ late: error.message }),
        );
        this.tell(inText(this.heard));
        this.heard = Buffer.alloc(0);
    }

    /** Waits until so many connections have been made to this peer in all. */
    async connected(count) {
        await patiently(() => this.connections >= count, `${count} connections to ${this.name}`);
    }

    /** Waits until so many connections have ended. */
    async closed(count) {
        await patiently(() => this.ended >= count, `${count} connections to ${this.name} end`);
        this.tell({ ended: this.ended });
    }
}
