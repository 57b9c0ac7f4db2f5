// `util`: that of functions, an object of the node's own, and what modules want beside it.
(function (library, native, require) {
  'use strict';

  const { Buffer, util } = library;
  const encodings = { utf8: 'utf8', 'utf-8': 'utf8', 'unicode-1-1-utf-8': 'utf8', 'utf-16le': 'utf16le', 'utf-16': 'utf16le',
    latin1: 'latin1', 'iso-8859-1': 'latin1', ascii: 'latin1', 'us-ascii': 'latin1' };
  const names = { utf8: 'utf-8', utf16le: 'utf-16le', latin1: 'windows-1252' };

  class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return new Uint8Array(Buffer.from(String(text))); }
    encodeInto(text, target) {
      const written = Buffer.from(target.buffer, target.byteOffset, target.byteLength).write(text);
      return { read: Buffer.from(target.buffer, target.byteOffset, written).toString().length, written };
    }
  }

  class TextDecoder {
    #decoder;
    #encoding;
    #isFirst = true;
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      this.#encoding = encodings[String(label).trim().toLowerCase()];
      if (this.#encoding === undefined) {
        throw library.fail(RangeError, 'ERR_ENCODING_NOT_SUPPORTED', `The "${label}" encoding is not supported`);
      }
      Object.assign(this, { fatal: Boolean(fatal), ignoreBOM: Boolean(ignoreBOM) });
    }
    get encoding() { return names[this.#encoding]; }
    decode(bytes = new Uint8Array(0), { stream = false } = {}) {
      this.#decoder ??= new (require('string_decoder').StringDecoder)(this.#encoding);
      const given = ArrayBuffer.isView(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) : Buffer.from(bytes);
      if (this.fatal && !stream && this.#encoding === 'utf8' && !require('buffer').isUtf8(given)) {
        throw library.fail(TypeError, 'ERR_ENCODING_INVALID_ENCODED_DATA', 'The encoded data was not valid for encoding utf-8');
      }
      let text = this.#decoder.write(given);
      if (!stream) text += this.#decoder.end();
      if (this.#isFirst && !this.ignoreBOM) text = text.replace(/^\ufeff/, '');
      this.#isFirst = !stream;
      return text;
    }
  }

  return {
    ...util,
    types: { ...util.types },
    debug: util.debuglog,
    formatWithOptions: (options, ...values) => util.format(...values),
    _extend: (target, source) => typeof source === 'object' && source !== null ? Object.assign(target, source) : target,
    TextEncoder, TextDecoder,
  };
})
