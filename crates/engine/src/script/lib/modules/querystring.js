// `querystring`: what stands behind the `?` of an address. Node.js escapes and joins otherwise than
// `URLSearchParams`, and lets functions change how.
(function (library, native, require) {
  'use strict';

  // Text from bytes with `%`; what is no UTF-8 becomes a question mark in a diamond.
  function unescapeBuffer(text) {
    const bytes = library.Buffer.from(String(text));
    let end = 0;
    for (let at = 0; at < bytes.length; at++, end++) {
      const code = bytes[at] === 37 && bytes.toString('latin1', at + 1, at + 3);
      bytes[end] = /^[0-9a-f]{2}$/i.test(code) ? parseInt(code, 16) : bytes[at];
      if (/^[0-9a-f]{2}$/i.test(code)) at += 2;
    }
    return bytes.subarray(0, end);
  }
  const unescape = text => {
    try { return decodeURIComponent(text); } catch { return unescapeBuffer(text).toString(); }
  };

  function escape(value) {
    const text = typeof value === 'string' ? value : typeof value === 'object' ? String(value) : `${value}`;
    if (!text.isWellFormed()) throw library.fail(URIError, 'ERR_INVALID_URI', 'URI malformed');
    return encodeURIComponent(text);
  }

  const primitive = value => typeof value === 'string' ? value
    : (typeof value === 'number' && Number.isFinite(value)) || typeof value === 'bigint' || typeof value === 'boolean' ? `${value}` : '';

  function stringify(object, separator, equals, options) {
    if (typeof object !== 'object' || object === null) return '';
    const encode = options?.encodeURIComponent ?? querystring.escape;
    return Object.keys(object).flatMap(key => {
      const before = encode(primitive(key)) + (equals || '=');
      const value = object[key];
      return Array.isArray(value) ? value.map(one => before + encode(primitive(one))) : before + encode(primitive(value));
    }).join(separator || '&');
  }

  function parse(text, separator, equals, options) {
    const found = Object.create(null);
    if (typeof text !== 'string' || text === '') return found;
    const decode = options?.decodeURIComponent ?? querystring.unescape;
    const decoded = part => {
      const spaced = part.replaceAll('+', ' ');
      if (!spaced.includes('%') && decode === unescape) return spaced;
      try { return decode(part.replaceAll('+', '%20')); } catch { return unescape(spaced); }
    };
    const most = typeof options?.maxKeys === 'number' ? options.maxKeys : 1000;
    let pairs = text.split(separator || '&').filter(pair => pair !== '');
    if (most > 0) pairs = pairs.slice(0, most);
    for (const pair of pairs) {
      const sign = equals || '=';
      const at = pair.indexOf(sign);
      const key = decoded(at < 0 ? pair : pair.slice(0, at)), value = at < 0 ? '' : decoded(pair.slice(at + sign.length));
      if (!(key in found)) found[key] = value;
      else if (Array.isArray(found[key])) found[key].push(value);
      else found[key] = [found[key], value];
    }
    return found;
  }

  const querystring = { unescapeBuffer, unescape, escape, stringify, encode: stringify, parse, decode: parse };
  return querystring;
})
