// What depends on language and place: how languages write numbers, and in which order texts stand. `locales` has the facts
// of the languages that are known; any other is en-US.
(function (library, native) {
  'use strict';

  const aliases = { no: 'nb', nn: 'nb', iw: 'he' };
  // ISO 4217: those without subunits of two digits.
  const DIGITS = Object.fromEntries([
    ...'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'.split(' ').map(currency => [currency, 0]),
    ...'BHD IQD JOD KWD LYD OMR TND'.split(' ').map(currency => [currency, 3]),
  ]);

  // A language's own data and those of its regions, by tag.
  const languages = new Map();
  function languageData(language) {
    if (!languages.has(language)) {
      const text = native.localeData(language);
      languages.set(language, text === undefined ? undefined : JSON.parse(text));
    }
    return languages.get(language);
  }
  const known = new Map();
  function localeData(tag) {
    if (!known.has(tag)) known.set(tag, read(tag));
    return known.get(tag);
  }
  function read(tag) {
    const [language, ...rest] = tag.replace(/[-_]u[-_].*/i, '').split(/[-_]/);
    const name = aliases[language.toLowerCase()] ?? language.toLowerCase();
    const all = languageData(name);
    if (all === undefined) return undefined;
    const script = rest.find(part => /^[a-z]{4}$/i.test(part))?.toLowerCase();
    const region = rest.find(part => /^[a-z]{2}$/i.test(part))?.toUpperCase() ?? (script === 'hant' ? 'TW' : undefined);
    const own = [name, ...rest.map(part => part.length === 2 ? part.toUpperCase() : part.length === 4 ? part[0].toUpperCase() + part.slice(1).toLowerCase() : part)];
    return { tag: own.join('-'), ...all[name], ...all[`${name}-${region}`] };
  }
  function checked(tag) {
    if (typeof tag !== 'string' || !/^[a-zA-Z]{2,8}([-_][a-zA-Z0-9]{1,8})*$/.test(tag)) {
      throw new RangeError(`Incorrect locale information provided`);
    }
    return tag;
  }
  // The data of the first language that is known, else those of English.
  const localeOf = library.localeOf = locales => {
    const asked = (locales === undefined ? [] : [].concat(locales)).map(checked);
    for (const tag of asked) {
      const data = localeData(tag);
      if (data !== undefined) return data;
    }
    return localeData('en-US');
  };
  library.supportedLocales = locales => [].concat(locales ?? []).filter(tag => localeData(checked(tag)) !== undefined);

  function numberText(value, locales, options = {}) {
    const { number } = localeOf(locales);
    const style = options.style ?? 'decimal';
    if (style === 'currency' && options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
    const subunits = DIGITS[options.currency] ?? 2;
    const usual = style === 'currency' ? [subunits, subunits] : style === 'percent' ? [0, 0] : [0, 3];
    const least = options.minimumFractionDigits ?? Math.min(usual[0], options.maximumFractionDigits ?? usual[0]);
    const most = options.maximumFractionDigits ?? Math.max(usual[1], least);
    if (!(least >= 0 && most >= least && most <= 100)) throw new RangeError('maximumFractionDigits value is out of range.');
    const big = typeof value === 'bigint';
    const n = big ? value : Number(value) * (style === 'percent' ? 100 : 1);
    const negative = n < 0 || Object.is(n, -0);
    let text;
    if (!big && Number.isNaN(n)) text = number.nan;
    else if (!big && !Number.isFinite(n)) text = '∞';
    else {
      const digits = big ? String(n < 0n ? -n : n) : digitsOf(Math.abs(n), most, options.maximumSignificantDigits);
      let [whole, fraction = ''] = digits.split('.');
      if (options.maximumSignificantDigits === undefined) fraction = fraction.replace(/0+$/, '').padEnd(least, '0');
      whole = whole.padStart(options.minimumIntegerDigits ?? 1, '0');
      const [point, group] = style === 'currency' ? [number.currencyPoint, number.currencyGroup] : [number.point, number.group];
      if (isGrouped(whole, options.useGrouping, number)) whole = whole.replace(/\B(?=(\d{3})+$)/g, group);
      text = fraction === '' ? whole : whole + point + fraction;
    }
    const pattern = style === 'percent' ? number.percent : style === 'currency' ? currencyPattern(negative, options, number) : '%n';
    const signed = negative && style !== 'currency' ? number.minus + pattern : pattern;
    return signed.replace('%n', () => text);
  }
  function isGrouped(whole, grouping, { groupFrom }) {
    if (grouping === false || grouping === 'false') return false;
    return whole.length >= (grouping === 'always' ? 4 : grouping === 'min2' ? 5 : groupFrom);
  }
  // The pattern of an amount with the currency filled in; one that ends as a word does keeps its distance.
  function currencyPattern(negative, { currency, currencyDisplay }, { currency: patterns, symbols, narrow }) {
    const code = String(currency).toUpperCase();
    const symbol = currencyDisplay === 'code' ? code : (currencyDisplay === 'narrowSymbol' ? narrow[code] : undefined) ?? symbols[code] ?? code;
    let pattern = patterns[negative ? 1 : 0];
    if (/\p{L}$/u.test(symbol)) pattern = pattern.replace('%c%n', '%c\u00a0%n');
    if (/^\p{L}/u.test(symbol)) pattern = pattern.replace('%n%c', '%n\u00a0%c');
    return pattern.replace('%c', () => symbol);
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

  const resolved = (locales, more) => ({ locale: localeOf(locales).tag, numberingSystem: 'latn', ...more });
  class NumberFormat {
    constructor(locales, options) {
      numberText(0, locales, options);
      this.format = value => numberText(value, locales, options);
      this.resolvedOptions = () => resolved(locales, { style: 'decimal', ...options });
    }
    formatToParts(value) { return [{ type: 'literal', value: this.format(value) }]; }
    static supportedLocalesOf(locales) { return library.supportedLocales(locales); }
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
