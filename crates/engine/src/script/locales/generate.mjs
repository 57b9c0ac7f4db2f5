// Writes how languages write dates and numbers, as Node.js does it, into the files beside this one. The facts are those of
// the Unicode CLDR, in Node.js' ICU (https://www.unicode.org/license.txt). Run with Node.js 20: `node generate.mjs`.
//
// A file has a language and, for its regions, what differs. In patterns `%` and a letter stand for a field:
// E e w weekday long, short, narrow, alone, and F f v within a date; d D day and with two digits; m M month in digits; l L, s S, n N its name long, short,
// narrow, within a date and alone; y Y year, whole and with two digits; h H hour; t T minute; c C second; p half of the day;
// P part of the day, where a language has more than two; z time zone; n number; c currency; 0 and 1 the first and the second part.

import { writeFileSync } from 'node:fs';

const LANGUAGES = {
    en: ['en-AU', 'en-CA', 'en-GB', 'en-IE', 'en-NZ', 'en-ZA'], de: ['de-AT', 'de-CH'], fr: ['fr-BE', 'fr-CA', 'fr-CH'],
    es: ['es-AR', 'es-MX', 'es-US'], it: ['it-CH'], pt: ['pt-PT'], nl: ['nl-BE'], pl: [], cs: [], sv: ['sv-FI'], da: [], nb: [], fi: [],
    ru: [], uk: [], tr: [], zh: ['zh-HK', 'zh-TW'], ja: [], ko: [], ar: [],
};
// Zones, and what the IANA database calls their time in January and in July.
const ZONES = {
    'Europe/Berlin': ['CET', 'CEST'], 'Europe/Lisbon': ['WET', 'WEST'], 'Europe/Athens': ['EET', 'EEST'], 'Europe/London': ['GMT', 'BST'],
    'Europe/Moscow': ['MSK'], 'America/New_York': ['EST', 'EDT'], 'America/Chicago': ['CST', 'CDT'], 'America/Denver': ['MST', 'MDT'],
    'America/Los_Angeles': ['PST', 'PDT'], 'America/Anchorage': ['AKST', 'AKDT'], 'Pacific/Honolulu': ['HST'], 'Asia/Tokyo': ['JST'],
    'Asia/Shanghai': ['CST'], 'Asia/Kolkata': ['IST'], 'Australia/Sydney': ['AEDT', 'AEST'], UTC: ['UTC'],
};
const CURRENCIES = ['USD', 'EUR', 'GBP', 'JPY', 'CHF', 'CNY', 'INR', 'KRW', 'BRL', 'CAD', 'AUD', 'MXN', 'SEK', 'NOK', 'DKK', 'PLN', 'CZK', 'RUB',
    'UAH', 'TRY', 'HUF', 'ILS', 'NZD', 'HKD', 'TWD', 'THB', 'ZAR', 'SGD'];
export const WEEKDAYS = [undefined, 'long', 'short', 'narrow'];
export const YEARS = [undefined, 'numeric', '2-digit'];
export const MONTHS = [undefined, 'numeric', '2-digit', 'long', 'short', 'narrow'];
export const TWO = [undefined, 'numeric', '2-digit'];
const STYLES = ['full', 'long', 'medium', 'short'];

// 2026-03-01 is a Sunday; each month has a first Sunday.
const monthDates = Array.from({ length: 12 }, (_, month) => new Date(Date.UTC(2026, month, 9, 5, 6, 7)));
const weekDates = Array.from({ length: 7 }, (_, day) => new Date(Date.UTC(2026, 2, 1 + day, 5, 6, 7)));
const SAMPLE = new Date(Date.UTC(2026, 2, 9, 5, 6, 7, 8));

const partsOf = (locale, options, date = SAMPLE) => new Intl.DateTimeFormat(locale, { timeZone: 'UTC', ...options }).formatToParts(date);
// V8 writes simple spaces in dates.
const valueOf = (parts, type) => parts.find(part => part.type === type)?.value.replaceAll('\u202f', ' ');

function names(locale) {
    const months = {}, days = {};
    for (const [letter, width] of [['l', 'long'], ['s', 'short'], ['n', 'narrow']]) {
        months[letter] = monthDates.map(date => valueOf(partsOf(locale, { month: width, day: 'numeric', year: 'numeric' }, date), 'month'));
        months[letter.toUpperCase()] = monthDates.map(date => valueOf(partsOf(locale, { month: width }, date), 'month'));
    }
    for (const [letter, width] of [['E', 'long'], ['e', 'short'], ['w', 'narrow']]) {
        days[letter] = weekDates.map(date => valueOf(partsOf(locale, { weekday: width }, date), 'weekday'));
        const within = { E: 'F', e: 'f', w: 'v' }[letter];
        days[within] = weekDates.map(date => valueOf(partsOf(locale, { weekday: width, day: 'numeric', month: 'long', year: 'numeric' }, date), 'weekday'));
    }
    return { months, days };
}

