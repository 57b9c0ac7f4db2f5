// What a function node finds in its global object: everything here is made once for each node.
(function (library, native) {
  'use strict';

  const { Buffer, URL, URLSearchParams, util, redUtil, inspect, contexts, env } = library;
  const { promisify } = util;

  // The console is the program's log; nothing of it reaches the debug sidebar.
  const say = level => (...values) => native.log(level, util.format(...values));
  library.console = {
    log: say('info'), info: say('info'), debug: say('debug'), warn: say('info'), error: say('info'),
    trace: say('trace'), dir: value => native.log('info', inspect(value)), table: say('info'),
    group: say('info'), groupEnd() {}, assert(condition, ...values) {
      if (!condition) native.log('info', ['Assertion failed', ...values.map(String)].join(': '));
    },
  };

  // The methods of `node` that serve all nodes.
  library.nodeMethods = {
    log: value => native.log('info', value),
    warn: value => native.log('warn', value),
    debug: value => native.log('debug', value),
    trace: value => native.log('trace', value),
    error: (thrown, msg) => native.error(thrown, msg),
    status: status => native.status(status),
  };

  // What the runtime calls in the same way for all nodes.
  library.bindings = {
    whenDone: (promise, msg, id) => {
      // What cannot be sent is the message's failure, just as what the code throws.
      promise.then(result => native.resolved(result, msg, id)).catch(thrown => native.rejected(thrown, msg, true));
    },
    whenSetUp: promise => {
      promise.then(() => native.setUp(true), thrown => { native.setUp(false); native.rejected(thrown, undefined, false); });
    },
  };

  // The running timers of all nodes by their numbers: a function may clear a timer of another one. They are plain data,
  // without closures, so that what their code refers to is released as soon as they are cleared.
  const timers = new Map();
  let last = 0;
  const nextNumber = () => {
    do last = (last + 1) >>> 0; while (last === 0 || timers.has(last));
    return last;
  };
  function set(number, timer) {
    timer.own.add(number);
    timers.set(number, timer);
    native.setTimer(number, timer.delay);
  }
  // Another node has no such number of its own, and the timer that is due finds nothing to run.
  function clear(given) {
    const number = Number(typeof given === 'object' && given !== null ? given.number : given);
    const timer = timers.get(number);
    if (timer === undefined) return;
    timer.own.delete(number);
    timers.delete(number);
    timer.code = timer.values = undefined;
    native.clearTimer(number);
  }

  // What `setTimeout` returns. A context store keeps its number, by which it can be cleared later.
  class Timeout {
    #timer;
    #referenced = true;
    constructor(number, timer) {
      this.number = number;
      this.#timer = timer;
    }
    ref() { this.#referenced = true; return this; }
    unref() { this.#referenced = false; return this; }
    hasRef() { return this.#referenced; }
    refresh() {
      if (this.#timer.code !== undefined) {
        native.clearTimer(this.number);
        set(this.number, this.#timer);
      }
      return this;
    }
    close() { clear(this); return this; }
    [Symbol.toPrimitive]() { return this.number; }
  }

  function timersOf(node) {
    const own = new Set();
    const start = (repeat, code, delay, values) => {
      if (typeof code !== 'function') throw new TypeError('The "callback" argument must be of type function');
      const number = nextNumber();
      const timer = { own, repeat, code, values, delay: Number(delay) };
      set(number, timer);
      return new Timeout(number, timer);
    };
    const startTimeout = (code, delay, ...values) => start(false, code, delay, values);
    startTimeout[promisify.custom] = (delay, value) => new Promise(resolve => start(false, resolve, delay, [value]));
    return {
      due(number) {
        const timer = timers.get(number);
        if (timer === undefined) return;
        if (timer.repeat) set(number, timer); else { own.delete(number); timers.delete(number); }
        try {
          timer.code.apply(node, timer.values);
        } catch (error) {
          native.rejected(error, {}, false);
        }
      },
      clearAll() { for (const number of [...own]) clear(number); },
      setTimeout: startTimeout,
      setInterval: (code, delay, ...values) => start(true, code, delay, values),
    };
  }

  // `node` without what depends on a message.
  function nodeOf(about) {
    const closing = [];
    return {
      closing,
      node: {
        id: about.id,
        name: about.name,
        path: about.path,
        z: about.z,
        outputCount: about.outputCount,
        ...library.nodeMethods,
        on(event, listener) {
          if (event === 'input') throw new Error("Cannot add listener to 'input' event within Function");
          if (event === 'close') closing.push(listener);
        },
      },
    };
  }

  // Fills a node's global object; answers what the runtime calls.
  library.furnish = (global, about) => {
    const { node, closing } = nodeOf(about);
    const ownTimers = timersOf(node);
    const flow = { ...contexts.flow }, wide = { ...contexts.global };
    const context = { ...contexts.context, global: wide, flow };
    const offered = {
      Buffer, URL, URLSearchParams, util, context, flow, env: { ...env },
      global: wide, console: { ...library.console }, promisify: util.promisify,
      RED: { util: { ...redUtil } },
      setTimeout: ownTimers.setTimeout, clearTimeout: clear,
      setInterval: ownTimers.setInterval, clearInterval: clear,
    };
    for (const name of Object.keys(offered)) {
      Object.defineProperty(global, name, { value: offered[name], writable: true, configurable: true, enumerable: false });
    }
    library.localize(global);
    // A `FinalizationRegistry` would call this node's code in another node's turn.
    for (const name of ['FinalizationRegistry', 'queueMicrotask', 'performance', 'navigator', 'atob', 'btoa', 'DOMException']) {
      delete global[name];
    }
    return Object.assign(Object.create(library.bindings), {
      node(msg, id) {
        const own = Object.create(node);
        own.send = (messages, clone) => native.sendWith(id, messages, clone);
        if (msg !== undefined) own.done = reason => reason ? native.error(reason, msg) : native.done(msg);
        return own;
      },
      // For code that sends nothing after it has returned.
      sharedNode() {
        const shared = Object.create(node);
        shared.send = native.send;
        return shared;
      },
      timerIsDue: ownTimers.due,
      close() {
        for (const listener of closing) {
          try { listener.call(node, () => {}); } catch (error) { native.rejected(error, undefined, false); }
        }
        ownTimers.clearAll();
      },
    });
  };
})
