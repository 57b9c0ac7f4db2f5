// `Buffer`, as Node.js has it: a Uint8Array that speaks encodings.
(function (library, native) {
  'use strict';

  const { types } = library;
  const intrinsic = Uint8Array.prototype;
  const toBase64 = intrinsic.toBase64, toHex = intrinsic.toHex;
  const bytesOf = value => new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const fail = (Kind, code, message) => Object.assign(new Kind(message), { code });

  // Encodings under all their names.
  const encodings = new Map(Object.entries({
    utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', latin1: 'latin1',
    binary: 'latin1', ascii: 'ascii', utf16le: 'utf16le', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le',
  }));
  const encodingOf = name => {
    if (name === undefined || name === null || name === '') return 'utf8';
    const encoding = encodings.get(String(name).toLowerCase());
    if (encoding === undefined) throw fail(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${name}`);
    return encoding;
  };

  const hexDigit = code => code >= 48 && code <= 57 ? code - 48 : code >= 97 && code <= 102 ? code - 87
    : code >= 65 && code <= 70 ? code - 55 : -1;
  const fromHex = text => {
    const bytes = new Uint8Array(text.length >> 1);
    for (let i = 0; i < bytes.length; i++) {
      const high = hexDigit(text.charCodeAt(2 * i)), low = hexDigit(text.charCodeAt(2 * i + 1));
      if (high < 0 || low < 0) return bytes.subarray(0, i);
      bytes[i] = high * 16 + low;
    }
    return bytes;
  };
  const encode = (text, encoding) => {
    switch (encoding) {
      case 'utf8': return new Uint8Array(native.utf8(text));
      case 'hex': return fromHex(text);
      case 'base64': case 'base64url': return new Uint8Array(native.base64(text));
      case 'utf16le': {
        const bytes = new Uint8Array(text.length * 2);
        for (let i = 0; i < text.length; i++) {
          const unit = text.charCodeAt(i);
          bytes[2 * i] = unit; bytes[2 * i + 1] = unit >> 8;
        }
        return bytes;
      }
      default: {
        const bytes = new Uint8Array(text.length);
        for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
        return bytes;
      }
    }
  };

  // Character codes in pieces that fit on the stack as arguments.
  const textOfCodes = codes => {
    let text = '';
    for (let i = 0; i < codes.length; i += 4096) text += String.fromCharCode.apply(null, codes.subarray(i, i + 4096));
    return text;
  };
  const decode = (bytes, encoding) => {
    switch (encoding) {
      case 'utf8': return native.utf8Text(toBase64.call(bytes));
      case 'hex': return toHex.call(bytes);
      case 'base64': return toBase64.call(bytes);
      case 'base64url': return toBase64.call(bytes, { alphabet: 'base64url', omitPadding: true });
      case 'latin1': return textOfCodes(bytes);
      case 'ascii': return textOfCodes(bytes.map(byte => byte & 127));
      default: {
        const units = new Uint16Array(bytes.length >> 1);
        for (let i = 0; i < units.length; i++) units[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
        return textOfCodes(units);
      }
    }
  };

  // A position given as an argument, kept within 0 and the length.
  const clamp = (value, fallback, length) => {
    if (value === undefined) return fallback;
    const n = Math.trunc(Number(value)) || 0;
    return n < 0 ? 0 : n > length ? length : n;
  };
  const wrong = (name, expected, value) => fail(TypeError, 'ERR_INVALID_ARG_TYPE',
    `The ${name} must be ${expected}. Received ${received(value)}`);
  const received = value => {
    if (value === null || value === undefined) return String(value);
    if (typeof value === 'function') return `function ${value.name}`;
    if (typeof value === 'object') {
      return value.constructor && value.constructor.name ? `an instance of ${value.constructor.name}` : '[Object: null prototype] {}';
    }
    return `type ${typeof value} (${typeof value === 'string' ? `'${value}'` : String(value)})`;
  };
  const checkSize = size => {
    if (typeof size !== 'number') throw wrong('"size" argument', 'of type number', size);
    if (!(size >= 0 && size <= 2 ** 32)) {
      throw fail(RangeError, 'ERR_OUT_OF_RANGE',
        `The value of "size" is out of range. It must be >= 0 && <= 4294967296. Received ${size}`);
    }
    return size;
  };

  class Buffer extends Uint8Array {
    static from(value, encodingOrOffset, length) {
      if (typeof value === 'string') return over(encode(value, encodingOf(encodingOrOffset)));
      if (typeof value === 'object' && value !== null) {
        if (types.isAnyArrayBuffer(value)) return new Buffer(value, encodingOrOffset, length);
        if (ArrayBuffer.isView(value) || Array.isArray(value)) return over(Uint8Array.from(value));
        const primitive = typeof value.valueOf === 'function' ? value.valueOf() : value;
        if (primitive !== value && primitive !== null && (typeof primitive === 'string' || typeof primitive === 'object')) {
          return Buffer.from(primitive, encodingOrOffset, length);
        }
        if (value.type === 'Buffer' && Array.isArray(value.data)) return over(Uint8Array.from(value.data));
        if (typeof value.length === 'number') return over(Uint8Array.from(value));
        if (typeof value[Symbol.toPrimitive] === 'function') {
          return Buffer.from(value[Symbol.toPrimitive]('string'), encodingOrOffset);
        }
      }
      throw wrong('first argument', 'of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object', value);
    }

    static alloc(size, fill, encoding) {
      const buffer = new Buffer(checkSize(size));
      return fill === undefined || fill === 0 || size === 0 ? buffer : buffer.fill(fill, encoding);
    }

    static allocUnsafe(size) { return new Buffer(checkSize(size)); }
    static allocUnsafeSlow(size) { return new Buffer(checkSize(size)); }
    static of(...bytes) { return over(Uint8Array.from(bytes)); }
    static isBuffer(value) { return value instanceof Buffer; }
    static isEncoding(name) { return typeof name === 'string' && encodings.has(name.toLowerCase()); }

    static byteLength(value, encoding) {
      if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return value.byteLength;
      if (typeof value !== 'string') throw wrong('"string" argument', 'of type string or an instance of Buffer or ArrayBuffer', value);
      const known = encodings.get(String(encoding).toLowerCase()) ?? 'utf8';
      if (known === 'latin1' || known === 'ascii') return value.length;
      if (known === 'utf16le') return value.length * 2;
      if (known === 'hex') return value.length >> 1;
      return encode(value, known).length;
    }

    static concat(list, total) {
      if (!Array.isArray(list)) throw wrong('"list" argument', 'an instance of Array', list);
      if (total === undefined) total = list.reduce((sum, part) => sum + part.length, 0);
      const joined = new Buffer(total);
      let at = 0;
      for (const part of list) {
        if (!types.isUint8Array(part)) throw wrong(`"list[${list.indexOf(part)}]" argument`, 'an instance of Buffer or Uint8Array', part);
        if (at >= total) break;
        const fits = part.length > total - at ? bytesOf(part).subarray(0, total - at) : part;
        joined.set(fits, at);
        at += fits.length;
      }
      return joined;
    }

    static compare(a, b) {
      if (!types.isUint8Array(a)) throw wrong('"buf1" argument', 'an instance of Buffer or Uint8Array', a);
      if (!types.isUint8Array(b)) throw wrong('"buf2" argument', 'an instance of Buffer or Uint8Array', b);
      const shorter = Math.min(a.length, b.length);
      for (let i = 0; i < shorter; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
      return Math.sign(a.length - b.length);
    }

    get parent() { return this.buffer; }
    get offset() { return this.byteOffset; }

    toString(encoding, start, end) {
      const known = encodingOf(encoding);
      start = clamp(start, 0, this.length);
      end = clamp(end, this.length, this.length);
      return start >= end ? '' : decode(bytesOf(this).subarray(start, end), known);
    }

    toLocaleString(encoding, start, end) { return this.toString(encoding, start, end); }
    toJSON() { return { type: 'Buffer', data: Array.from(this) }; }

    equals(other) {
      if (!types.isUint8Array(other)) throw wrong('"otherBuffer" argument', 'an instance of Buffer or Uint8Array', other);
      return this.length === other.length && Buffer.compare(this, other) === 0;
    }

    compare(target, targetStart, targetEnd, start, end) {
      if (!types.isUint8Array(target)) throw wrong('"target" argument', 'an instance of Buffer or Uint8Array', target);
      return Buffer.compare(
        bytesOf(this).subarray(clamp(start, 0, this.length), clamp(end, this.length, this.length)),
        bytesOf(target).subarray(clamp(targetStart, 0, target.length), clamp(targetEnd, target.length, target.length)));
    }

    slice(start, end) { return this.subarray(start, end); }

    subarray(start, end) {
      const at = (value, fallback) => {
        if (value === undefined) return fallback;
        const n = Math.trunc(Number(value)) || 0;
        return n < 0 ? Math.max(n + this.length, 0) : Math.min(n, this.length);
      };
      const first = at(start, 0), last = at(end, this.length);
      return new Buffer(this.buffer, this.byteOffset + first, Math.max(last - first, 0));
    }

    copy(target, targetStart, start, end) {
      if (!types.isUint8Array(target)) throw wrong('"target" argument', 'an instance of Buffer or Uint8Array', target);
      const to = clamp(targetStart, 0, target.length);
      let part = bytesOf(this).subarray(clamp(start, 0, this.length), clamp(end, this.length, this.length));
      if (part.length > target.length - to) part = part.subarray(0, target.length - to);
      intrinsic.set.call(target, part, to);
      return part.length;
    }

    write(text, offset, length, encoding) {
      if (typeof text !== 'string') throw wrong('"string" argument', 'of type string', text);
      if (typeof offset === 'string') [encoding, offset, length] = [offset, undefined, undefined];
      else if (typeof length === 'string') [encoding, length] = [length, undefined];
      const at = clamp(offset, 0, this.length);
      const room = Math.min(clamp(length, this.length, this.length), this.length - at);
      const known = encodingOf(encoding);
      let bytes = encode(text, known);
      if (bytes.length > room) {
        let fits = room;
        // A character is written whole or not at all.
        if (known === 'utf8') while (fits > 0 && (bytes[fits] & 0xc0) === 0x80) fits--;
        if (known === 'utf16le') fits &= ~1;
        bytes = bytes.subarray(0, fits);
      }
      this.set(bytes, at);
      return bytes.length;
    }

    fill(value, start, end, encoding) {
      if (typeof start === 'string') [encoding, start, end] = [start, undefined, undefined];
      else if (typeof end === 'string') [encoding, end] = [end, undefined];
      start = clamp(start, 0, this.length);
      end = clamp(end, this.length, this.length);
      if (typeof value === 'string') {
        value = value === '' ? 0 : encode(value, encodingOf(encoding));
        if (value.length === 0) throw fail(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'value' is invalid.");
      } else if (!types.isUint8Array(value)) {
        value = Number(value) & 255;
      }
      if (typeof value === 'number') {
        intrinsic.fill.call(this, value, start, end);
      } else {
        for (let i = start; i < end; i++) this[i] = value[(i - start) % value.length];
      }
      return this;
    }

    includes(value, from, encoding) { return this.indexOf(value, from, encoding) !== -1; }
    indexOf(value, from, encoding) { return search(this, value, from, encoding, true); }
    lastIndexOf(value, from, encoding) { return search(this, value, from, encoding, false); }

    swap16() { return swap(this, 2); }
    swap32() { return swap(this, 4); }
    swap64() { return swap(this, 8); }
  }

  function search(buffer, value, from, encoding, forward) {
    if (typeof from === 'string') [encoding, from] = [from, undefined];
    let sought;
    if (typeof value === 'number') sought = Uint8Array.of(value);
    else if (typeof value === 'string') sought = encode(value, encodingOf(encoding));
    else if (types.isUint8Array(value)) sought = value;
    else throw wrong('"value" argument', 'one of type number or string or an instance of Buffer or Uint8Array', value);
    const last = buffer.length - sought.length;
    let at = Number(from);
    if (Number.isNaN(at)) at = forward ? 0 : last;
    at = Math.trunc(at);
    if (at < 0) at += buffer.length;
    if (sought.length === 0) return at < 0 ? 0 : Math.min(at, buffer.length);
    if (forward) {
      for (at = Math.max(at, 0); at <= last; at++) {
        at = intrinsic.indexOf.call(buffer, sought[0], at);
        if (at < 0 || at > last) return -1;
        if (matches(buffer, sought, at)) return at;
      }
      return -1;
    }
    for (at = Math.min(at, last); at >= 0; at--) if (matches(buffer, sought, at)) return at;
    return -1;
  }

  function matches(buffer, sought, at) {
    for (let i = 0; i < sought.length; i++) if (buffer[at + i] !== sought[i]) return false;
    return true;
  }

  function swap(buffer, width) {
    if (buffer.length % width !== 0) {
      throw fail(RangeError, 'ERR_INVALID_BUFFER_SIZE', `Buffer size must be a multiple of ${width * 8}-bits`);
    }
    for (let i = 0; i < buffer.length; i += width) intrinsic.reverse.call(bytesOf(buffer).subarray(i, i + width));
    return buffer;
  }

  const over = bytes => new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  Buffer.poolSize = 8192;

  // `Buffer(…)` without `new` is old, deprecated, and still found in flows.
  library.Buffer = new Proxy(Buffer, {
    apply: (target, self, [value, encoding, length]) => typeof value === 'number' ? Buffer.alloc(value) : Buffer.from(value, encoding, length),
    construct(target, [value, offset, length], asked) {
      const isOld = typeof value === 'string' || Array.isArray(value);
      return isOld ? Buffer.from(value, offset, length) : Reflect.construct(target, [value, offset, length].filter(v => v !== undefined), asked);
    },
  });
  Object.defineProperty(Buffer.prototype, 'constructor', { value: library.Buffer, writable: true, configurable: true });
  library.bufferPrototype = Buffer.prototype;
  library.bufferOver = store => new Buffer(store);
  library.fail = fail;
  library.wrongArgument = wrong;
})
