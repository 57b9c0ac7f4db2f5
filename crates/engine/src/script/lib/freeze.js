// The library serves all nodes of its thread, and so does the realm that nodes share, so none of them may change it:
// everything that code can reach from it is frozen, the realm's own prototypes and global object too
// (`Buffer.constructor('return this')()` leads there). This file runs in each of the two realms.
(function (library, native) {
  'use strict';

  // It would call one node's code in another node's turn.
  delete globalThis.FinalizationRegistry;

  // These would keep what is assigned to them although they are frozen: they are accessors.
  for (const name of ['stackTraceLimit', 'prepareStackTrace']) delete Error[name];

  // An inherited property that is frozen could not be assigned in a node's own object, such as the `name` of an error
  // that the library has thrown. As an accessor it can.
  function assignable(prototype, names) {
    for (const name of names) {
      if (!Object.hasOwn(prototype, name)) continue;
      const { value } = Object.getOwnPropertyDescriptor(prototype, name);
      Object.defineProperty(prototype, name, {
        get: () => value,
        set(own) {
          if (this === prototype) throw new TypeError(`'${name}' is read-only`);
          Object.defineProperty(this, name, { value: own, writable: true, configurable: true, enumerable: true });
        },
      });
    }
  }
  assignable(Object.prototype, ['constructor', 'hasOwnProperty', 'isPrototypeOf', 'propertyIsEnumerable', 'toString', 'toLocaleString', 'valueOf']);
  for (const kind of [Error, AggregateError, EvalError, InternalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
    assignable(kind.prototype, ['name', 'message', 'toString']);
  }

  // What no property leads to, but code can make or be given.
  const made = [
    library.handleOver(() => {}), [].values(), ''[Symbol.iterator](), new Map().keys(), new Set().keys(), 'a'.matchAll(/a/g),
    [].values().map(x => x), Iterator.from({ next() {} }), Iterator.concat([]), function* () {}, async () => {}, async function* () {},
  ];

  const seen = new Set();
  const left = [library, native, globalThis, ...made];
  const reach = value => {
    const isObject = typeof value === 'object' && value !== null || typeof value === 'function';
    if (isObject && !seen.has(value)) { seen.add(value); left.push(value); }
  };
  while (left.length > 0) {
    const object = left.pop();
    reach(Object.getPrototypeOf(object));
    for (const { value, get, set } of Object.values(Object.getOwnPropertyDescriptors(object))) [value, get, set].forEach(reach);
    for (const symbol of Object.getOwnPropertySymbols(object)) {
      const { value, get, set } = Object.getOwnPropertyDescriptor(object, symbol);
      [value, get, set].forEach(reach);
    }
    Object.freeze(object);
  }
})
