// `context`, `flow` and `global`, and the objects in their stores.
(function (library, native) {
  'use strict';

  const check = key => {
    if (typeof key !== 'string' || key === '') throw new Error('Invalid context key');
    return key;
  };
  const split = (store, callback) => typeof store === 'function' ? [undefined, store]
    : [store === undefined || store === null ? undefined : String(store), callback];
  const answer = (callback, work) => {
    if (callback === undefined) return work();
    if (typeof callback !== 'function') throw new Error('Callback must be a function');
    let results;
    try { results = [undefined].concat(work()); } catch (error) { results = [error]; }
    callback(...results);
  };

  // What a stored object has at these steps. Steps come from messages too: none may lead to a prototype.
  const isSafe = steps => !steps.includes('__proto__');
  library.readStored = (object, steps) => {
    if (!isSafe(steps)) return undefined;
    try { return library.property.follow(object, steps); } catch { return undefined; }
  };
  library.writeStored = (object, steps, value) =>
    isSafe(steps) && library.property.assign(object, steps, value, value !== undefined);
  library.weaken = object => new WeakRef(object);

  // One key, without a callback: the usual call.
  const isPlain = (key, store, callback) => typeof key === 'string' && key !== '' && callback === undefined &&
    (store === undefined || typeof store === 'string');

  // `context.get(key[, store][, callback])`: with a list of keys, a list of values; with a callback, through it.
  const contextOf = scope => ({
    set(key, value, store, callback) {
      if (isPlain(key, store, callback)) return native.write(scope, key, value, store);
      [store, callback] = split(store, callback);
      return answer(callback, () => {
        const keys = Array.isArray(key) ? key : [key];
        const values = Array.isArray(key) ? (Array.isArray(value) ? value : [value]) : [value];
        keys.forEach((k, i) => native.write(scope, check(k), i < values.length ? values[i] : null, store));
        return callback === undefined ? undefined : [];
      });
    },
    get(key, store, callback) {
      if (isPlain(key, store, callback)) return native.read(scope, key, store);
      [store, callback] = split(store, callback);
      if (Array.isArray(key) && key.length > 0) return answer(callback, () => key.map(k => native.read(scope, check(k), store)));
      return answer(callback, () => {
        const value = native.read(scope, check(key), store);
        return callback === undefined ? value : [value];
      });
    },
    keys(store, callback) {
      [store, callback] = split(store, callback);
      if (callback === undefined) return native.keys(scope, store);
      if (typeof callback !== 'function') throw new Error('Callback must be a function');
      callback(null, native.keys(scope, store));
    },
  });

  // The methods of the contexts of a node, its flow, and the runtime. They serve all nodes: the natives know which runs.
  library.contexts = { context: contextOf(0), flow: contextOf(1), global: contextOf(2) };
})
