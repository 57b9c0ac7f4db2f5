// `URL` by the WHATWG standard (https://url.spec.whatwg.org); script/url.rs parses.
(function (library, native) {
  'use strict';

  const text = value => String(value).toWellFormed();
  const settable = ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'hash'];
  const shownOrder = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash'];

  function parse(input, base) {
    const parts = native.url(input, base);
    if (parts === undefined) {
      throw Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input }, base === undefined ? {} : { base });
    }
    return parts;
  }

  class URL {
    #parts;
    #searchParams;

    constructor(input, base) {
      if (arguments.length === 0) throw Object.assign(new TypeError('The "url" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
      this.#parts = parse(text(input), base === undefined ? undefined : text(base));
      this.#searchParams = new library.URLSearchParams(this.#parts.search);
      library.onParamsChange(this.#searchParams, query => { this.#parts = native.urlWith(this.#parts.href, 'search', query); });
    }

    static canParse(input, base) {
      try { return Boolean(new URL(input, base)); } catch { return false; }
    }

    static {
      for (const part of settable) {
        Object.defineProperty(this.prototype, part, {
          get() { return this.#parts[part]; },
          set(value) { this.#parts = native.urlWith(this.#parts.href, part, text(value)); },
          configurable: true,
        });
      }
    }

    get href() { return this.#parts.href; }
    set href(value) {
      this.#parts = parse(text(value));
      library.resetParams(this.#searchParams, this.#parts.search);
    }

    get search() { return this.#parts.search; }
    set search(value) {
      this.#parts = native.urlWith(this.#parts.href, 'search', text(value));
      library.resetParams(this.#searchParams, this.#parts.search);
    }

    get origin() { return this.#parts.origin; }
    get searchParams() { return this.#searchParams; }
    toString() { return this.href; }
    toJSON() { return this.href; }

    [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
      const shown = Object.fromEntries(shownOrder.map(name => [name, this[name]]));
      return `URL ${inspect(shown, options)}`;
    }
  }
  Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });
  library.URL = URL;
})
