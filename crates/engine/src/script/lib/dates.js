// Dates in words: how `toLocaleString` and `Intl.DateTimeFormat` write them. A text is made with signs around each of
// its fields, and read as a text without them, or as parts.
(function (library, native) {
  'use strict';

  const { localeOf } = library;
  const two = n => String(n).padStart(2, '0');

  // No text of ours has these characters.
  const field = (type, text) => `\x01${type}\x02${text}\x03`;
  const textOf = marked => marked.replace(/\x01\w+\x02|\x03/g, '');
  const partsOf = marked => [...marked.matchAll(/\x01(\w+)\x02([^\x03]*)\x03|[^\x01]+/g)]
    .map(([literal, type, value]) => type ? { type, value } : { type: 'literal', value: literal });

  const isUtc = zone => /^(utc|gmt|etc\/utc|etc\/gmt)$/i.test(zone);
  const ownZone = () => native.timeZone();
  const readAs = (date, utc) => {
    const read = name => date[`get${utc ? 'UTC' : ''}${name}`]();
    return {
      year: read('FullYear'), month: read('Month') + 1, day: read('Date'), weekday: read('Day'),
      hour: read('Hours'), minute: read('Minutes'), second: read('Seconds'), ms: read('Milliseconds'),
    };
  };
  const offsetName = minutes => {
    const all = Math.abs(minutes), rest = all % 60;
    return `GMT${minutes < 0 ? '-' : '+'}${Math.floor(all / 60)}${rest ? `:${two(rest)}` : ''}`;
  };

  // What clocks and calendars show in a zone, how far it is ahead of UTC, and how its time is called there.
  function fieldsOf(date, zone) {
    const isOwn = zone === undefined || zone.toLowerCase() === ownZone().toLowerCase();
    const name = zone ?? ownZone();
    if (isUtc(name)) return { ...readAs(date, true), minutes: 0, zone: 'UTC/UTC' };
    const seconds = isOwn ? -date.getTimezoneOffset() * 60 : native.zoneOffset(name, +date);
    if (seconds === undefined) throw new RangeError(`Invalid time zone specified: ${zone}`);
    const at = isOwn ? readAs(date, false) : readAs(new Date(+date + seconds * 1000), true);
    return { ...at, minutes: Math.trunc(seconds / 60), zone: `${name.split('/')[0]}/${native.zoneShort(name, +date)}` };
  }
  function zoneText({ minutes, zone }, style, { zones, offsets }) {
    const isLong = style.startsWith('long');
    const named = style === 'long' || style === 'short' ? zones[zone]?.[isLong ? 0 : 1] : undefined;
    if (named !== undefined) return named;
    const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    const sample = offsets[isLong ? 1 : 0][(minutes < 0 ? 2 : 0) + (rest ? 1 : 0)];
    if (minutes === 0) return offsets[isLong ? 1 : 0][4];
    let isFirst = true;
    return sample.replace(/\d+/g, digits => {
      const text = isFirst ? String(hours).padStart(digits.length, '0') : two(rest);
      isFirst = false;
      return text;
    });
  }

  const STYLES = ['full', 'long', 'medium', 'short'];
  const dateFields = { year: 'numeric', month: 'numeric', day: 'numeric' };
  const timeFields = { hour: 'numeric', minute: 'numeric', second: 'numeric' };
  const TWO = [undefined, 'numeric', '2-digit'];
  const WEEKDAYS = [undefined, 'long', 'short', 'narrow'], MONTHS = [...TWO, 'long', 'short', 'narrow'];
  // The pattern for some fields in a table of all combinations, in which each number is two digits of base 36.
  const lookUp = ({ patterns, index }, place) => patterns[parseInt(index.slice(2 * place, 2 * place + 2), 36)];

  const cycleOf = ({ hour12, hourCycle }, { cycles }) => hour12 !== undefined ? cycles[hour12 ? 1 : 2] : hourCycle ?? cycles[0];
  const timeAt = ({ hour, minute, second }, cycle, { times }) =>
    lookUp(times, ((['h11', 'h12'].includes(cycle) ? 0 : 3) + TWO.indexOf(hour)) * 9 + TWO.indexOf(minute) * 3 + TWO.indexOf(second));
  const dateAt = ({ weekday, year, month, day }, { dates }) =>
    lookUp(dates, ((WEEKDAYS.indexOf(weekday) * 3 + TWO.indexOf(year)) * 6 + MONTHS.indexOf(month)) * 3 + TWO.indexOf(day));

  // The patterns of date and time, and of both together. `kind`: what is meant when no field is asked for.
  function patternsOf(options, kind, locale) {
    let asked = { ...options };
    const cycle = cycleOf(asked, locale);
    if (asked.dateStyle || asked.timeStyle) {
      const [date, time] = [STYLES.indexOf(asked.dateStyle), STYLES.indexOf(asked.timeStyle)];
      const isUsual = cycle === locale.cycles[0];
      const clock = isUsual || time < 0 ? locale.timeStyles[time] : timeAt({ hour: 'numeric', minute: '2-digit', second: time === 3 ? undefined : '2-digit' }, cycle, locale);
      const zone = isUsual ? undefined : [' %z', ' %z'][time];
      return { date: locale.dateStyles[date] ?? '', time: clock === undefined ? '' : clock + (zone ?? ''), join: locale.styleJoins[date],
        zone: ['long', 'short'][time], cycle };
    }
    const has = names => names.some(name => asked[name] !== undefined);
    const named = has(['weekday', 'year', 'month', 'day']), timed = has(['hour', 'minute', 'second', 'fractionalSecondDigits', 'dayPeriod']);
    if (kind === 'date' ? !named : kind === 'time' ? !timed : !named && !timed) {
      asked = { ...asked, ...(kind === 'time' ? {} : dateFields), ...(kind === 'date' ? {} : timeFields) };
    }
    const isWeekday = asked.weekday !== undefined && !asked.year && !asked.month && !asked.day && !asked.timeZoneName;
    const join = isWeekday ? 4 : asked.month === 'long' ? (asked.weekday ? 0 : 1) : ['short', 'narrow'].includes(asked.month) ? 2 : 3;
    return { date: dateAt(asked, locale), time: withFraction(timeAt(asked, cycle, locale), asked, locale), join: locale.joins[join],
      zone: asked.timeZoneName, isOutside: asked.timeZoneName !== undefined, cycle };
  }
  const withFraction = (time, { fractionalSecondDigits: digits }, { fraction }) =>
    digits ? time.replace(/%[cC]/, second => `${second}${fraction}%${digits}`) : time;

  function markedText(date, locales, options, kind) {
    const locale = localeOf(locales);
    const at = fieldsOf(date, options?.timeZone === undefined ? undefined : String(options.timeZone));
    const { date: day, time, join, zone, isOutside, cycle } = patternsOf(options, kind, locale);
    const [last, lastDay] = [time, day].map((text, part) => isOutside && (part === 0 ? text : !time) ? locale.zoneJoins[part].replace('%0', () => text) : text);
    // The hour behind a weekday may have two digits.
    const joined = (all, zero) => zero ? last.replace(/^%h/, '%H') : last;
    const whole = day && time ? join.replace('%0', () => lastDay).replace(/(0?)%1/, joined) : lastDay || last;
    return whole.replace(/%([a-zA-Z0-9])/g, (all, letter) => filled(letter, at, zone, cycle, locale));
  }
  const dateText = (date, locales, options, kind) => Number.isNaN(+date) ? 'Invalid Date' : textOf(markedText(date, locales, options, kind));

  // A field of a pattern, as `locales/generate.mjs` lists them.
  function filled(letter, at, zone, cycle, { months, days, halves, dayParts, ...locale }) {
    const hours = { h11: at.hour % 12, h12: at.hour % 12 || 12, h23: at.hour, h24: at.hour || 24 };
    switch (letter) {
      case 'd': return field('day', at.day);
      case 'D': return field('day', two(at.day));
      case 'm': return field('month', at.month);
      case 'M': return field('month', two(at.month));
      case 'y': return field('year', at.year);
      case 'Y': return field('year', two(at.year % 100));
      case 'h': return field('hour', hours[cycle]);
      case 'H': return field('hour', two(hours[cycle]));
      case 't': return field('minute', at.minute);
      case 'T': return field('minute', two(at.minute));
      case 'c': return field('second', at.second);
      case 'C': return field('second', two(at.second));
      case 'p': return field('dayPeriod', halves[at.hour < 12 ? 0 : 1]);
      case 'P': return field('dayPeriod', dayParts?.[at.hour] ?? halves[at.hour < 12 ? 0 : 1]);
      case 'z': return field('timeZoneName', zoneText(at, zone, locale));
      case 'E': case 'e': case 'w': case 'F': case 'f': case 'v': return field('weekday', days[letter][at.weekday]);
      case '1': case '2': case '3': return field('fractionalSecond', String(at.ms).padStart(3, '0').slice(0, Number(letter)));
      default: return field('month', months[letter][at.month - 1]);
    }
  }

  class DateTimeFormat {
    constructor(locales, options) {
      const asked = { ...options };
      const names = ['weekday', 'year', 'month', 'day', 'hour', 'minute', 'second', 'dateStyle', 'timeStyle', 'fractionalSecondDigits'];
      const fields = names.some(name => asked[name] !== undefined) ? asked : { ...asked, ...dateFields };
      const marked = date => {
        const at = date === undefined ? new Date() : new Date(+date);
        if (Number.isNaN(+at)) throw new RangeError('Invalid time value');
        return markedText(at, locales, fields, 'any');
      };
      // Invalid options are reported at once.
      marked(0);
      this.format = date => textOf(marked(date));
      this.formatToParts = date => partsOf(marked(date));
      this.resolvedOptions = () => ({
        locale: localeOf(locales).tag, numberingSystem: 'latn', calendar: 'gregory', timeZone: ownZone(), ...asked,
      });
    }
    static supportedLocalesOf(locales) { return library.supportedLocales(locales); }
  }
  library.Intl.DateTimeFormat = library.callable(DateTimeFormat);

  const zoneName = date => {
    const minutes = -date.getTimezoneOffset();
    const name = minutes === 0 && isUtc(ownZone()) ? 'Coordinated Universal Time' : offsetName(minutes);
    return Number.isNaN(+date) ? '' : ` (${name})`;
  };

  const { toString, toTimeString } = Date.prototype;
  library.dateMethods = {
    toString() { return toString.call(this) + zoneName(this); },
    toTimeString() { return toTimeString.call(this) + zoneName(this); },
    toLocaleString(locales, options) { return dateText(this, locales, options, 'any'); },
    toLocaleDateString(locales, options) { return dateText(this, locales, options, 'date'); },
    toLocaleTimeString(locales, options) { return dateText(this, locales, options, 'time'); },
  };
})
