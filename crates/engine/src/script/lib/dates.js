// Dates in words: how `toLocaleString` and `Intl.DateTimeFormat` write them. A text is made with signs around each of
// its fields, and read as a text without them, or as parts.
(function (library, native) {
  'use strict';

  const { languageOf } = library;
  const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
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

  // What clocks and calendars show in a zone, and how the zone is called.
  function fieldsOf(date, zone) {
    if (zone !== undefined && isUtc(zone)) return { ...readAs(date, true), zone: 'UTC' };
    if (zone === undefined || zone.toLowerCase() === ownZone().toLowerCase()) {
      const minutes = -date.getTimezoneOffset();
      return { ...readAs(date, false), zone: minutes === 0 ? 'UTC' : offsetName(minutes) };
    }
    const seconds = native.zoneOffset(zone, +date);
    if (seconds === undefined) throw new RangeError(`Invalid time zone specified: ${zone}`);
    // Short names are what the United States have of their own zones.
    const short = native.zoneShort(zone, +date), minutes = Math.trunc(seconds / 60);
    const name = /^([ECMP]|AK)[SD]T$|^HST$/.test(short) && zone.startsWith('America/') ? short : minutes === 0 ? 'GMT' : offsetName(minutes);
    return { ...readAs(new Date(+date + seconds * 1000), true), zone: name };
  }

  const styles = {
    date: {
      full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }, long: { year: 'numeric', month: 'long', day: 'numeric' },
      medium: { year: 'numeric', month: 'short', day: 'numeric' }, short: { year: '2-digit', month: 'numeric', day: 'numeric' },
    },
    time: {
      full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' }, long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
      medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' }, short: { hour: 'numeric', minute: '2-digit' },
    },
  };
  const dateFields = { year: 'numeric', month: 'numeric', day: 'numeric' };
  const timeFields = { hour: 'numeric', minute: '2-digit', second: '2-digit' };

  // `kind`: what is meant when no field is asked for.
  function markedText(date, locales, options, kind) {
    const language = languageOf(locales);
    let asked = { ...options };
    if (asked.timeZone !== undefined) asked.timeZone = String(asked.timeZone);
    if (asked.dateStyle || asked.timeStyle) Object.assign(asked, styles.date[asked.dateStyle], styles.time[asked.timeStyle]);
    const has = names => names.some(name => asked[name] !== undefined);
    const named = has(['weekday', 'year', 'month', 'day']), timed = has(['hour', 'minute', 'second', 'fractionalSecondDigits', 'dayPeriod']);
    if (kind === 'date' ? !named : kind === 'time' ? !timed : !named && !timed) {
      asked = { ...asked, ...(kind === 'time' ? {} : dateFields), ...(kind === 'date' ? {} : timeFields) };
    }
    const at = fieldsOf(date, asked.timeZone);
    const parts = [datePart(at, asked, language), timePart(at, asked, language)].filter(part => part !== '');
    const onlyWeekday = asked.weekday !== undefined && !asked.year && !asked.month && !asked.day;
    const between = ['full', 'long'].includes(asked.dateStyle) ? ' at ' : onlyWeekday ? ' ' : language.between;
    return parts.join(between) + (asked.timeZoneName ? ` ${field('timeZoneName', at.zone)}` : '');
  }
  const dateText = (date, locales, options, kind) => Number.isNaN(+date) ? 'Invalid Date' : textOf(markedText(date, locales, options, kind));

  function datePart(at, asked, language) {
    const weekday = asked.weekday && field('weekday', asked.weekday === 'long' ? days[at.weekday] : days[at.weekday].slice(0, asked.weekday === 'narrow' ? 1 : 3));
    const year = asked.year && field('year', asked.year === '2-digit' ? two(at.year % 100) : at.year);
    const number = name => asked[name] === '2-digit' ? two(at[name]) : String(at[name]);
    const day = asked.day && field('day', number('day'));
    let rest;
    if (['long', 'short', 'narrow'].includes(asked.month)) {
      const name = months[at.month - 1];
      const month = field('month', asked.month === 'long' ? name : name.slice(0, asked.month === 'short' ? 3 : 1));
      rest = language.locale === 'en-GB' ? [day, month, year].filter(Boolean).join(' ')
        : [[month, day].filter(Boolean).join(' '), year].filter(Boolean).join(day ? ', ' : ' ');
    } else if (year && asked.month && day) {
      const short = asked.dateStyle === 'short';
      const written = {
        y: short ? field('year', at.year) : year, yy: year, m: field('month', number('month')), d: day,
        mm: field('month', two(at.month)), dd: field('day', two(at.day)),
      };
      rest = (short ? language.shortDate : language.date).replace(/yy?|mm?|dd?/g, name => written[name]);
    } else {
      rest = [asked.month && field('month', number('month')), day, year].filter(Boolean).join('/');
    }
    return [weekday, rest].filter(Boolean).join(', ');
  }

  function timePart(at, asked, { locale, clock24 }) {
    const full = asked.hour12 === undefined && asked.hourCycle === undefined ? clock24
      : asked.hour12 !== undefined ? !asked.hour12 : ['h23', 'h24'].includes(asked.hourCycle);
    const parts = [];
    if (asked.hour !== undefined) {
      // Without more, ICU counts the first hour of an American day as 24.
      const hour = full ? (at.hour === 0 && locale === 'en-US' && asked.hour12 === false ? 24 : at.hour) : at.hour % 12 || 12;
      parts.push(field('hour', full || asked.hour === '2-digit' ? two(hour) : hour));
    }
    if (asked.minute !== undefined) parts.push(field('minute', parts.length > 0 || asked.second !== undefined ? two(at.minute) : at.minute));
    if (asked.second !== undefined) {
      const digits = asked.fractionalSecondDigits;
      const second = field('second', parts.length > 0 ? two(at.second) : at.second);
      parts.push(second + (digits ? `.${field('fractionalSecond', String(at.ms).padStart(3, '0').slice(0, digits))}` : ''));
    }
    const half = at.hour < 12 ? ['AM', 'a.m.'] : ['PM', 'p.m.'];
    const suffix = asked.hour !== undefined && !full ? ` ${field('dayPeriod', locale === 'en-CA' ? half[1] : half[0])}` : '';
    return parts.join(':') + suffix;
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
        locale: languageOf(locales).locale, numberingSystem: 'latn', calendar: 'gregory', timeZone: ownZone(), ...asked,
      });
    }
    static supportedLocalesOf(locales) { return library.Intl.NumberFormat.supportedLocalesOf(locales); }
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
