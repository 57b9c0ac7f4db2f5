// Values on their way to the engine and back. JSON carries what it can; an object with the key "$" stands for the rest:
//
//   {"$": "undefined"}, {"$": "number", "value": "NaN" | "Infinity" | "-Infinity" | "-0"},
//   {"$": "date", "value": milliseconds or null}, {"$": "regexp", "source", "flags"},
//   {"$": "error", "name", "message", "stack"?, "code"?, "cause"?}, {"$": "buffer", "at", "length"} in the attachments,
//   {"$": "object", "entries": [[key, value] …]}: an object that has a key "$" itself,
//   {"$": "host", "id"}: a value that stays here, {"$": "engine", "id"}: one that stays in the engine.
//
// Instances of classes are copied by their own enumerable properties, or by their toJSON.
"use strict";
const { EventEmitter } = require("node:events");
const { types } = require("node:util");

// Levels of nesting, at most; the engine refuses messages of fewer.
const MAX_DEPTH = 1000;
// Elements of an array, at most: a sparse one would become that large.
const MAX_LENGTH = 10_000_000;

// Values that the engine holds references to, by number, with the number of references.
const held = new Map();
const numbers = new Map();
let nextNumber = 1;

function hold(value) {
    let number = numbers.get(value);
    if (number === undefined) {
        number = nextNumber++;
        numbers.set(value, number);
        held.set(number, { value, references: 0 });
    }
    held.get(number).references += 1;
    return number;
}

// The engine has dropped one reference to each of these.
function release(ids) {
    for (const id of ids) {
        const entry = held.get(id);
        if (entry && --entry.references === 0) {
            held.delete(id);
            numbers.delete(entry.value);
        }
    }
}

// A value that stays in the engine, such as `msg.res` of an http in node. Copies share `token`, because functions are
// not cloned; the engine releases the value when no copy is left.
class EngineValue {
    constructor(id) {
        this.token = () => id;
    }
}

let dropped = [];
const registry = new FinalizationRegistry((id) => dropped.push(id));

// The values of the engine that nothing here refers to any more, since the last call.
function unused() {
    const ids = dropped;
    dropped = [];
    return ids;
}

function set(object, key, value) {
    if (key === "__proto__") {
        Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
    } else {
        object[key] = value;
    }
}

class Encoder {
    attachments = [];
    attached = 0;
    escaped = false;
    path = [];
    open = new Set();
    numbers = [];

    special(kind, rest) {
        this.escaped = true;
        return { $: kind, ...rest };
    }

    value(value) {
        switch (typeof value) {
            case "string":
            case "boolean":
                return value;
            case "number":
                if (Number.isFinite(value) && !Object.is(value, -0)) return value;
                return this.special("number", { value: Object.is(value, -0) ? "-0" : String(value) });
            case "undefined":
                return this.special("undefined");
            case "object":
                return value === null ? null : this.object(value);
            default:
                return this.handle(value);
        }
    }

    object(value) {
        if (types.isUint8Array(value)) return this.buffer(value);
        if (types.isDate(value)) {
            const time = value.getTime();
            return this.special("date", { value: Number.isNaN(time) ? null : time });
        }
        if (types.isRegExp(value)) return this.special("regexp", { source: value.source, flags: value.flags });
        if (value instanceof EngineValue) return this.special("engine", { id: value.token() });
        const isArray = Array.isArray(value);
        const isError = types.isNativeError(value) || value instanceof Error;
        const isPlain = Object.prototype.toString.call(value) === "[object Object]";
        if (!isArray && !isError && (!isPlain || value instanceof EventEmitter)) return this.handle(value);
        if (this.open.has(value)) this.refuse("refers to an object that contains it");
        if (this.open.size >= MAX_DEPTH) this.refuse("is nested too deeply");
        this.open.add(value);
        const encoded = isArray ? this.array(value) : isError ? this.error(value) : this.record(value);
        this.open.delete(value);
        return encoded;
    }

