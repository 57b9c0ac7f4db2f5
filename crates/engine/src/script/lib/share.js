// Prepares the realm that nodes share, in which it runs: what nodes have in common is there, and nothing makes code of
// texts, which could declare names for all nodes.
(function (library) {
  'use strict';

  library.furnish(globalThis);

  for (const made of [function () {}, function* () {}, async () => {}, async function* () {}]) {
    const prototype = Object.getPrototypeOf(made);
    const { name } = prototype.constructor;
    const refuse = { [name]() { throw new EvalError('code of texts is not supported here'); } }[name];
    Object.defineProperty(refuse, 'prototype', { value: prototype });
    Object.defineProperty(prototype, 'constructor', { value: refuse });
  }
  delete globalThis.Function;
  delete globalThis.eval;
})
