// What a function node finds in its global object: everything here is made once for each node.
(function (library, native) {
  'use strict';

  const { Buffer, URL, URLSearchParams, util, redUtil, inspect, contextOf, heldByCode } = library;
  const { promisify } = util;
  const NODE = 0, FLOW = 1, GLOBAL = 2;

  // The console is the program's log; nothing of it reaches the debug sidebar.
  function consoleOf() {
    const say = level => (...values) => native.log(level, util.format(...values));
    return {
      log: say('info'), info: say('info'), debug: say('debug'), warn: say('info'), error: say('info'),
      trace: say('trace'), dir: value => native.log('info', inspect(value)), table: say('info'),
      group: say('info'), groupEnd() {}, assert(condition, ...values) {
        if (!condition) native.log('info', ['Assertion failed', ...values.map(String)].join(': '));
      },
    };
  }

  // Timers have numbers, so that they can be kept in a context store and cleared later.
  function timersOf(node) {
    const running = new Map();
    let last = 0;
    const start = (repeat, code, delay, values) => {
      if (typeof code !== 'function') throw new TypeError('The "callback" argument must be of type function');
      const timer = { code, values, repeat, delay: Number(delay) };
      running.set(++last, timer);
      native.setTimer(last, timer.delay);
      return last;
    };
    const startTimeout = (code, delay, ...values) => start(false, code, delay, values);
    startTimeout[promisify.custom] = (delay, value) => new Promise(resolve => start(false, resolve, delay, [value]));
    const clear = number => {
      if (running.delete(Number(number))) native.clearTimer(Number(number));
    };
    return {
      due(number) {
        const timer = running.get(number);
        if (timer === undefined) return;
        if (timer.repeat) native.setTimer(number, timer.delay); else running.delete(number);
        try {
          timer.code.apply(node, timer.values);
        } catch (error) {
          native.rejected(error, {}, false);
        }
      },
      clearAll() { for (const number of [...running.keys()]) clear(number); },
      setTimeout: startTimeout,
      setInterval: (code, delay, ...values) => start(true, code, delay, values),
      clearTimeout: clear,
      clearInterval: clear,
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
        log: value => native.log('info', value),
        warn: value => native.log('warn', value),
        debug: value => native.log('debug', value),
        trace: value => native.log('trace', value),
        error: (thrown, msg) => native.error(thrown, msg),
        status: status => native.status(status),
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
    const timers = timersOf(node);
    const held = heldByCode();
    const flow = contextOf(FLOW, held), wide = contextOf(GLOBAL, held);
    const context = Object.assign(contextOf(NODE, held), { global: wide, flow });
    const env = { get: name => native.env(String(name)) };
    const offered = {
      Buffer, URL, URLSearchParams, util, context, flow, env,
      global: wide, console: consoleOf(), promisify: util.promisify,
      RED: { util: redUtil({ context, flow, global: wide, env }) },
      setTimeout: timers.setTimeout, clearTimeout: timers.clearTimeout,
      setInterval: timers.setInterval, clearInterval: timers.clearInterval,
    };
    for (const name of Object.keys(offered)) {
      Object.defineProperty(global, name, { value: offered[name], writable: true, configurable: true, enumerable: false });
    }
    library.localize(global);
    library.localizeDates(global);
    // A `FinalizationRegistry` would call this node's code in another node's turn.
    for (const name of ['FinalizationRegistry', 'queueMicrotask', 'performance', 'navigator', 'atob', 'btoa', 'DOMException']) {
      delete global[name];
    }
    return {
      node(msg, id) {
        const own = Object.create(node);
        own.send = (messages, clone) => native.send(messages, id);
        if (msg !== undefined) own.done = reason => reason ? native.error(reason, msg) : native.done(msg);
        return own;
      },
      timerIsDue: timers.due,
      settle: held.settle,
      whenDone: (promise, msg, id) => {
        // What cannot be sent is the message's failure, just as what the code throws.
        promise.then(result => native.resolved(result, msg, id)).catch(thrown => native.rejected(thrown, msg, true));
      },
      whenSetUp: promise => {
        promise.then(() => native.setUp(true), thrown => { native.setUp(false); native.rejected(thrown, undefined, false); });
      },
      close() {
        for (const listener of closing) {
          try { listener.call(node, () => {}); } catch (error) { native.rejected(error, undefined, false); }
        }
        timers.clearAll();
      },
    };
  };
})
