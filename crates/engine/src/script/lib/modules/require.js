// `require`: modules of CommonJS, each evaluated once in the node's own realm, and what Node.js has built in.
(function (library, native) {
  'use strict';

  const builtins = new Map(), files = new Map();

  // A built-in module; undefined if there is none of this name.
  function builtin(asked) {
    const name = asked.replace(/^node:/, '');
    if (!builtins.has(name)) {
      const make = native.builtin(asked);
      if (make === undefined) return undefined;
      builtins.set(name, make(library, native, builtin));
    }
    return builtins.get(name);
  }

  function parsed(file, text) {
    try {
      return JSON.parse(text.replace(/^\ufeff/, ''));
    } catch (error) {
      error.message = `${file.slice(1)}: ${error.message}`;
      throw error;
    }
  }

  // What modules find around them, beside what every function finds. Functions themselves do not see it.
  let surroundings;
  function surround() {
    const { setImmediate, clearImmediate } = builtin('timers'), { TextEncoder, TextDecoder } = builtin('util');
    const queueMicrotask = work => { Promise.resolve().then(work); };
    return [builtin('process'), globalThis, setImmediate, clearImmediate, queueMicrotask, TextEncoder, TextDecoder];
  }

  // A module that is being evaluated is what it has exported so far to those that it requires.
  function evaluated(file) {
    const known = files.get(file);
    if (known !== undefined) return known.exports;
    const directory = file.slice(0, file.lastIndexOf('/'));
    const module = { id: file, filename: file, path: directory, exports: {}, loaded: false, children: [], paths: [] };
    files.set(file, module);
    try {
      const text = native.read(file);
      if (file.endsWith('.json')) {
        module.exports = parsed(file, text);
      } else {
        surroundings ??= surround();
        module.require = requireIn(directory);
        native.compile(file, text)(...surroundings).call(module.exports, module.exports, module.require, module, file, directory);
      }
      module.loaded = true;
    } catch (error) {
      files.delete(file);
      throw error;
    }
    return module.exports;
  }

  function requireIn(directory) {
    const check = name => {
      if (typeof name !== 'string') throw library.wrongArgument('"id" argument', 'of type string', name);
      if (name === '') throw library.fail(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'id' must be a non-empty string. Received ''");
      return name;
    };
    const require = name => builtin(check(name)) ?? evaluated(native.find(name, directory));
    require.resolve = name => builtin(check(name)) === undefined ? native.find(name, directory) : name;
    require.cache = {};
    return require;
  }
  return requireIn('/');
})
