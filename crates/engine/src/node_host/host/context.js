// A context store whose values are in the engine. Every call asks and waits, so that this process and the native nodes
// have one truth.
"use strict";
const { ask } = require("channel.js");
const { encode, decode } = require("values.js");

function question(frame, value) {
    const encoded = encode(value);
    const asked = { t: "context", ...frame, value: encoded.json, escaped: encoded.escaped };
    const { frame: answer, attachments } = ask(asked, encoded.attachments);
    if (answer.error !== undefined) throw new Error(answer.error);
    return decode(answer.value, attachments, answer.escaped);
}

// With a callback, errors go there; `callback(error, ...values)`.
function answered(callback, act) {
    if (typeof callback !== "function") return act();
    let results;
    try {
        results = [undefined].concat(act());
    } catch (error) {
        return callback(error);
    }
    return callback(...results);
}

// The store of this name, as Node-RED's context API wants one.
function store(name) {
    return {
        open: async () => {},
        close: async () => {},
        get(scope, key, callback) {
            const get = (key) => question({ act: "get", scope, key, store: name });
            return answered(callback, () => (Array.isArray(key) ? key.map(get) : callback ? [get(key)] : get(key)));
        },
        set(scope, key, value, callback) {
            const set = (key, value) => question({ act: "set", scope, key, store: name }, value);
            return answered(callback, () => {
                const keys = [].concat(key);
                const values = Array.isArray(key) && Array.isArray(value) ? value : [value];
                keys.forEach((key, index) => set(key, values[index]));
                return [];
            });
        },
        keys(scope, callback) {
            const keys = () => question({ act: "keys", scope, store: name });
            return answered(callback, () => (callback ? [keys()] : keys()));
        },
        // The engine forgets contexts by itself.
        delete: async () => {},
        clean: async () => {},
    };
}

// `contextStorage` of Node-RED's settings: these stores, the first one is the default.
function stores(names) {
    const settings = { default: names[0] };
    for (const name of names) settings[name] = { module: () => store(name) };
    return settings;
}

module.exports = { stores };
