// `RED.util`, as function nodes see it.
(function (library, native) {
  'use strict';

  const { types, Buffer, fail, inspect } = library;

  // Everything is copied but what belongs to the runtime.
  function clone(value, copies = new Map()) {
    if (typeof value !== 'object' || value === null || library.isHandle(value)) return value;
    if (copies.has(value)) return copies.get(value);
    const remember = copy => { copies.set(value, copy); return copy; };
    if (Buffer.isBuffer(value)) return remember(Buffer.from(value));
    // Of the node's own realm, so that `instanceof` holds.
    const made = (kind, ...values) => remember(Reflect.construct(typeof value.constructor === 'function' ? value.constructor : kind, values));
    if (types.isDate(value)) return made(Date, +value);
    if (types.isRegExp(value)) return made(RegExp, value.source, value.flags);
    if (types.isMap(value)) {
      const copy = made(Map);
      for (const [key, item] of value) copy.set(clone(key, copies), clone(item, copies));
      return copy;
    }
    if (types.isSet(value)) {
      const copy = made(Set);
      for (const item of value) copy.add(clone(item, copies));
      return copy;
    }
    if (types.isTypedArray(value)) return remember(value.slice());
    if (types.isArrayBuffer(value)) return remember(value.slice(0));
    if (types.isPromise(value) || types.isWeakMap(value) || types.isWeakSet(value)) return value;
    const copy = remember(Array.isArray(value) ? new Array(value.length) : Object.create(Object.getPrototypeOf(value)));
    if (types.isNativeError(value)) {
      for (const name of ['message', 'stack']) {
        Object.defineProperty(copy, name, { value: value[name], writable: true, configurable: true, enumerable: false });
      }
    }
    for (const key of Object.keys(value)) {
      Object.defineProperty(copy, key, { value: clone(value[key], copies), writable: true, configurable: true, enumerable: true });
    }
    return copy;
  }

  function cloneMessage(msg) {
    if (typeof msg !== 'object' || msg === null) return msg;
    const copies = new Map();
    for (const name of ['req', 'res']) {
      if (typeof msg[name] === 'object' && msg[name] !== null) copies.set(msg[name], msg[name]);
    }
    return clone(msg, copies);
  }

  const generateId = () => Array.from({ length: 8 }, () => Math.floor(Math.random() * 256).toString(16).padStart(2, '0')).join('');

  // The steps of a property expression; `[msg.x]` inside is replaced by its value.
  function normalisePropertyExpression(expression, msg, toString) {
    if (typeof expression !== 'string' || expression === '') {
      throw fail(Error, 'INVALID_EXPR', 'Invalid property expression: zero-length');
    }
    const steps = native.path(expression).map(step => {
      if (!Array.isArray(step)) return step;
      if (msg === undefined) return step;
      const value = follow(msg, step[0] === 'msg' ? step.slice(1) : step);
      if (value === undefined) throw fail(Error, 'INVALID_EXPR', `Invalid expression: undefined reference at ${expression}`);
      return value;
    });
    if (!toString) return steps;
    return steps.map((step, i) => typeof step === 'number' ? `[${step}]` : i === 0 ? step : `["${step}"]`).join('');
  }

  const follow = (object, steps) => steps.reduce((at, step) => {
    if (at === undefined || at === null) throw new TypeError(`Cannot read properties of ${at} (reading '${step}')`);
    return at[step];
  }, object);
  const getObjectProperty = (object, expression) => follow(object, normalisePropertyExpression(expression, object));

  const setObjectProperty = (object, expression, value, createMissing = value !== undefined) =>
    assign(object, normalisePropertyExpression(expression, object), value, createMissing);

  function assign(object, steps, value, createMissing) {
    let at = object;
    for (let i = 0; i < steps.length - 1; i++) {
      const step = steps[i];
      if (at[step] === undefined || at[step] === null) {
        if (!createMissing) return false;
        at[step] = typeof steps[i + 1] === 'number' ? [] : {};
      } else if (typeof at[step] !== 'object') {
        return false;
      }
      at = at[step];
    }
    const last = steps[steps.length - 1];
    if (value !== undefined) at[last] = value;
    else if (Array.isArray(at) && typeof last === 'number') at.splice(last, 1);
    else delete at[last];
    return true;
  }

  library.property = { follow, assign };

  const withoutMsg = expression => expression.startsWith('msg.') ? expression.slice(4) : expression;

  function parseContextStore(key) {
    const parts = /^#:\((\S+?)\)::(.*)$/.exec(key);
    return parts ? { store: parts[1], key: parts[2] } : { key };
  }

  function ensureString(value) {
    if (Buffer.isBuffer(value)) return value.toString();
    if (typeof value === 'object' && value !== null) return JSON.stringify(value);
    return typeof value === 'string' ? value : String(value);
  }

  function ensureBuffer(value) {
    if (Buffer.isBuffer(value)) return value;
    if (typeof value === 'object' && value !== null) return Buffer.from(JSON.stringify(value));
    return Buffer.from(typeof value === 'string' ? value : String(value));
  }

  function compareObjects(a, b) {
    if (a === b) return true;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
    if (Array.isArray(a) !== Array.isArray(b) || Buffer.isBuffer(a) !== Buffer.isBuffer(b)) return false;
    if (Buffer.isBuffer(a)) return a.equals(b);
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every(key => Object.hasOwn(b, key) && compareObjects(a[key], b[key]));
  }

  const formats = value => {
    if (Array.isArray(value)) return `array[${value.length}]`;
    if (Buffer.isBuffer(value)) return `buffer[${value.length}]`;
    if (typeof value === 'string') return `string[${value.length}]`;
    if (value === null) return 'null';
    if (types.isNativeError(value)) return 'error';
    if (typeof value === 'object') return types.isMap(value) ? 'map' : types.isSet(value) ? `set[${value.size}]` : 'Object';
    return typeof value;
  };

  // A debug message's `msg` as text with its `format`.
  function encodeObject(message, options = {}) {
    const longest = options.maxLength ?? 1000;
    const value = message.msg;
    if (value === null || value === undefined) {
      return Object.assign(message, { format: value === null ? 'null' : 'undefined', msg: '(undefined)' });
    }
    message.format = formats(value);
    if (typeof value === 'function') return Object.assign(message, { msg: '[function]' });
    if (types.isRegExp(value)) return Object.assign(message, { msg: String(value), format: 'regexp' });
    if (Buffer.isBuffer(value)) message.msg = value.toString('hex').slice(0, longest);
    else if (types.isNativeError(value)) message.msg = JSON.stringify({ __enc__: true, type: 'error', data: { name: value.name, message: value.message, stack: value.stack } });
    else if (typeof value === 'string') message.msg = value.length > longest ? value.slice(0, longest) + '...' : value;
    else if (typeof value === 'object' && value !== null) {
      try { message.msg = JSON.stringify(value); } catch { message.msg = inspect(value); }
    } else message.msg = String(value);
    return message;
  }

  const normaliseNodeTypeName = name => {
    const camel = name.replace(/[^a-zA-Z0-9]/g, ' ').trim().replace(/\s+(.)/g, (all, c) => c.toUpperCase()).replace(/\s+/g, '');
    return camel.charAt(0).toLowerCase() + camel.slice(1);
  };

  // JSONata is evaluated outside; an expression is its text, checked. Its own `evaluate` sees any input as it is.
  function prepareJSONataExpression(text) {
    native.checkJsonata(text);
    const expression = { text, evaluate: (input, bindings, callback) => answer(callback, () => native.jsonata(text, input, false, Date.now())), assign() {}, registerFunction() {} };
    return expression;
  }
  const evaluate = (text, msg) => native.jsonata(text, msg, true, Date.now());
  const answer = (callback, work) => {
    if (typeof callback !== 'function') return work();
    let value;
    try { value = work(); } catch (error) { return callback(error); }
    callback(null, value);
  };
  const evaluateJSONataExpression = (expression, msg, callback) => answer(callback, () => evaluate(expression.text, msg));

  library.env = { get: name => native.env(String(name)) };
  library.redUtil = (({ context, flow, global }, env) => {
    const getSetting = (node, name) => env.get(name);
    const typed = {
      str: value => String(value),
      num: Number,
      json: JSON.parse,
      re: value => new RegExp(value),
      date: value => value === 'object' ? new Date() : value === 'iso' ? new Date().toISOString() : Date.now(),
      bin: value => Buffer.from(JSON.parse(value)),
      msg: (value, msg) => getObjectProperty(msg, value),
      flow: value => { const { key, store } = parseContextStore(value); return flow.get(key, store); },
      global: value => { const { key, store } = parseContextStore(value); return global.get(key, store); },
      node: value => context.get(value),
      bool: value => /^true$/i.test(value),
      jsonata: (value, msg) => evaluate(value, msg),
      env: value => {
        const name = /^\$\{([^}]+)\}$/.exec(value);
        if (name) return env.get(name[1]) ?? '';
        return value.includes('${') ? value.replace(/\$\{([^}]+)\}/g, (all, key) => env.get(key) ?? '') : env.get(value) ?? '';
      },
    };
    return {
      encodeObject, ensureString, ensureBuffer, cloneMessage, compareObjects, generateId,
      getMessageProperty: (msg, expression) => getObjectProperty(msg, withoutMsg(expression)),
      setMessageProperty: (msg, expression, value, create) => setObjectProperty(msg, withoutMsg(expression), value, create),
      getObjectProperty, setObjectProperty,
      evaluateNodeProperty: (value, type, node, msg, callback) =>
        answer(callback, () => Object.hasOwn(typed, type) ? typed[type](value, msg) : value),
      normalisePropertyExpression, normaliseNodeTypeName, prepareJSONataExpression, evaluateJSONataExpression,
      parseContextStore, getSetting,
    };
  })(library.contexts, library.env);
})
