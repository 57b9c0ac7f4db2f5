// Host names with other than ASCII letters, as they travel (RFC 3492).
(function (library, native) {
  'use strict';

  const BASE = 36, LOW = 1, HIGH = 26, SKEW = 38, DAMP = 700, FIRST_BIAS = 72, FIRST_CODE = 128;
  const digit = value => String.fromCharCode(value < 26 ? value + 97 : value + 22);

  function adapt(delta, count, isFirst) {
    delta = isFirst ? Math.floor(delta / DAMP) : delta >> 1;
    delta += Math.floor(delta / count);
    let k = 0;
    for (; delta > ((BASE - LOW) * HIGH) >> 1; k += BASE) delta = Math.floor(delta / (BASE - LOW));
    return k + Math.floor((BASE - LOW + 1) * delta / (delta + SKEW));
  }

  function encode(label) {
    const codes = Array.from(label, c => c.codePointAt(0));
    const basic = codes.filter(c => c < 128);
    let text = String.fromCharCode(...basic) + (basic.length > 0 ? '-' : '');
    let code = FIRST_CODE, delta = 0, bias = FIRST_BIAS, done = basic.length;
    while (done < codes.length) {
      const next = Math.min(...codes.filter(c => c >= code));
      delta += (next - code) * (done + 1);
      code = next;
      for (const c of codes) {
        if (c < code) delta++;
        if (c !== code) continue;
        let rest = delta;
        for (let k = BASE; ; k += BASE) {
          const threshold = k <= bias ? LOW : k >= bias + HIGH ? HIGH : k - bias;
          if (rest < threshold) break;
          text += digit(threshold + (rest - threshold) % (BASE - threshold));
          rest = Math.floor((rest - threshold) / (BASE - threshold));
        }
        text += digit(rest);
        bias = adapt(delta, done + 1, done === basic.length);
        delta = 0;
        done++;
      }
      delta++;
      code++;
    }
    return text;
  }

  library.punycode = { encode, adapt, parameters: { BASE, LOW, HIGH, FIRST_BIAS, FIRST_CODE } };
  library.asciiHost = host => host.normalize('NFKC').toLowerCase().normalize('NFC')
    .split(/[.\u3002\uff0e\uff61]/).map(label => /[^\x00-\x7f]/.test(label) ? 'xn--' + encode(label) : label).join('.');
})
