// The colours of node types, as Node-RED's own nodes have them, and which types have no input.

const COLOURS = {
    inject: '#a6bbcf', debug: '#87a980', complete: '#e49191', catch: '#e49191', status: '#94c1d0',
    'link in': '#dddddd', 'link out': '#dddddd', 'link call': '#dddddd', comment: '#ffffff', junction: '#d9d9d9',
    function: '#fdd0a2', switch: '#e2d96e', change: '#e2d96e', range: '#e2d96e', template: '#f3b567',
    delay: '#e6e0f8', trigger: '#e6e0f8', exec: '#e9967a', rbe: '#e2d96e',
    'mqtt in': '#d8bfd8', 'mqtt out': '#d8bfd8', 'http in': '#e7e7ae', 'http response': '#e7e7ae', 'http request': '#e7e7ae',
    'websocket in': '#d7d7a0', 'websocket out': '#d7d7a0', 'tcp in': '#c0c0c0', 'tcp out': '#c0c0c0', 'tcp request': '#c0c0c0',
    'udp in': '#c0c0c0', 'udp out': '#c0c0c0', split: '#e2d96e', join: '#e2d96e', sort: '#e2d96e', batch: '#e2d96e',
    csv: '#debd5c', html: '#debd5c', json: '#debd5c', xml: '#debd5c', yaml: '#debd5c',
    file: '#deb887', 'file in': '#deb887', watch: '#deb887',
};

const SUBFLOW = '#ddaa99';
const OTHERS = ['#c7d8c2', '#cdd7ea', '#ead4c4', '#e0cfe3', '#d5dcc0', '#c9dedd'];

// Types of the core that take no messages.
const SOURCES = new Set(['inject', 'complete', 'catch', 'status', 'link in', 'comment', 'mqtt in', 'http in', 'websocket in',
    'tcp in', 'udp in', 'watch']);

// The colour of a type; one that is not of the core always has the same.
export function colour(type) {
    if (Object.hasOwn(COLOURS, type)) return COLOURS[type];
    if (type.startsWith('subflow:')) return SUBFLOW;
    let sum = 0;
    for (const letter of type) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
    return OTHERS[sum % OTHERS.length];
}

export function hasInput(type) {
    return !SOURCES.has(type);
}
