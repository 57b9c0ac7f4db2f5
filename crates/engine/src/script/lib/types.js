// What a value is, whichever realm it was made in. `instanceof` does not see across realms; brands do.
(function (library, native) {
  'use strict';

  const { toString } = Object.prototype;
  const tagOf = value => toString.call(value).slice(8, -1);
  const accepts = (method, value) => {
    try { method.call(value); return true; } catch { return false; }
  };
  const getter = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).get;
  const TypedArray = Object.getPrototypeOf(Uint8Array);
  const typedArrayName = getter(TypedArray.prototype, Symbol.toStringTag);
  const isObject = value => (typeof value === 'object' && value !== null) || typeof value === 'function';
  const branded = method => value => isObject(value) && accepts(method, value);
  const boxed = prototype => value => typeof value === 'object' && value !== null && accepts(prototype.valueOf, value);

  const types = {
    isDate: branded(Date.prototype.getTime),
    isRegExp: value => isObject(value) && tagOf(value) === 'RegExp' && value !== RegExp.prototype,
    isMap: branded(getter(Map.prototype, 'size')),
    isSet: branded(getter(Set.prototype, 'size')),
    isWeakMap: value => isObject(value) && tagOf(value) === 'WeakMap',
    isWeakSet: value => isObject(value) && tagOf(value) === 'WeakSet',
    isPromise: value => isObject(value) && tagOf(value) === 'Promise',
    isNativeError: value => isObject(value) && Error.isError(value),
    isArrayBuffer: branded(getter(ArrayBuffer.prototype, 'byteLength')),
    isAnyArrayBuffer: value => types.isArrayBuffer(value) || tagOf(value) === 'SharedArrayBuffer',
    isSharedArrayBuffer: value => isObject(value) && tagOf(value) === 'SharedArrayBuffer',
    isDataView: branded(getter(DataView.prototype, 'byteLength')),
    isTypedArray: value => isObject(value) && typedArrayName.call(value) !== undefined,
    isArrayBufferView: value => ArrayBuffer.isView(value),
    isNumberObject: boxed(Number.prototype),
    isStringObject: boxed(String.prototype),
    isBooleanObject: boxed(Boolean.prototype),
    isSymbolObject: boxed(Symbol.prototype),
    isBigIntObject: boxed(BigInt.prototype),
    isBoxedPrimitive: value => types.isNumberObject(value) || types.isStringObject(value) ||
      types.isBooleanObject(value) || types.isSymbolObject(value) || types.isBigIntObject(value),
    isAsyncFunction: value => typeof value === 'function' && tagOf(value) === 'AsyncFunction',
    isGeneratorFunction: value => typeof value === 'function' && tagOf(value) === 'GeneratorFunction',
    isGeneratorObject: value => isObject(value) && tagOf(value) === 'Generator',
    isMapIterator: value => isObject(value) && tagOf(value) === 'Map Iterator',
    isSetIterator: value => isObject(value) && tagOf(value) === 'Set Iterator',
    isArgumentsObject: value => isObject(value) && tagOf(value) === 'Arguments',
    isProxy: () => false,
  };
  for (const name of ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array',
    'Uint32Array', 'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array']) {
    types['is' + name] = value => isObject(value) && typedArrayName.call(value) === name;
  }
  library.types = types;

  // Something of the runtime that code can carry but not look into.
  class Handle {
    #open;
    constructor(open) { this.#open = open; }
    static isHandle(value) { return isObject(value) && #open in value; }
    static open(handle) { handle.#open(); }
  }
  library.isHandle = Handle.isHandle;
  library.handleOver = open => new Handle(open);

  const toBase64 = Uint8Array.prototype.toBase64;
  library.base64Of = bytes => toBase64.call(bytes);

  const textOf = value => {
    try { return value === undefined || value === null ? '' : String(value); } catch { return ''; }
  };
  const viewed = value => new Uint8Array(value.buffer, value.byteOffset, value.byteLength);

  // Whether the prototype is the `Object.prototype` of some realm.
  const isLiteral = value => {
    const prototype = Object.getPrototypeOf(value);
    return prototype !== null && Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, '__lookupGetter__');
  };

  // Tells Rust how a value that is neither plain nor an array travels: [kind, …].
  library.classify = value => {
    if (typeof value === 'bigint') {
      return ['instead', Number.isSafeInteger(Number(value)) ? Number(value) : String(value)];
    }
    if (Handle.isHandle(value)) { Handle.open(value); return ['handle']; }
    if (types.isDate(value)) return ['date', Date.prototype.getTime.call(value)];
    if (types.isNativeError(value)) {
      return ['error', textOf(value.name) || 'Error', textOf(value.message), textOf(value.code), textOf(value.stack), value.cause];
    }
    if (types.isRegExp(value)) return ['regexp', textOf(value.source), textOf(value.flags)];
    if (types.isMap(value)) {
      return ['instead', Object.fromEntries(Array.from(Map.prototype.entries.call(value), ([k, v]) => [textOf(k), v]))];
    }
    if (types.isSet(value)) return ['instead', Array.from(Set.prototype.values.call(value))];
    if (types.isTypedArray(value)) return ['instead', Array.from(value)];
    if (types.isDataView(value)) return ['instead', viewed(value)];
    if (types.isArrayBuffer(value)) return ['instead', new Uint8Array(value)];
    if (types.isNumberObject(value) || types.isStringObject(value) || types.isBooleanObject(value)) {
      return ['instead', value.valueOf()];
    }
    return isLiteral(value) ? ['literal'] : ['plain'];
  };
})