// The pattern that Node.js fills in, found by what it makes of dates that are known.
function pattern(locale, options, { months, days }) {
    const width = { long: 'lLsSnN', short: 'sSlLnN', narrow: 'nNsSlL' }[options.month] ?? 'lLsSnN';
    return partsOf(locale, options).map(({ type, value }) => {
        switch (type) {
            case 'day': return value === '9' ? '%d' : '%D';
            case 'year': return value === '26' ? '%Y' : '%y';
            case 'hour': return value.length === 1 ? '%h' : '%H';
            case 'minute': return value.length === 1 ? '%t' : '%T';
            case 'second': return value.length === 1 ? '%c' : '%C';
            case 'dayPeriod': return options.timeStyle ? '%P' : '%p';
            case 'timeZoneName': return '%z';
            case 'weekday': {
                const all = weekDates.map(date => valueOf(partsOf(locale, options, date), 'weekday'));
                const letters = { long: 'EFefwv', short: 'efEFwv', narrow: 'wvefEF' }[options.weekday] ?? 'EFefwv';
                return `%${[...letters].find(letter => all.every((name, index) => days[letter][index] === name)) ?? '?'}`;
            }
            case 'month': {
                if (/^\d+$/.test(value)) return value.length === 1 ? '%m' : '%M';
                const all = monthDates.map(date => valueOf(partsOf(locale, options, date), 'month'));
                return `%${[...width].find(letter => all.every((name, index) => months[letter][index] === name)) ?? '?'}`;
            }
            default: return value.replaceAll('\u202f', ' ');
        }
    }).join('');
}

// Patterns in a table: each once, and for each combination of fields its number, two digits of base 36.
function table(combinations) {
    const patterns = [...new Set(combinations)];
    return { patterns, index: combinations.map(one => patterns.indexOf(one).toString(36).padStart(2, '0')).join('') };
}

function dates(locale, known) {
    const all = [];
    for (const weekday of WEEKDAYS) for (const year of YEARS) for (const month of MONTHS) for (const day of TWO) {
        all.push(weekday || year || month || day ? pattern(locale, { weekday, year, month, day }, known) : '');
    }
    return table(all);
}

function times(locale, known) {
    const all = [];
    for (const hour12 of [true, false]) for (const hour of TWO) for (const minute of TWO) for (const second of TWO) {
        all.push(hour || minute || second ? pattern(locale, { hour12, hour, minute, second }, known) : '');
    }
    return table(all);
}

// How date and time are joined: for each width of a date.
function joined(locale, dateOptions, timeOptions) {
    const text = options => new Intl.DateTimeFormat(locale, { timeZone: 'UTC', ...options }).format(SAMPLE);
    const [date, time, both] = [text(dateOptions), text(timeOptions), text({ ...dateOptions, ...timeOptions })];
    return both.replace(date, '%0').replace(time, '%1');
}

function zones(locale) {
    const made = {};
    for (const [zone, [winter, summer]] of Object.entries(ZONES)) {
        for (const [month, abbreviation] of [[0, winter], [6, summer]].filter(([, name]) => name)) {
            const date = new Date(Date.UTC(2026, month, 15));
            const name = timeZoneName => valueOf(partsOf(locale, { timeZone: zone, timeZoneName }, date), 'timeZoneName');
            const isOffset = name('short') === name('shortOffset') && zone !== 'UTC';
            made[`${zone.split('/')[0]}/${abbreviation}`] = isOffset ? [name('long')] : [name('long'), name('short')];
        }
    }
    return made;
}

function offsets(locale) {
    const at = (zone, timeZoneName) => valueOf(partsOf(locale, { timeZone: zone, timeZoneName }), 'timeZoneName');
    // East and west, each without and with minutes, and none; short and long.
    return ['shortOffset', 'longOffset'].map(style => ['Asia/Tokyo', 'Asia/Kathmandu', 'America/Bogota', 'Pacific/Marquesas', 'UTC'].map(zone => at(zone, style)));
}

