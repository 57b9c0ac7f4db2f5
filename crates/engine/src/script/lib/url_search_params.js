// `URLSearchParams` by the WHATWG standard.
(function (library, native) {
  'use strict';

  const encode = text => {
    let encoded = '';
    for (const c of text) {
      if (c === ' ') encoded += '+';
      else if (/[A-Za-z0-9*\-._]/.test(c)) encoded += c;
      else for (const byte of new Uint8Array(native.utf8(c))) encoded += '%' + byte.toString(16).toUpperCase().padStart(2, '0');
    }
    return encoded;
  };
  const decode = text => {
    const spaced = text.replaceAll('+', ' ');
    if (!spaced.includes('%')) return spaced;
    const hex = spaced.replace(/%([0-9a-f]{2})|([^%]+)|%/gi, (all, digits) => digits ?? library.Buffer.from(all).toString('hex'));
    return library.Buffer.from(hex, 'hex').toString();
  };
  const pairsOf = query => query.replace(/^\?/, '').split('&').filter(Boolean).map(pair => {
    const at = pair.indexOf('=');
    return at < 0 ? [decode(pair), ''] : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
  });

  class URLSearchParams {
    #pairs;
    #changed = () => {};

    constructor(init = '') {
      if (typeof init === 'object' && init !== null || typeof init === 'function') {
        this.#pairs = typeof init[Symbol.iterator] === 'function'
          ? Array.from(init, pair => {
            const both = Array.from(pair);
            if (both.length !== 2) throw Object.assign(new TypeError('Each query pair must be an iterable [name, value] tuple'), { code: 'ERR_INVALID_TUPLE' });
            return both.map(part => String(part).toWellFormed());
          })
          : Object.keys(init).map(key => [key.toWellFormed(), String(init[key]).toWellFormed()]);
      } else {
        this.#pairs = pairsOf(String(init).toWellFormed());
      }
    }

    static reset(params, query) { params.#pairs = pairsOf(query); }
    static listen(params, changed) { params.#changed = changed; }
    #change(pairs) { this.#pairs = pairs; this.#changed(this.toString()); }

    get size() { return this.#pairs.length; }
    append(name, value) { this.#change([...this.#pairs, [String(name), String(value)]]); }
    delete(name, value) { this.#change(this.#pairs.filter(([n, v]) => n !== String(name) || (value !== undefined && v !== String(value)))); }
    get(name) { return (this.#pairs.find(([n]) => n === String(name)) ?? [null, null])[1]; }
    getAll(name) { return this.#pairs.filter(([n]) => n === String(name)).map(([, value]) => value); }
    has(name, value) { return this.#pairs.some(([n, v]) => n === String(name) && (value === undefined || v === String(value))); }

    set(name, value) {
      let isSet = false;
      const pairs = this.#pairs.flatMap(pair => {
        if (pair[0] !== String(name)) return [pair];
        if (isSet) return [];
        isSet = true;
        return [[pair[0], String(value)]];
      });
      this.#change(isSet ? pairs : [...pairs, [String(name), String(value)]]);
    }

    sort() { this.#change([...this.#pairs].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0)); }
    forEach(visit, self) { for (const [name, value] of this.#pairs) visit.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&'); }

    [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
      const shown = this.#pairs.map(([name, value]) => `${inspect(name)} => ${inspect(value)}`);
      return shown.length > 0 ? `URLSearchParams { ${shown.join(', ')} }` : 'URLSearchParams {}';
    }
  }
  Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: 'URLSearchParams', configurable: true });
  library.URLSearchParams = URLSearchParams;
  library.resetParams = URLSearchParams.reset;
  library.onParamsChange = URLSearchParams.listen;
})
