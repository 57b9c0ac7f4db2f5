// The texts of the page in the user's language, and times and numbers as that language writes them.

import de from './text_de.js';
import en from './text_en.js';

const LANGUAGES = { en, de };
const KEY = 'flowgate.language';

let language = chosen();
let locale;
let relative;
let plural;
use();

function chosen() {
    const kept = localStorage.getItem(KEY);
    const wanted = [kept, ...navigator.languages].map((name) => String(name).slice(0, 2));
    return wanted.find((name) => name in LANGUAGES) ?? 'en';
}

function use() {
    document.documentElement.lang = language;
    // That of a country decides how times and numbers are written.
    locale = navigator.languages.find((name) => name.startsWith(language)) ?? language;
    relative = new Intl.RelativeTimeFormat(language, { numeric: 'auto' });
    plural = new Intl.PluralRules(language);
}

export function languages() {
    return Object.keys(LANGUAGES);
}

export function current() {
    return language;
}

export function choose(name) {
    language = name;
    localStorage.setItem(KEY, name);
    use();
}

// The text of a key; `{name}` in it is a value. A list has the forms for one and for other numbers `n`.
export function t(key, values = {}) {
    let text = LANGUAGES[language][key] ?? en[key] ?? key;
    if (Array.isArray(text)) text = text[plural.select(values.n) === 'one' ? 0 : 1];
    return text.replace(/\{(\w+)\}/g, (_, name) => (typeof values[name] === 'number' ? number(values[name]) : values[name]));
}

export function number(value, digits = 0) {
    return new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(value);
}

const UNITS = [['second', 60], ['minute', 60], ['hour', 24], ['day', 30], ['month', 12], ['year', Infinity]];

// How long ago, or in how long: "5 minutes ago".
export function ago(time, now = Date.now()) {
    let value = (new Date(time) - now) / 1000;
    for (const [unit, length] of UNITS) {
        if (Math.abs(value) < length) return relative.format(Math.round(value), unit);
        value /= length;
    }
    return '';
}

export function moment(time) {
    return new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' }).format(new Date(time));
}

export function day(time) {
    return new Intl.DateTimeFormat(locale, { dateStyle: 'full' }).format(new Date(time));
}

export function clock(time) {
    return new Intl.DateTimeFormat(locale, { timeStyle: 'short' }).format(new Date(time));
}
