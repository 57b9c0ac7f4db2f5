// `punycode` (RFC 3492): both ways, for labels and for whole names.
(function (library, native, require) {
  'use strict';

  const { encode, adapt, parameters: { BASE, LOW, HIGH, FIRST_BIAS, FIRST_CODE } } = library.punycode;
  const fail = () => new RangeError('Invalid input');
  const digitOf = c => c >= '0' && c <= '9' ? c.charCodeAt(0) - 22 : /^[a-z]$/i.test(c) ? c.toLowerCase().charCodeAt(0) - 97 : BASE;

  function decode(text) {
    const last = Math.max(text.lastIndexOf('-'), 0);
    const codes = Array.from(text.slice(0, last), c => c.charCodeAt(0));
    if (codes.some(c => c >= 128)) throw new RangeError('Illegal input >= 0x80 (not a basic code point)');
    let code = FIRST_CODE, at = 0, bias = FIRST_BIAS;
    for (let next = last > 0 ? last + 1 : 0; next < text.length;) {
      const before = at;
      for (let weight = 1, k = BASE; ; k += BASE) {
        if (next >= text.length) throw fail();
        const digit = digitOf(text[next++]);
        if (digit >= BASE || digit > (0x7fffffff - at) / weight) throw fail();
        at += digit * weight;
        const threshold = k <= bias ? LOW : k >= bias + HIGH ? HIGH : k - bias;
        if (digit < threshold) break;
        weight *= BASE - threshold;
      }
      bias = adapt(at - before, codes.length + 1, before === 0);
      code += Math.floor(at / (codes.length + 1));
      at %= codes.length + 1;
      codes.splice(at++, 0, code);
    }
    return String.fromCodePoint(...codes);
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
