// `events`: EventEmitter, and waiting for an event.
(function (library, native, require) {
  'use strict';

  const errorMonitor = Symbol('events.errorMonitor');
  const check = listener => {
    if (typeof listener !== 'function') throw library.wrongArgument('"listener" argument', 'of type function', listener);
    return listener;
  };
  const listOf = (emitter, event) => emitter._events?.[event] ?? [];

  // A function and not a class: modules call it on their own objects.
  function EventEmitter() {
    EventEmitter.init.call(this);
  }
  EventEmitter.init = function () {
    if (!this._events || this._events === Object.getPrototypeOf(this)._events) this._events = Object.create(null);
  };

  function add(emitter, event, listener, isFirst) {
    EventEmitter.init.call(emitter);
    if (emitter._events.newListener !== undefined) emitter.emit('newListener', event, listener.listener ?? listener);
    // A list that is being called is never changed, but replaced.
    const list = listOf(emitter, event);
    emitter._events[event] = isFirst ? [listener, ...list] : [...list, listener];
    return emitter;
  }

  function onceOf(emitter, event, listener) {
    const once = function (...values) {
      emitter.removeListener(event, once);
      return listener.apply(this, values);
    };
    once.listener = check(listener);
    return once;
  }

  function remove(emitter, event, index) {
    const list = listOf(emitter, event);
    const removed = list[index];
    if (list.length === 1) delete emitter._events[event];
    else emitter._events[event] = list.toSpliced(index, 1);
    if (emitter._events.removeListener !== undefined) emitter.emit('removeListener', event, removed.listener ?? removed);
  }

  function unhandled(error) {
    if (library.types.isNativeError(error)) return error;
    const shown = typeof error === 'string' ? `'${error}'` : library.inspect(error);
    return Object.assign(new Error(`Unhandled error. (${shown})`), { code: 'ERR_UNHANDLED_ERROR', context: error });
  }

  const methods = {
    on(event, listener) { return add(this, event, check(listener), false); },
    prependListener(event, listener) { return add(this, event, check(listener), true); },
    once(event, listener) { return add(this, event, onceOf(this, event, listener), false); },
    prependOnceListener(event, listener) { return add(this, event, onceOf(this, event, listener), true); },

    emit(event, ...values) {
      if (event === 'error') {
        for (const listener of listOf(this, errorMonitor)) listener.apply(this, values);
        if (listOf(this, 'error').length === 0) throw unhandled(values[0]);
      }
      const list = listOf(this, event);
      for (const listener of list) listener.apply(this, values);
      return list.length > 0;
    },

    removeListener(event, listener) {
      const index = listOf(this, event).findLastIndex(one => one === check(listener) || one.listener === listener);
      if (index >= 0) remove(this, event, index);
      return this;
    },

    removeAllListeners(event) {
      for (const name of event === undefined ? this.eventNames() : [event]) {
        for (let index = listOf(this, name).length - 1; index >= 0; index--) remove(this, name, index);
      }
      return this;
    },

    setMaxListeners(count) { this._maxListeners = count; return this; },
    getMaxListeners() { return this._maxListeners ?? EventEmitter.defaultMaxListeners; },
    listeners(event) { return listOf(this, event).map(one => one.listener ?? one); },
    rawListeners(event) { return [...listOf(this, event)]; },
    listenerCount(event, listener) {
      return listOf(this, event).filter(one => listener === undefined || one === listener || one.listener === listener).length;
    },
    eventNames() { return this._events ? Reflect.ownKeys(this._events) : []; },
  };
  methods.addListener = methods.on;
  methods.off = methods.removeListener;
  Object.assign(EventEmitter.prototype, methods, { _events: undefined, _maxListeners: undefined });

  // The values of the next event; an `error` in the meantime rejects.
  EventEmitter.once = async (emitter, event) => new Promise((resolve, reject) => {
    const failed = error => { emitter.removeListener(event, came); reject(error); };
    const came = (...values) => { emitter.removeListener('error', failed); resolve(values); };
    emitter.once(event, came);
    if (event !== 'error') emitter.once('error', failed);
  });

  return Object.assign(EventEmitter, {
    EventEmitter, errorMonitor, defaultMaxListeners: 10,
    listenerCount: (emitter, event) => emitter.listenerCount(event),
    getEventListeners: (emitter, event) => emitter.listeners(event),
    getMaxListeners: emitter => emitter.getMaxListeners(),
    setMaxListeners(count = 10, ...emitters) {
      if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
      for (const emitter of emitters) emitter.setMaxListeners(count);
    },
  });
})
