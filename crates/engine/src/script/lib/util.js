// `util`, as far as functions use it.
(function (library, native) {
  'use strict';

  const { types, inspect, fail } = library;
  const custom = Symbol.for('nodejs.util.promisify.custom');

  function number(value, convert) {
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'symbol') return 'NaN';
    if (typeof value === 'object' && value !== null) return String(convert === Number ? NaN : convert(value));
    const n = convert(value);
    return Object.is(n, -0) ? '-0' : String(n);
  }

  const asText = value => {
    if (typeof value === 'string') return value;
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value === 'number' && Object.is(value, -0)) return '-0';
    if (typeof value !== 'object' || value === null) return String(value);
    const own = typeof value.toString === 'function' && value.toString !== Object.prototype.toString
      && (types.isDate(value) || types.isNativeError(value) || !/^\s*function\s+\w*\s*\(\)\s*{\s*\[native code\]/.test(value.toString));
    return own && !Array.isArray(value) && !types.isDate(value) ? String(value) : inspect(value, { depth: 0, colors: false, compact: 3 });
  };

  // The text of values, with %s %d %i %f %j %o %O %c and %% in the first.
  function format(...values) {
    if (typeof values[0] !== 'string') return values.map(value => typeof value === 'string' ? value : inspect(value)).join(' ');
    if (values.length === 1) return values[0];
    let next = 1;
    const text = values[0].replace(/%[sdifjoOc%]/g, directive => {
      if (directive === '%%') return '%';
      if (next >= values.length) return directive;
      const value = values[next++];
      switch (directive) {
        case '%s': return asText(value);
        case '%d': return number(value, Number);
        case '%i': return number(value, parseInt);
        case '%f': return typeof value === 'symbol' ? 'NaN' : String(parseFloat(value));
        case '%j': try { return JSON.stringify(value); } catch { return '[Circular]'; }
        case '%o': return inspect(value, { showHidden: true, showProxy: true, depth: 4 });
        case '%O': return inspect(value);
        default: return '';
      }
    });
    return [text, ...values.slice(next).map(value => typeof value === 'string' ? value : inspect(value))].join(' ');
  }

  const keysOf = value => [...Object.keys(value), ...Object.getOwnPropertySymbols(value).filter(s => Object.prototype.propertyIsEnumerable.call(value, s))];

  // Deep and strict equality, by Object.is; cycles are equal if they close at the same place.
  function isDeepStrictEqual(a, b, seen = new Map()) {
    if (Object.is(a, b)) return true;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
    if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
    if (Array.isArray(a) !== Array.isArray(b) || (Array.isArray(a) && a.length !== b.length)) return false;
    if (seen.get(a) === b) return true;
    seen.set(a, b);
    if (types.isDate(a)) { if (!types.isDate(b) || +a !== +b) return false; }
    else if (types.isRegExp(a)) { if (!types.isRegExp(b) || String(a) !== String(b) || a.lastIndex !== b.lastIndex) return false; }
    else if (types.isNativeError(a)) { if (a.name !== b.name || a.message !== b.message) return false; }
    else if (types.isBoxedPrimitive(a)) { if (!types.isBoxedPrimitive(b) || !Object.is(a.valueOf(), b.valueOf())) return false; }
    else if (types.isMap(a)) {
      if (!types.isMap(b) || a.size !== b.size) return false;
      for (const [key, value] of a) {
        const same = b.has(key) ? key : [...b.keys()].find(other => isDeepStrictEqual(key, other, seen));
        if (same === undefined && !b.has(key)) return false;
        if (!isDeepStrictEqual(value, b.get(same), seen)) return false;
      }
    } else if (types.isSet(a)) {
      if (!types.isSet(b) || a.size !== b.size) return false;
      for (const value of a) if (!b.has(value) && ![...b].some(other => isDeepStrictEqual(value, other, seen))) return false;
    } else if (types.isTypedArray(a)) {
      if (!types.isTypedArray(b) || a.length !== b.length) return false;
    }
    const keys = keysOf(a);
    return keys.length === keysOf(b).length &&
      keys.every(key => Object.prototype.hasOwnProperty.call(b, key) && isDeepStrictEqual(a[key], b[key], seen));
  }

  function promisify(original) {
    if (typeof original !== 'function') throw library.wrongArgument('"original" argument', 'of type function', original);
    if (typeof original[custom] === 'function') return original[custom];
    const promised = function (...values) {
      return new Promise((resolve, reject) => {
        original.call(this, ...values, (error, result) => error ? reject(error) : resolve(result));
      });
    };
    Object.setPrototypeOf(promised, Object.getPrototypeOf(original));
    return Object.defineProperties(promised, Object.getOwnPropertyDescriptors(original));
  }
  promisify.custom = custom;

  function callbackify(original) {
    return function (...values) {
      const callback = values.pop();
      original.apply(this, values).then(result => callback(null, result), error => callback(error || new Error('rejected')));
    };
  }

  function inherits(constructor, parent) {
    Object.defineProperty(constructor, 'super_', { value: parent, writable: true, configurable: true });
    Object.setPrototypeOf(constructor.prototype, parent.prototype);
  }

  library.util = {
    format, inspect, isDeepStrictEqual, promisify, callbackify, inherits, types,
    deprecate: f => f,
    debuglog: () => Object.assign(() => {}, { enabled: false }),
    stripVTControlCharacters: text => String(text).replace(/\u001b\[[0-9;]*[A-Za-z]/g, ''),
    toUSVString: text => String(text).toWellFormed(),
    isArray: Array.isArray,
    isBoolean: v => typeof v === 'boolean',
    isBuffer: v => library.Buffer.isBuffer(v),
    isDate: types.isDate,
    isError: types.isNativeError,
    isFunction: v => typeof v === 'function',
    isNull: v => v === null,
    isNullOrUndefined: v => v === null || v === undefined,
    isNumber: v => typeof v === 'number',
    isObject: v => v !== null && typeof v === 'object',
    isPrimitive: v => v === null || (typeof v !== 'object' && typeof v !== 'function'),
    isRegExp: types.isRegExp,
    isString: v => typeof v === 'string',
    isSymbol: v => typeof v === 'symbol',
    isUndefined: v => v === undefined,
  };
})
