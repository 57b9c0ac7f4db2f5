// `timers`: the node's own, which end with it.
(function (library, native, require) {
  'use strict';

  const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;
  const setImmediate = (work, ...values) => setTimeout(work, 0, ...values);
  const wait = setTimeout[library.util.promisify.custom];
  Object.defineProperty(setImmediate, library.util.promisify.custom, { value: value => wait(0, value) });
  return {
    setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate: clearTimeout,
    promises: { setTimeout: wait, setImmediate: value => wait(0, value), scheduler: { wait: delay => wait(delay) } },
  };
})
