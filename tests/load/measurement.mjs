// What the measurements against a bar begin with: `node SCRIPT FLOWGATE`, with the size of the flow set in NODES.

import path from 'node:path';

export const program = path.resolve(process.argv[2]);
export const NODES = Number(process.env.NODES ?? 10_000);

/** A gateway with one worker, whose log costs little. */
export const ONE_WORKER = `
server = { listen = ["127.0.0.1:0"], workers = 1 }
log = { format = "json", access = false }
`;
