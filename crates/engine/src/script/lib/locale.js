// What depends on language and place, as far as it goes without ICU's data: English of the United States, and how a few
// other languages write numbers and numeric dates. Everything else is en-US.
(function (library, native) {
  'use strict';

  const narrow = '\u202f';
  // Decimal sign, sign between thousands, numeric date, short date, whether the day has 24 hours, what stands between
  // date and time.
  const written = {
    'en-US': ['.', ',', 'm/d/y', 'm/d/yy', false, ', '],
    'en-GB': ['.', ',', 'dd/mm/y', 'dd/mm/y', true, ', '],
    'en-CA': ['.', ',', 'y-mm-dd', 'y-mm-dd', false, ', '],
    'de-DE': [',', '.', 'd.m.y', 'dd.mm.yy', true, ', '],
    'fr-FR': [',', narrow, 'dd/mm/y', 'dd/mm/y', true, ' '],
    'sv-SE': [',', '\u00a0', 'y-mm-dd', 'y-mm-dd', true, ' '],
  };
  const languages = { en: 'en-US', de: 'de-DE', fr: 'fr-FR', sv: 'sv-SE' };
  const symbols = { USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩' };
  const localeOf = locales => {
    const asked = Array.isArray(locales) ? locales[0] : locales;
    if (asked === undefined) return 'en-US';
    if (typeof asked !== 'string' || !/^[a-zA-Z]{2,8}([-_][a-zA-Z0-9]{1,8})*$/.test(asked)) {
      throw new RangeError(`Incorrect locale information provided`);
    }
    return Object.hasOwn(written, asked) ? asked : languages[asked.slice(0, 2).toLowerCase()] ?? 'en-US';
  };

  library.languageOf = locales => {
    const locale = localeOf(locales);
    const [, , date, shortDate, clock24, between] = written[locale];
    return { locale, date, shortDate, clock24, between };
  };

  function numberText(value, locales, options = {}) {
    const locale = localeOf(locales);
    const [point, group] = written[locale];
    const style = options.style ?? 'decimal';
    if (style === 'currency' && options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
    const isWhole = style === 'currency' && ['JPY', 'KRW'].includes(options.currency);
    const usual = style === 'currency' ? (isWhole ? [0, 0] : [2, 2]) : style === 'percent' ? [0, 0] : [0, 3];
    const least = options.minimumFractionDigits ?? Math.min(usual[0], options.maximumFractionDigits ?? usual[0]);
    const most = options.maximumFractionDigits ?? Math.max(usual[1], least);
    if (!(least >= 0 && most >= least && most <= 100)) throw new RangeError('maximumFractionDigits value is out of range.');
    const big = typeof value === 'bigint';
    const n = big ? value : Number(value) * (style === 'percent' ? 100 : 1);
    const negative = n < 0 || Object.is(n, -0);
    let text;
    if (!big && Number.isNaN(n)) text = 'NaN';
    else if (!big && !Number.isFinite(n)) text = '∞';
    else {
      const digits = big ? String(n < 0n ? -n : n) : digitsOf(Math.abs(n), most, options.maximumSignificantDigits);
      let [whole, fraction = ''] = digits.split('.');
      if (options.maximumSignificantDigits === undefined) fraction = fraction.replace(/0+$/, '').padEnd(least, '0');
      whole = whole.padStart(options.minimumIntegerDigits ?? 1, '0');
      if (options.useGrouping !== false) whole = whole.replace(/\B(?=(\d{3})+$)/g, group);
      text = fraction === '' ? whole : whole + point + fraction;
    }
    if (style === 'percent') text += locale.startsWith('en') ? '%' : '\u00a0%';
    if (style === 'currency') {
      const sign = options.currencyDisplay === 'code' ? `${options.currency}\u00a0` : symbols[options.currency] ?? `${options.currency}\u00a0`;
      text = locale.startsWith('en') ? sign + text : `${text}\u00a0${sign.trim()}`;
    }
    return (negative ? '-' : '') + text;
  }

  // Decimal digits without an exponent, rounded half away from zero as the decimal text says.
  function digitsOf(n, most, significant) {
    if (significant !== undefined) return plain(Number(n.toPrecision(significant)));
    const text = plain(n);
    const [whole, fraction = ''] = text.split('.');
    if (fraction.length <= most) return text;
    const scaled = BigInt(whole + fraction.slice(0, most)) + (fraction[most] >= '5' ? 1n : 0n);
    const all = String(scaled).padStart(most + 1, '0');
    return most === 0 ? all : `${all.slice(0, -most)}.${all.slice(-most)}`;
  }
  function plain(n) {
    const text = String(n);
    const parts = /^(\d+)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
    if (parts === null) return text;
    const [, whole, fraction = '', exponent] = parts;
    const shift = Number(exponent);
    return shift > 0 ? (whole + fraction).padEnd(whole.length + shift, '0') : `0.${'0'.repeat(-shift - 1)}${whole}${fraction}`;
  }

  // Order of texts: what is no letter or digit, digits, letters; accents and then case decide between equals.
  const rank = c => /\p{L}/u.test(c) ? 2 : /\p{N}/u.test(c) ? 1 : 0;
  const base = text => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  const marks = text => text.normalize('NFD').replace(/[^\p{M}]/gu, '');
  function compare(a, b, locales, options = {}) {
    const [x, y] = [String(a), String(b)];
    const parts = text => options.numeric ? base(text).match(/\d+|\D/gu) ?? [] : [...base(text)];
    const [left, right] = [parts(x), parts(y)];
    for (let i = 0; i < Math.min(left.length, right.length); i++) {
      const [l, r] = [left[i], right[i]];
      if (l === r) continue;
      if (options.numeric && /^\d/.test(l) && /^\d/.test(r) && Number(l) !== Number(r)) return Number(l) < Number(r) ? -1 : 1;
      if (rank(l) !== rank(r)) return rank(l) < rank(r) ? -1 : 1;
      if (l !== r) return l < r ? -1 : 1;
    }
    if (left.length !== right.length) return left.length < right.length ? -1 : 1;
    const sensitivity = options.sensitivity ?? 'variant';
    if (sensitivity !== 'base' && sensitivity !== 'case' && marks(x) !== marks(y)) return marks(x) < marks(y) ? -1 : 1;
    if (sensitivity === 'base' || sensitivity === 'accent') return 0;
    const cased = text => text.normalize('NFC');
    for (let i = 0, l = cased(x), r = cased(y); i < Math.min(l.length, r.length); i++) {
      if (l[i] !== r[i]) return l[i] === l[i].toLowerCase() ? -1 : 1;
    }
    return 0;
  }

  const resolved = (locales, more) => ({ locale: localeOf(locales), numberingSystem: 'latn', ...more });
  class NumberFormat {
    constructor(locales, options) {
      numberText(0, locales, options);
      this.format = value => numberText(value, locales, options);
      this.resolvedOptions = () => resolved(locales, { style: 'decimal', ...options });
    }
    formatToParts(value) { return [{ type: 'literal', value: this.format(value) }]; }
    static supportedLocalesOf(locales) { return [].concat(locales ?? []).filter(l => Object.hasOwn(written, l)); }
  }
  class Collator {
    constructor(locales, options) {
      this.compare = (a, b) => compare(a, b, locales, options);
      this.resolvedOptions = () => resolved(locales, { sensitivity: 'variant', numeric: false, ...options });
    }
  }
  class PluralRules {
    constructor(locales, options = {}) {
      this.select = options.type === 'ordinal'
        ? n => n % 10 === 1 && n % 100 !== 11 ? 'one' : n % 10 === 2 && n % 100 !== 12 ? 'two' : n % 10 === 3 && n % 100 !== 13 ? 'few' : 'other'
        : n => n === 1 ? 'one' : 'other';
    }
  }
  class ListFormat {
    constructor(locales, { type = 'conjunction', style = 'long' } = {}) {
      const word = type === 'disjunction' ? 'or' : type === 'unit' ? '' : style === 'long' ? 'and' : '&';
      this.format = list => {
        const items = [...list];
        if (items.length < 2) return items.join('');
        if (items.length === 2) return word ? `${items[0]} ${word} ${items[1]}` : items.join(', ');
        return `${items.slice(0, -1).join(', ')}, ${word ? `${word} ` : ''}${items[items.length - 1]}`;
      };
    }
  }
  class RelativeTimeFormat {
    constructor(locales, { numeric = 'always' } = {}) {
      const words = { day: ['yesterday', 'today', 'tomorrow'] };
      this.format = (value, unit) => {
        const name = String(unit).replace(/s$/, '');
        if (numeric === 'auto' && [-1, 0, 1].includes(value)) {
          const word = words[name]?.[value + 1]
            ?? (['year', 'quarter', 'month', 'week'].includes(name) && [`last ${name}`, `this ${name}`, `next ${name}`][value + 1]);
          if (word) return word;
        }
        const n = Math.abs(value), text = `${numberText(n)} ${name}${n === 1 ? '' : 's'}`;
        return value < 0 || Object.is(value, -0) ? `${text} ago` : `in ${text}`;
      };
    }
  }
  // `Intl.NumberFormat(…)` works without `new`, as in ECMA-402.
  const callable = library.callable = kind => new Proxy(kind, { apply: (target, self, values) => new target(...values) });
  library.Intl = {
    NumberFormat: callable(NumberFormat), Collator: callable(Collator),
    PluralRules, ListFormat, RelativeTimeFormat,
    getCanonicalLocales: locales => [].concat(locales ?? []),
  };

  const numberMethods = { toLocaleString(locales, options) { return numberText(this, locales, options); } };
  const bigIntMethods = { toLocaleString(locales, options) { return numberText(BigInt(this), locales, options); } };
  const textMethods = { localeCompare(other, locales, options) { return compare(this, other, locales, options); } };

  // The same functions serve all realms.
  const define = (target, methods) => {
    for (const name of Object.keys(methods)) {
      Object.defineProperty(target, name, { value: methods[name], writable: true, configurable: true, enumerable: false });
    }
  };
  library.localized = { numberMethods, bigIntMethods, textMethods };
  library.localize = realm => {
    define(realm.Number.prototype, numberMethods);
    define(realm.BigInt.prototype, bigIntMethods);
    define(realm.String.prototype, textMethods);
    define(realm.Date.prototype, library.dateMethods);
    define(realm, { Intl: library.Intl });
  };
})
