// `URL` by the WHATWG standard (https://url.spec.whatwg.org), for the addresses that flows meet.
(function (library, native) {
  'use strict';

  const special = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21', 'file:': '' };
  const isSpecial = scheme => Object.hasOwn(special, scheme);

  // The standard's percent-encode sets, each as what it adds to control and non-ASCII characters.
  const sets = {
    fragment: ' "<>`', query: ' "#<>', specialQuery: ' "#<>\'', path: ' "#<>?`{}^', userinfo: ' "#<>?`{}/:;=@[\\]^|',
    opaque: '',
  };
  function percent(text, set) {
    const extra = sets[set];
    let encoded = '';
    for (const c of text) {
      if (c > '\x1f' && c < '\x7f' && !extra.includes(c)) {
        encoded += c;
      } else {
        for (const byte of new Uint8Array(native.utf8(c))) encoded += '%' + byte.toString(16).toUpperCase().padStart(2, '0');
      }
    }
    return encoded;
  }
  const decodePercent = text => text.includes('%')
    ? library.Buffer.from(text.replace(/%([0-9a-f]{2})|([^%]+)|%/gi, (all, hex) => hex ? hex : library.Buffer.from(all).toString('hex')), 'hex').toString()
    : text;

  const invalid = input => Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input });

  // A part of an IPv4 address: decimal, octal or hexadecimal.
  function ipv4Part(text) {
    if (text === '') return NaN;
    if (/^0x[0-9a-f]*$/i.test(text)) return text.length === 2 ? 0 : parseInt(text, 16);
    if (/^0[0-7]*$/.test(text)) return parseInt(text, 8);
    return /^\d+$/.test(text) ? parseInt(text, 10) : NaN;
  }
  function ipv4(host) {
    const parts = host.split('.');
    if (parts.length > 1 && parts[parts.length - 1] === '') parts.pop();
    const last = parts[parts.length - 1];
    if (!/^\d+$/.test(last) && Number.isNaN(ipv4Part(last))) return undefined;
    const numbers = parts.map(ipv4Part);
    if (parts.length > 4 || numbers.some(Number.isNaN)) return null;
    const tail = numbers.pop();
    if (numbers.some(n => n > 255) || tail >= 256 ** (4 - numbers.length)) return null;
    const whole = numbers.reduce((sum, n, i) => sum + n * 256 ** (3 - i), tail);
    return [24, 16, 8, 0].map(shift => Math.floor(whole / 2 ** shift) % 256).join('.');
  }

  function ipv6(text) {
    const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
    if (dotted) {
      const bytes = dotted[2].split('.').map(Number);
      if (bytes.some(b => b > 255)) return null;
      text = `${dotted[1]}${(bytes[0] * 256 + bytes[1]).toString(16)}:${(bytes[2] * 256 + bytes[3]).toString(16)}`;
    }
    const halves = text.split('::');
    if (halves.length > 2) return null;
    const pieces = half => half === '' ? [] : half.split(':');
    const front = pieces(halves[0]), back = halves.length === 2 ? pieces(halves[1]) : [];
    const gap = 8 - front.length - back.length;
    if (halves.length === 2 ? gap < 1 : gap !== 0) return null;
    const all = [...front, ...Array(gap).fill('0'), ...back];
    if (!all.every(piece => /^[0-9a-f]{1,4}$/i.test(piece))) return null;
    const short = all.map(piece => parseInt(piece, 16).toString(16));
    let best = { at: -1, length: 1 };
    for (let i = 0; i < 8; i++) {
      let length = 0;
      while (short[i + length] === '0') length++;
      if (length > best.length) best = { at: i, length };
    }
    if (best.at < 0) return `[${short.join(':')}]`;
    return `[${short.slice(0, best.at).join(':')}::${short.slice(best.at + best.length).join(':')}]`;
  }

  // A host as it is written; null if it is none.
  function hostOf(text, scheme) {
    if (text.startsWith('[')) return text.endsWith(']') ? ipv6(text.slice(1, -1)) : null;
    if (!isSpecial(scheme)) return /[\x00\t\n\r #/<>?@[\\\]^|]/.test(text) ? null : percent(text, 'opaque');
    const host = library.asciiHost(decodePercent(text));
    if (host === '' || /[\x00-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(host)) return null;
    const address = ipv4(host);
    return address === undefined ? host : address;
  }

  const isDot = part => /^(\.|%2e)$/i.test(part), isDoubleDot = part => /^(\.|%2e){2}$/i.test(part);
  function pathOf(text, scheme, base) {
    const parts = text.split(isSpecial(scheme) ? /[/\\]/ : '/');
    const path = [...base];
    parts.forEach((part, i) => {
      const isLast = i === parts.length - 1;
      if (isDoubleDot(part)) {
        if (!(scheme === 'file:' && path.length === 1 && /^[a-z]:$/i.test(path[0]))) path.pop();
        if (isLast) path.push('');
      } else if (isDot(part)) {
        if (isLast) path.push('');
      } else {
        path.push(scheme === 'file:' && path.length === 0 && /^[a-z][:|]$/i.test(part) ? part[0] + ':' : percent(part, 'path'));
      }
    });
    return path;
  }

  const defaults = { scheme: '', username: '', password: '', host: null, port: '', path: [], opaque: null, query: null, fragment: null };

  function authority(url, text) {
    const at = text.lastIndexOf('@');
    if (at >= 0) {
      const [, username, password = ''] = /^([^:]*):?([^]*)$/.exec(text.slice(0, at));
      url.username = percent(username, 'userinfo');
      url.password = percent(password, 'userinfo');
    }
    const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::([^]*))?$/.exec(text.slice(at + 1)) ?? [];
    if (host === undefined || (host === '' && (isSpecial(url.scheme) && url.scheme !== 'file:' || at >= 0 || port))) return false;
    url.host = host === '' ? '' : hostOf(host, url.scheme);
    if (url.host === null || !setPort(url, port ?? '')) return false;
    if (url.scheme === 'file:' && url.host === 'localhost') url.host = '';
    return true;
  }

  function setPort(url, text) {
    if (!/^\d*$/.test(text) || Number(text) > 65535) return false;
    const port = text === '' ? '' : String(Number(text));
    url.port = port === special[url.scheme] ? '' : port;
    return true;
  }

  // A record of the parts; null if the text is no address.
  function parse(input, base) {
    let text = input.replace(/^[\x00-\x20]+|[\x00-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
    const url = { ...defaults };
    const hash = text.indexOf('#');
    if (hash >= 0) {
      url.fragment = percent(text.slice(hash + 1), 'fragment');
      text = text.slice(0, hash);
    }
    const scheme = /^([a-z][a-z0-9+.-]*:)([^]*)$/i.exec(text);
    if (scheme !== null) {
      url.scheme = scheme[1].toLowerCase();
      const isRelative = base !== null && base.scheme === url.scheme && isSpecial(url.scheme) && !/^[/\\]/.test(scheme[2]);
      text = scheme[2];
      if (!isRelative) return absolute(url, text, base);
    } else if (base === null || (base.opaque !== null && (text !== '' || hash < 0))) {
      return null;
    }
    return relative(url, text, base);
  }

  function splitQuery(url, text) {
    const mark = text.indexOf('?');
    if (mark < 0) return text;
    url.query = percent(text.slice(mark + 1), isSpecial(url.scheme) ? 'specialQuery' : 'query');
    return text.slice(0, mark);
  }

  function absolute(url, text, base) {
    text = splitQuery(url, text);
    const slashes = isSpecial(url.scheme) ? (url.scheme === 'file:' ? /^[/\\]{2}/ : /^[/\\]*/) : /^\/\//;
    if (!slashes.test(text)) {
      if (url.scheme === 'file:') {
        url.host = '';
        url.path = pathOf(text.replace(/^[/\\]/, ''), url.scheme, []);
        return url;
      }
      if (text.startsWith('/')) url.path = pathOf(text.slice(1), url.scheme, []);
      else url.opaque = percent(text, 'opaque');
      return url;
    }
    return withAuthority(url, text.replace(slashes, ''));
  }

  function withAuthority(url, text) {
    const end = text.search(isSpecial(url.scheme) ? /[/\\]/ : /\//);
    const [front, path] = end < 0 ? [text, null] : [text.slice(0, end), text.slice(end + 1)];
    if (url.scheme === 'file:' && /^[a-z][:|]$/i.test(front)) {
      url.host = '';
      url.path = pathOf(text, url.scheme, []);
      return url;
    }
    if (!authority(url, front)) return null;
    url.path = path === null ? (isSpecial(url.scheme) ? [''] : []) : pathOf(path, url.scheme, []);
    return url;
  }

  function relative(url, text, base) {
    url.scheme = base.scheme;
    const hadQuery = text.includes('?');
    text = splitQuery(url, text);
    const slash = isSpecial(url.scheme) ? /^[/\\]/ : /^\//, double = isSpecial(url.scheme) ? /^[/\\]{2}/ : /^\/\//;
    if (double.test(text)) return withAuthority(url, text.slice(2).replace(isSpecial(url.scheme) && url.scheme !== 'file:' ? /^[/\\]+/ : /^$/, ''));
    for (const part of ['username', 'password', 'host', 'port', 'opaque']) url[part] = base[part];
    if (slash.test(text)) url.path = pathOf(text.slice(1), url.scheme, []);
    else if (text !== '') url.path = pathOf(text, url.scheme, base.path.slice(0, -1));
    else {
      url.path = [...base.path];
      if (!hadQuery) url.query = base.query;
    }
    return url;
  }

  const pathText = url => url.opaque ?? (url.path.length > 0 ? '/' + url.path.join('/') : '');
  function serialize(url) {
    let text = url.scheme;
    if (url.host !== null) {
      const user = url.username || url.password ? url.username + (url.password ? ':' + url.password : '') + '@' : '';
      text += '//' + user + url.host + (url.port ? ':' + url.port : '');
    } else if (url.opaque === null && url.path.length > 1 && url.path[0] === '') {
      text += '/.';
    }
    return text + pathText(url) + (url.query !== null ? '?' + url.query : '') + (url.fragment !== null ? '#' + url.fragment : '');
  }

  class URL {
    #url;
    #searchParams;

    constructor(input, base) {
      if (arguments.length === 0) throw Object.assign(new TypeError('The "url" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
      const text = String(input).toWellFormed();
      const against = base === undefined ? null : parse(String(base).toWellFormed(), null);
      if (base !== undefined && against === null) throw Object.assign(invalid(text), { base: String(base) });
      this.#url = parse(text, against);
      if (this.#url === null) throw invalid(text);
      this.#searchParams = new library.URLSearchParams(this.#url.query ?? '');
      library.onParamsChange(this.#searchParams, query => { this.#url.query = query === '' ? null : query; });
    }

    static canParse(input, base) {
      try { return Boolean(new URL(input, base)); } catch { return false; }
    }

    get href() { return serialize(this.#url); }
    set href(value) {
      const url = parse(String(value), null);
      if (url === null) throw invalid(String(value));
      this.#url = url;
      library.resetParams(this.#searchParams, url.query ?? '');
    }

    get origin() {
      const { scheme, opaque } = this.#url;
      if (scheme === 'blob:' && opaque !== null) {
        const inner = parse(opaque, null);
        return inner !== null && /^https?:$/.test(inner.scheme) ? `${inner.scheme}//${hostText(inner)}` : 'null';
      }
      return isSpecial(scheme) && scheme !== 'file:' ? `${scheme}//${this.host}` : 'null';
    }

    get protocol() { return this.#url.scheme; }
    set protocol(value) {
      const scheme = /^([a-z][a-z0-9+.-]*)/i.exec(String(value));
      if (scheme === null) return;
      const next = scheme[1].toLowerCase() + ':';
      if (isSpecial(next) !== isSpecial(this.#url.scheme) || (next === 'file:' && (this.#url.username || this.#url.port))) return;
      this.#url.scheme = next;
      if (this.#url.port === special[next]) this.#url.port = '';
    }

    get username() { return this.#url.username; }
    set username(value) { if (this.#url.host && this.#url.scheme !== 'file:') this.#url.username = percent(String(value), 'userinfo'); }
    get password() { return this.#url.password; }
    set password(value) { if (this.#url.host && this.#url.scheme !== 'file:') this.#url.password = percent(String(value), 'userinfo'); }

    get host() { return hostText(this.#url); }
    set host(value) {
      const [, host, port] = /^(\[[^\]]*\]|[^:/?#\\]*)(?::(\d*))?/.exec(String(value));
      this.hostname = host;
      if (port) setPort(this.#url, port);
    }

    get hostname() { return this.#url.host ?? ''; }
    set hostname(value) {
      if (this.#url.opaque !== null) return;
      const host = hostOf(/^(\[[^\]]*\]|[^:/?#\\]*)/.exec(String(value))[0], this.#url.scheme);
      if (host !== null) this.#url.host = host;
    }

    get port() { return this.#url.port; }
    set port(value) {
      if (!this.#url.host || this.#url.scheme === 'file:') return;
      if (String(value) === '') this.#url.port = '';
      else setPort(this.#url, /^\d*/.exec(String(value))[0] || 'x');
    }

    get pathname() { return pathText(this.#url); }
    set pathname(value) {
      if (this.#url.opaque === null) this.#url.path = pathOf(String(value).replace(/^[/\\]/, ''), this.#url.scheme, []).map(part => part.replace(/[?#]/g, encodeURIComponent));
    }

    get search() { return this.#url.query ? '?' + this.#url.query : ''; }
    set search(value) {
      const text = String(value).replace(/^\?/, '');
      this.#url.query = text === '' ? null : percent(text, isSpecial(this.#url.scheme) ? 'specialQuery' : 'query');
      library.resetParams(this.#searchParams, this.#url.query ?? '');
    }

    get searchParams() { return this.#searchParams; }

    get hash() { return this.#url.fragment ? '#' + this.#url.fragment : ''; }
    set hash(value) {
      const text = String(value).replace(/^#/, '');
      this.#url.fragment = text === '' ? null : percent(text, 'fragment');
    }

    toString() { return this.href; }
    toJSON() { return this.href; }

    [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
      const shown = {};
      for (const name of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash']) {
        shown[name] = this[name];
      }
      return `URL ${inspect(shown, options)}`;
    }
  }
  const hostText = url => (url.host ?? '') + (url.port ? ':' + url.port : '');
  Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });
  library.URL = URL;
})
