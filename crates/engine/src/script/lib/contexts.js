// `context`, `flow` and `global`. What code has got from a store, or put there, is the stored thing itself, as in Node-RED:
// what it changes in it without `set` counts too. So objects are held until the code's turn ends, and then written back.
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
  const isObject = value => typeof value === 'object' && value !== null;

  // What one node's code holds: by scope, store and key.
  library.heldByCode = () => {
    const held = new Map();
    const idOf = (scope, key, store) => `${scope} ${store ?? ''} ${key}`;
    // The held object in which a longer key ends, and the rest of the key.
    const around = (scope, key, store) => {
      const end = key.search(/[.[]/);
      const root = end > 0 ? held.get(idOf(scope, key.slice(0, end), store)) : undefined;
      return root && { object: root.value, rest: key.slice(end).replace(/^\./, '') };
    };
    const hold = (scope, key, store, value) => {
      if (held.size === 0) native.hold();
      held.set(idOf(scope, key, store), { scope, key, store, value });
      return value;
    };
    return {
      read(scope, key, store) {
        if (held.size > 0) {
          const known = held.get(idOf(scope, key, store));
          if (known !== undefined) return known.value;
          const outer = around(scope, key, store);
          if (outer !== undefined && !outer.rest.startsWith('[')) {
            try { return library.property.read(outer.object, outer.rest); } catch { return undefined; }
          }
        }
        const value = native.read(scope, key, store);
        return isObject(value) ? hold(scope, key, store, value) : value;
      },
      write(scope, key, value, store) {
        native.write(scope, key, value, store);
        if (held.size > 0) {
          const outer = around(scope, key, store);
          if (outer !== undefined && !outer.rest.startsWith('[')) library.property.write(outer.object, outer.rest, value);
          held.delete(idOf(scope, key, store));
        }
        if (isObject(value)) hold(scope, key, store, value);
      },
      settle() {
        for (const { scope, key, store, value } of held.values()) native.settle(scope, key, value, store);
        held.clear();
      },
    };
  };

  // `context.get(key[, store][, callback])`: with a list of keys, a list of values; with a callback, through it.
  library.contextOf = (scope, held) => ({
    set(key, value, store, callback) {
      [store, callback] = split(store, callback);
      return answer(callback, () => {
        const keys = Array.isArray(key) ? key : [key];
        const values = Array.isArray(key) ? (Array.isArray(value) ? value : [value]) : [value];
        keys.forEach((k, i) => held.write(scope, check(k), i < values.length ? values[i] : null, store));
        return callback === undefined ? undefined : [];
      });
    },
    get(key, store, callback) {
      [store, callback] = split(store, callback);
      if (typeof key === 'string' && key !== '' && callback === undefined) return held.read(scope, key, store);
      if (Array.isArray(key) && key.length > 0) return answer(callback, () => key.map(k => held.read(scope, check(k), store)));
      return answer(callback, () => {
        const value = held.read(scope, check(key), store);
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
})
