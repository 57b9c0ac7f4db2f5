// `zlib`: gzip, deflate and Brotli, at once, later, and as streams.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const { Transform } = require('stream');
  const brotli = require('internal/brotli');
  const constants = {
    Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5,
    Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6,
    Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1,
    Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3, Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0,
    ZLIB_VERNUM: 4880, DEFLATE: 1, INFLATE: 2, GZIP: 3, GUNZIP: 4, DEFLATERAW: 5, INFLATERAW: 6, UNZIP: 7,
    Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, Z_MIN_CHUNK: 64, Z_MAX_CHUNK: Infinity,
    Z_DEFAULT_CHUNK: 16384, Z_MIN_MEMLEVEL: 1, Z_MAX_MEMLEVEL: 9, Z_DEFAULT_MEMLEVEL: 8, Z_MIN_LEVEL: -1, Z_MAX_LEVEL: 9, Z_DEFAULT_LEVEL: -1,
    ...brotli.constants,
  };
  const MOST = 2 ** 32;

  const bytesOf = (value, name) => {
    if (typeof value === 'string') return Buffer.from(value);
    if (library.types.isAnyArrayBuffer(value)) return Buffer.from(value);
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    throw library.wrongArgument(`"${name}" argument`, 'of type string or an instance of Buffer, TypedArray, DataView, or ArrayBuffer', value);
  };
  // zlib's own level by default is 6.
  const levelOf = ({ level = -1 }) => {
    if (typeof level !== 'number') throw library.wrongArgument('"options.level" property', 'of type number', level);
    if (!(level >= -1 && level <= 9)) {
      throw fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.level" is out of range. It must be >= -1 and <= 9. Received ${level}`);
    }
    return level < 0 ? 6 : level;
  };
  const failure = wrong => {
    if (wrong < 0) return brotli.failure(wrong);
    if (typeof wrong === 'number') return fail(RangeError, 'ERR_BUFFER_TOO_LARGE', `Cannot create a Buffer larger than ${wrong} bytes`);
    const [errno, code] = wrong === 'unexpected end of file' ? [-5, 'Z_BUF_ERROR'] : [-3, 'Z_DATA_ERROR'];
    return Object.assign(new Error(wrong), { errno, code });
  };

  // A function of bytes and whether they are the last.
  const stepOf = (kind, options) => {
    const step = kind.brotli ? kind.brotli(options) : kind.deflates ? native.deflater(kind.format, levelOf(options)) : undefined;
    let inflate;
    return (bytes, isLast) => {
      const run = step ?? (inflate ??= native.inflater(kind.format ?? formatOf(bytes)));
      const made = run(library.base64Of(bytes), isLast, options.maxOutputLength ?? MOST);
      if (!library.types.isAnyArrayBuffer(made)) throw failure(made);
      return Buffer.from(made);
    };
  };
  const formatOf = bytes => bytes[0] === 0x1f && bytes[1] === 0x8b ? 'gzip' : 'zlib';

  const kinds = {
    Gzip: { deflates: true, format: 'gzip' }, Gunzip: { format: 'gzip' },
    Deflate: { deflates: true, format: 'zlib' }, Inflate: { format: 'zlib' },
    DeflateRaw: { deflates: true, format: 'raw' }, InflateRaw: { format: 'raw' }, Unzip: {},
    BrotliCompress: { brotli: brotli.encoder }, BrotliDecompress: { brotli: brotli.decoder },
  };
  const exported = { constants, codes: {} };
  for (const [name, value] of Object.entries(constants).filter(([key]) => /^Z_[A-Z]+(_END|_DICT|_ERROR)?$/.test(key) && !/FLUSH|FINISH|BLOCK|FILTERED|RLE|FIXED/.test(key))) {
    exported.codes[name] = value;
    exported.codes[value] = name;
  }

  for (const [name, kind] of Object.entries(kinds)) {
    const small = name[0].toLowerCase() + name.slice(1);
    function Zlib(options = {}) {
      if (!(this instanceof Zlib)) return new Zlib(options);
      Transform.call(this, options);
      this._step = stepOf(kind, options);
      this.bytesWritten = 0;
    }
    Object.setPrototypeOf(Zlib.prototype, Transform.prototype);
    Object.setPrototypeOf(Zlib, Transform);
    Object.defineProperty(Zlib, 'name', { value: name });
    Object.assign(Zlib.prototype, {
      _transform(chunk, encoding, done) {
        let out;
        try { out = this._step(chunk, false); } catch (error) { return done(error); }
        this.bytesWritten += chunk.length;
        done(null, out.length > 0 ? out : undefined);
      },
      _flush(done) {
        let out;
        try { out = this._step(Buffer.alloc(0), true); } catch (error) { return done(error); }
        done(null, out.length > 0 ? out : undefined);
      },
      close(done) { if (done) this.once('close', done); this.destroy(); },
    });
    exported[name] = Zlib;
    exported[`create${name}`] = options => new Zlib(options);
    const sync = exported[`${small}Sync`] = (value, options = {}) => stepOf(kind, options)(bytesOf(value, 'buffer'), true);
    exported[small] = (value, options, done) => {
      if (typeof options === 'function') [options, done] = [{}, options];
      if (typeof done !== 'function') throw library.wrongArgument('"callback" argument', 'of type function', done);
      const bytes = bytesOf(value, 'buffer');
      let values;
      try { values = [null, sync(bytes, options)]; } catch (error) { values = [error]; }
      setTimeout(done, 0, ...values);
    };
  }
  return exported;
})
