// `punycode` (RFC 3492): both ways, for labels and for whole names; script/url.rs converts.
(function (library, native, require) {
  'use strict';

  const valid = result => {
    if (result === undefined) throw new RangeError('Invalid input');
    return result;
  };
  const encode = text => valid(native.toPunycode(String(text).toWellFormed()));
  function decode(text) {
    if (/[^\0-\x7f].*-/s.test(text)) throw new RangeError('Illegal input >= 0x80 (not a basic code point)');
    return valid(native.fromPunycode(String(text).toWellFormed()));
  }

  const inLabels = (name, convert) => {
    const [user, host] = name.includes('@') ? [name.slice(0, name.indexOf('@') + 1), name.slice(name.indexOf('@') + 1)] : ['', name];
    return user + host.split(/[.\u3002\uff0e\uff61]/).map(convert).join('.');
  };
  return {
    version: '2.1.0',
    ucs2: { decode: text => Array.from(text, c => c.codePointAt(0)), encode: codes => String.fromCodePoint(...codes) },
    decode, encode,
    toASCII: name => inLabels(name, label => /[^\0-\x7f]/.test(label) ? 'xn--' + encode(label) : label),
    toUnicode: name => inLabels(name, label => label.startsWith('xn--') ? decode(label.slice(4).toLowerCase()) : label),
  };
})
