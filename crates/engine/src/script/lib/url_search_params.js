// `URLSearchParams` by the WHATWG standard; script/url.rs parses and writes.
(function (library, native) {
  'use strict';

  const text = value => String(value).toWellFormed();
  const pairsOf = query => native.queryPairs(query.replace(/^\?/, ''));

  class URLSearchParams {
    #pairs;
    #changed = () => {};

    constructor(init = '') {
      if (typeof init === 'object' && init !== null || typeof init === 'function') {
        this.#pairs = typeof init[Symbol.iterator] === 'function'
          ? Array.from(init, pair => {
            const both = Array.from(pair);
            if (both.length !== 2) throw Object.assign(new TypeError('Each query pair must be an iterable [name, value] tuple'), { code: 'ERR_INVALID_TUPLE' });
            return both.map(text);
          })
          : Object.keys(init).map(key => [text(key), text(init[key])]);
      } else {
        this.#pairs = pairsOf(text(init));
      }
    }

    static reset(params, query) { params.#pairs = pairsOf(query); }
    static listen(params, changed) { params.#changed = changed; }
    #change(pairs) { this.#pairs = pairs; this.#changed(this.toString()); }

    get size() { return this.#pairs.length; }
    append(name, value) { this.#change([...this.#pairs, [text(name), text(value)]]); }
    delete(name, value) { this.#change(this.#pairs.filter(([n, v]) => n !== text(name) || (value !== undefined && v !== text(value)))); }
    get(name) { return (this.#pairs.find(([n]) => n === text(name)) ?? [null, null])[1]; }
    getAll(name) { return this.#pairs.filter(([n]) => n === text(name)).map(([, value]) => value); }
    has(name, value) { return this.#pairs.some(([n, v]) => n === text(name) && (value === undefined || v === text(value))); }

    set(name, value) {
      let isSet = false;
      const pairs = this.#pairs.flatMap(pair => {
        if (pair[0] !== text(name)) return [pair];
        if (isSet) return [];
        isSet = true;
        return [[pair[0], text(value)]];
      });
      this.#change(isSet ? pairs : [...pairs, [text(name), text(value)]]);
    }

    sort() { this.#change([...this.#pairs].sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0)); }
    forEach(visit, self) { for (const [name, value] of this.#pairs) visit.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
    *keys() { for (const [name] of this.#pairs) yield name; }
    *values() { for (const [, value] of this.#pairs) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return native.queryText(this.#pairs); }

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
