// `string_decoder`: text from bytes that come in pieces, none of which must end with a character.
(function (library, native, require) {
  'use strict';

  const { Buffer } = library;
  const names = { utf8: 'utf8', 'utf-8': 'utf8', ucs2: 'utf16le', 'ucs-2': 'utf16le', utf16le: 'utf16le', 'utf-16le': 'utf16le',
    latin1: 'latin1', binary: 'latin1', base64: 'base64', base64url: 'base64url', ascii: 'ascii', hex: 'hex' };

  // How many bytes at the end begin a character that is not whole.
  function unfinished(bytes, encoding) {
    const { length } = bytes;
    switch (encoding) {
      case 'utf8':
        for (let back = 1; back <= Math.min(3, length); back++) {
          const byte = bytes[length - back];
          if ((byte & 0xc0) === 0x80) continue;
          const whole = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
          return byte <= 0xf4 && whole > back ? back : 0;
        }
        return 0;
      case 'utf16le': {
        const odd = length % 2;
        const isHigh = length - odd > 0 && (bytes[length - odd - 1] & 0xfc) === 0xd8;
        return odd + (isHigh ? 2 : 0);
      }
      case 'base64': case 'base64url': return length % 3;
      default: return 0;
    }
  }

  function StringDecoder(encoding) {
    const known = names[String(encoding ?? 'utf8').toLowerCase()];
    if (known === undefined) throw library.fail(TypeError, 'ERR_UNKNOWN_ENCODING', `Unknown encoding: ${encoding}`);
    this.encoding = known;
    Object.defineProperty(this, 'rest', { value: Buffer.alloc(0), writable: true });
  }
  StringDecoder.prototype.write = function (bytes) {
    if (typeof bytes === 'string') return bytes;
    if (!ArrayBuffer.isView(bytes)) throw library.wrongArgument('"buf" argument', 'an instance of Buffer, TypedArray, or DataView', bytes);
    const all = Buffer.concat([this.rest, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)]);
    const end = all.length - unfinished(all, this.encoding);
    this.rest = Buffer.from(all.subarray(end));
    return all.toString(this.encoding, 0, end);
  };
  StringDecoder.prototype.end = function (bytes) {
    const text = bytes === undefined ? '' : this.write(bytes);
    const last = this.encoding === 'utf8' && this.rest.length > 0 ? '\ufffd' : this.rest.toString(this.encoding);
    this.rest = Buffer.alloc(0);
    return text + last;
  };
  return { StringDecoder };
})