    inside(key, value) {
        this.path.push(key);
        const encoded = this.value(value);
        this.path.pop();
        return encoded;
    }

    array(array) {
        if (array.length > MAX_LENGTH) this.refuse(`has more than ${MAX_LENGTH} elements`);
        const encoded = new Array(array.length);
        for (let index = 0; index < array.length; index++) encoded[index] = this.inside(index, array[index]);
        return encoded;
    }

    record(object) {
        if (typeof object.toJSON === "function") return this.inside("toJSON()", object.toJSON());
        if (Object.hasOwn(object, "$")) {
            const entries = Object.entries(object).map(([key, value]) => [key, this.inside(key, value)]);
            return this.special("object", { entries });
        }
        const encoded = {};
        for (const key of Object.keys(object)) set(encoded, key, this.inside(key, object[key]));
        return encoded;
    }

    error(error) {
        const rest = { name: String(error.name), message: String(error.message) };
        if (typeof error.stack === "string") rest.stack = error.stack;
        if (error.code !== undefined) rest.code = String(error.code);
        if (error.cause !== undefined) rest.cause = this.inside("cause", error.cause);
        return this.special("error", rest);
    }

    buffer(bytes) {
        const at = this.attached;
        this.attachments.push(bytes);
        this.attached += bytes.length;
        return this.special("buffer", { at, length: bytes.length });
    }

    handle(value) {
        const id = hold(value);
        this.numbers.push(id);
        return this.special("host", { id });
    }

    refuse(reason) {
        const path = this.path.map((key) => `.${key}`).join("");
        throw new TypeError(`the value cannot leave the node host: msg${path} ${reason}`);
    }
}

// Encodes a value: `{json, attachments, escaped}`. Throws if it contains itself, or too much.
function encode(value) {
    const encoder = new Encoder();
    try {
        const json = encoder.value(value);
        return { json, attachments: encoder.attachments, escaped: encoder.escaped };
    } catch (error) {
        // A getter or toJSON may throw too.
        release(encoder.numbers);
        throw error;
    }
}

const ERRORS = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

function revive(value, attachments) {
    if (value === null || typeof value !== "object") return value;
    if (!Array.isArray(value) && Object.hasOwn(value, "$")) return special(value, attachments);
    for (const key of Object.keys(value)) {
        const revived = revive(value[key], attachments);
        if (revived !== value[key]) set(value, key, revived);
    }
    return value;
}

function special(value, attachments) {
    switch (value.$) {
        case "number":
            return Number(value.value);
        case "date":
            return new Date(value.value ?? NaN);
        case "regexp":
            return new RegExp(value.source, value.flags);
        case "error":
            return error(value, attachments);
        case "buffer":
            // A buffer of its own: a node may write into it.
            return Buffer.from(attachments.subarray(value.at, value.at + value.length));
        case "object": {
            const object = {};
            for (const [key, entry] of value.entries) set(object, key, revive(entry, attachments));
            return object;
        }
        case "host":
            return held.get(value.id)?.value;
        case "engine": {
            const made = new EngineValue(value.id);
            registry.register(made.token, value.id);
            return made;
        }
        default:
            return undefined;
    }
}

function error(value, attachments) {
    const made = new (ERRORS[value.name] ?? Error)(value.message);
    const hidden = (key, content) =>
        Object.defineProperty(made, key, { value: content, writable: true, configurable: true, enumerable: false });
    if (value.name !== made.name) hidden("name", value.name);
    if (value.stack) hidden("stack", value.stack);
    if (value.code) made.code = value.code;
    if (value.cause !== undefined) hidden("cause", revive(value.cause, attachments));
    return made;
}

// The value of what `encode` or the engine made.
function decode(json, attachments, escaped) {
    return escaped ? revive(json, attachments) : json;
}

module.exports = { encode, decode, release, unused };