function numbers(locale) {
    const parts = (value, options) => new Intl.NumberFormat(locale, options).formatToParts(value);
    const value = (list, type) => list.find(part => part.type === type)?.value ?? '';
    const shape = list => list.map(({ type, value }) => ({ integer: '%n', group: '', decimal: '', fraction: '', currency: '%c' })[type] ?? value).join('');
    const big = parts(-1234567.5), amount = parts(1234567.5, { style: 'currency', currency: 'EUR' });
    const symbols = {}, narrow = {};
    for (const currency of CURRENCIES) {
        const symbol = value(parts(1, { style: 'currency', currency }), 'currency');
        const small = value(parts(1, { style: 'currency', currency, currencyDisplay: 'narrowSymbol' }), 'currency');
        if (symbol !== currency) symbols[currency] = symbol;
        if (small !== symbol) narrow[currency] = small;
    }
    const euro = amount => shape(parts(amount, { style: 'currency', currency: 'EUR', currencyDisplay: 'narrowSymbol', minimumFractionDigits: 0 }));
    return {
        point: value(big, 'decimal'), group: value(big, 'group'), minus: new Intl.NumberFormat(locale).format(-1).replace('1', ''),
        currencyPoint: value(amount, 'decimal'), currencyGroup: value(amount, 'group'),
        groupFrom: parts(1234).some(part => part.type === 'group') ? 4 : 5,
        percent: shape(parts(0.5, { style: 'percent' })), currency: [euro(5), euro(-5)], symbols, narrow, nan: value(parts(NaN), 'nan'),
    };
}

function locale(tag) {
    const known = names(tag);
    const cycle = options => new Intl.DateTimeFormat(tag, { hour: 'numeric', ...options }).resolvedOptions().hourCycle;
    const time = { hour: 'numeric', minute: '2-digit' };
    const halves = [5, 17].map(hour => valueOf(partsOf(tag, { hour: 'numeric', hour12: true }, new Date(Date.UTC(2026, 2, 9, hour))), 'dayPeriod'));
    const dayParts = Array.from({ length: 24 }, (_, hour) => valueOf(partsOf(tag, { timeStyle: 'short' }, new Date(Date.UTC(2026, 2, 9, hour))), 'dayPeriod'));
    const hasMore = dayParts.some((part, hour) => part !== undefined && part !== halves[hour < 12 ? 0 : 1]);
    return {
        ...known, halves, dayParts: hasMore ? dayParts : undefined, dates: dates(tag, known), times: times(tag, known),
        cycles: [cycle({}), cycle({ hour12: true }), cycle({ hour12: false })],
        fraction: partsOf(tag, { second: 'numeric', fractionalSecondDigits: 2 }).find(part => part.type === 'literal')?.value ?? '.',
        dateStyles: STYLES.map(dateStyle => pattern(tag, { dateStyle }, known)),
        timeStyles: STYLES.map(timeStyle => pattern(tag, { timeStyle }, known)),
        styleJoins: STYLES.map(dateStyle => joined(tag, { dateStyle }, { timeStyle: 'short' })),
        joins: [
            joined(tag, { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }, time),
            joined(tag, { year: 'numeric', month: 'long', day: 'numeric' }, time),
            joined(tag, { year: 'numeric', month: 'short', day: 'numeric' }, time),
            joined(tag, { year: 'numeric', month: 'numeric', day: 'numeric' }, time),
            joined(tag, { weekday: 'short' }, time),
        ],
        zoneJoins: [{ hour: 'numeric', minute: '2-digit', second: '2-digit' }, { year: 'numeric', month: 'numeric', day: 'numeric' }].map(fields => {
            const zone = valueOf(partsOf(tag, { timeZoneName: 'short' }), 'timeZoneName');
            const text = options => new Intl.DateTimeFormat(tag, { timeZone: 'UTC', ...options }).format(SAMPLE);
            const pattern = text({ ...fields, timeZoneName: 'short' }).replace(zone, '%z').replace(text(fields), '%0');
            return pattern.includes('%0') ? pattern : '%0 %z';
        }),
        zones: zones(tag), offsets: offsets(tag), number: numbers(tag),
    };
}

if (import.meta.url === `file://${process.argv[1]}`) {
    for (const [language, regions] of Object.entries(LANGUAGES)) {
        const base = locale(language);
        const made = { [language]: base };
        for (const region of regions) {
            const own = locale(region);
            made[region] = Object.fromEntries(Object.entries(own).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(base[key])));
        }
        writeFileSync(new URL(`${language}.json`, import.meta.url), `${JSON.stringify(made)}\n`);
    }
}
