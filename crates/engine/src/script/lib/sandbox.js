// What the code of function nodes finds around it.
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

  // `setTimeout` and `setInterval` of a node.
  function starter(own, repeat) {
    const start = (code, delay, values) => {
      if (typeof code !== 'function') throw new TypeError('The "callback" argument must be of type function');
      const number = nextNumber();
      const timer = { own: own.timers ??= new Set(), repeat, code, values, delay: Number(delay) };
      set(number, timer);
      return new Timeout(number, timer);
    };
    const offered = (code, delay, ...values) => start(code, delay, values);
    if (!repeat) offered[promisify.custom] = (delay, value) => new Promise(resolve => start(resolve, delay, [value]));
    return offered;
  }

  // `node` without what depends on a message.
  const nodeOf = own => own.node ??= {
    id: own.about.id,
    name: own.about.name,
    path: own.about.path,
    z: own.about.z,
    outputCount: own.about.outputCount,
    ...library.nodeMethods,
    on(event, listener) {
      if (event === 'input') throw new Error("Cannot add listener to 'input' event within Function");
      if (event === 'close') (own.closing ??= []).push(listener);
    },
  };

  // What every node has for itself, made when its code names it first.
  const makers = {
    flow: () => ({ ...contexts.flow }),
    global: () => ({ ...contexts.global }),
    context: own => ({ ...contexts.context, global: offer(own, 'global'), flow: offer(own, 'flow') }),
    env: () => ({ ...env }),
    console: () => ({ ...library.console }),
    RED: () => ({ util: { ...redUtil } }),
    setTimeout: own => starter(own, false),
    setInterval: own => starter(own, true),
  };
  const offer = (own, name) => own.offered[name] ??= makers[name](own);

  // What serves all nodes.
  const common = { Buffer, URL, URLSearchParams, util, promisify, clearTimeout: clear, clearInterval: clear };

  function define(global, name, value) {
    Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  }

  // Fills the global object of a realm with what serves all nodes.
  library.furnish = global => {
    for (const name of Object.keys(common)) define(global, name, common[name]);
    library.localize(global);
    // A `FinalizationRegistry` would call this node's code in another node's turn.
    for (const name of ['FinalizationRegistry', 'queueMicrotask', 'performance', 'navigator', 'atob', 'btoa', 'DOMException']) {
      delete global[name];
    }
  };

  // Fills the global object of a node's own realm with what the node has for itself.
  library.furnishOwn = (global, own) => {
    for (const name of Object.keys(makers)) define(global, name, offer(own, name));
  };

  // What the runtime calls in the name of a node; `about` is what `node` says of it.
  library.bindingsOf = about => Object.assign(Object.create(library.bindings), { about, offered: {} });

  // What the runtime calls; `this` is what `bindingsOf` has made.
  library.bindings = {
    whenDone(promise, msg, id) {
      // What cannot be sent is the message's failure, just as what the code throws.
      promise.then(result => native.resolved(result, msg, id)).catch(thrown => native.rejected(thrown, msg, true));
    },
    whenSetUp(promise) {
      promise.then(() => native.setUp(true), thrown => { native.setUp(false); native.rejected(thrown, undefined, false); });
    },
    offer(name) { return offer(this, name); },
    nodeFor(msg, id) {
      const own = Object.create(nodeOf(this));
      own.send = (messages, clone) => native.sendWith(id, messages, clone);
      if (msg !== undefined) own.done = reason => reason ? native.error(reason, msg) : native.done(msg);
      return own;
    },
    // For code that sends nothing after it has returned.
    sharedNode() {
      const shared = Object.create(nodeOf(this));
      shared.send = native.send;
      return shared;
    },
    timerIsDue(number) {
      const timer = timers.get(number);
      if (timer === undefined) return;
      if (timer.repeat) set(number, timer); else { timer.own.delete(number); timers.delete(number); }
      try {
        timer.code.apply(nodeOf(this), timer.values);
      } catch (error) {
        native.rejected(error, {}, false);
      }
    },
    close() {
      for (const listener of this.closing ?? []) {
        try { listener.call(nodeOf(this), () => {}); } catch (error) { native.rejected(error, undefined, false); }
      }
      for (const number of [...this.timers ?? []]) clear(number);
    },
  };
})
