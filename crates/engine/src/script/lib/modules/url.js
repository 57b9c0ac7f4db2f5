// `url`: URL and URLSearchParams of functions, and addresses taken apart as before there was a standard,
// for which there is no crate.
(function (library, native, require) {
  'use strict';

  const { URL, URLSearchParams, fail, wrongArgument } = library;
  const querystring = require('querystring'), punycode = require('punycode');
  const withSlashes = protocol => /^(https?|ftp|gopher|file|wss?):?$/.test(protocol ?? '');

  function Url() {
    for (const part of ['protocol', 'slashes', 'auth', 'host', 'port', 'hostname', 'hash', 'search', 'query', 'pathname', 'path', 'href']) {
      this[part] = null;
    }
  }
  Url.prototype.format = function () { return written(this); };
  Url.prototype.parse = function (text, parseQuery, slashesDenoteHost) { return Object.assign(this, parse(text, parseQuery, slashesDenoteHost)); };
  Url.prototype.resolve = function (to) { return resolve(this.format(), to); };
  Url.prototype.resolveObject = function (to) { return parse(this.resolve(to)); };

  // Reads `user:secret@host:port`; answers what of it is no host.
  function readAuthority(url, text) {
    const at = text.lastIndexOf('@');
    if (at >= 0) {
      url.auth = decodeURIComponent(text.slice(0, at));
      text = text.slice(at + 1);
    }
    const end = text.search(/[\t\n\r "'<>\\^`{|};]/);
    const rest = end < 0 ? '' : text.slice(end);
    const [, host, port] = /^(.*?)(?::(\d*))?$/.exec(end < 0 ? text : text.slice(0, end));
    if (port) url.port = port;
    const isIpv6 = /^\[.*\]$/.test(host);
    url.hostname = isIpv6 ? host.slice(1, -1).toLowerCase() : punycode.toASCII(host.toLowerCase());
    url.host = (isIpv6 ? `[${url.hostname}]` : url.hostname) + (port ? `:${port}` : '');
    return rest;
  }

  function parse(text, parseQuery = false, slashesDenoteHost = false) {
    if (text instanceof Url) return text;
    if (typeof text !== 'string') throw wrongArgument('"url" argument', 'of type string', text);
    const url = new Url();
    let [, rest, tail] = /^([^?#]*)([^]*)$/.exec(text.trim());
    rest = rest.replaceAll('\\', '/');
    const protocol = /^[a-z0-9.+-]+:/i.exec(rest);
    if (protocol !== null) {
      url.protocol = protocol[0].toLowerCase();
      rest = rest.slice(protocol[0].length);
    }
    const isScript = url.protocol === 'javascript:';
    if (rest.startsWith('//') && !isScript && (protocol !== null || slashesDenoteHost || /^\/\/[^@/]+@[^@/]+/.test(rest))) {
      url.slashes = true;
      rest = rest.slice(2);
    }
    if (!isScript && (url.slashes || (protocol !== null && !withSlashes(url.protocol)))) {
      const end = rest.search(/\//);
      const authority = end < 0 ? rest : rest.slice(0, end);
      rest = readAuthority(url, authority) + (end < 0 ? '' : rest.slice(end));
      if (rest !== '' && !rest.startsWith('/')) rest = '/' + rest;
    }
    const percent = c => '%' + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
    const escaped = part => isScript ? part : part.replace(/[\t\n\r "'<>\\^`{|}]/g, percent);
    const [, search, hash] = /^([^#]*)([^]*)$/.exec(escaped(tail));
    if (hash !== '') url.hash = hash;
    if (search !== '') [url.search, url.query] = [search, search.slice(1)];
    if (parseQuery) url.query = querystring.parse(url.query ?? '');
    if (rest !== '') url.pathname = escaped(rest);
    else if (withSlashes(url.protocol) && url.hostname) url.pathname = '/';
    if (url.pathname !== null || url.search !== null) url.path = (url.pathname ?? '') + (url.search ?? '');
    url.href = written(url);
    return url;
  }

  function written(url) {
    const auth = url.auth ? encodeURIComponent(url.auth).replace(/%3A/i, ':') + '@' : '';
    let host = false;
    if (url.host) host = auth + url.host;
    else if (url.hostname) host = auth + (url.hostname.includes(':') ? `[${url.hostname}]` : url.hostname) + (url.port ? `:${url.port}` : '');
    let protocol = url.protocol ?? '';
    if (protocol !== '' && !protocol.endsWith(':')) protocol += ':';
    let pathname = (url.pathname ?? '').replace(/[?#]/g, encodeURIComponent);
    if (url.slashes || (withSlashes(protocol) && host !== false)) {
      host = `//${host || ''}`;
      if (pathname !== '' && !pathname.startsWith('/')) pathname = '/' + pathname;
    }
    const isQuery = typeof url.query === 'object' && url.query !== null;
    let search = url.search ?? (isQuery ? querystring.stringify(url.query) : '');
    if (search !== '' && !search.startsWith('?')) search = '?' + search;
    let hash = url.hash ?? '';
    if (hash !== '' && !hash.startsWith('#')) hash = '#' + hash;
    return protocol + (host || '') + pathname + search.replaceAll('#', '%23') + hash;
  }

  function format(url, options) {
    if (typeof url === 'string') return written(parse(url));
    if (typeof url !== 'object' || url === null) throw wrongArgument('"urlObject" argument', 'of type object or string', url);
    if (!(url instanceof URL)) return written(url);
    const copy = new URL(url.href);
    if (options?.auth === false) copy.username = copy.password = '';
    if (options?.fragment === false) copy.hash = '';
    if (options?.search === false) copy.search = '';
    return options?.unicode ? copy.href.replace(copy.hostname, punycode.toUnicode(copy.hostname)) : copy.href;
  }

  // Relative ones are resolved in a place that is nowhere.
  function resolve(from, to) {
    const nowhere = 'nowhere://x/';
    const resolved = new URL(to, new URL(from, nowhere));
    if (!resolved.href.startsWith(nowhere)) return resolved.href;
    const { pathname, search, hash } = resolved;
    return (from.startsWith('/') || to.startsWith('/') ? pathname : pathname.slice(1)) + search + hash;
  }

  function fileURLToPath(given) {
    const url = typeof given === 'string' ? new URL(given) : given;
    if (url.protocol !== 'file:') throw fail(TypeError, 'ERR_INVALID_URL_SCHEME', 'The URL must be of scheme file');
    return decodeURIComponent(url.pathname);
  }
  const pathToFileURL = path => new URL('file://' + require('path').resolve(path).replace(/[%\\\n\r\t?#]/g, encodeURIComponent));

  function urlToHttpOptions(url) {
    const { protocol, hostname, hash, search, pathname, href, port, username, password } = url;
    const name = hostname.replace(/^\[(.*)\]$/, '$1');
    const options = { __proto__: null, protocol, hostname: name, hash, search, pathname, path: pathname + search, href };
    if (port !== '') options.port = Number(port);
    if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return options;
  }

  return {
    Url, parse, resolve, resolveObject: (from, to) => from ? parse(resolve(from, to)) : to, format, URL, URLSearchParams,
    domainToASCII: name => { try { return new URL(`ws://${name}`).hostname; } catch { return ''; } },
    domainToUnicode: name => { try { return punycode.toUnicode(new URL(`ws://${name}`).hostname); } catch { return ''; } },
    pathToFileURL, fileURLToPath, urlToHttpOptions,
  };
})
