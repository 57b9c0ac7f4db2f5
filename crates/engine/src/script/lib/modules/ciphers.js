// The ciphers of `crypto`: AES and ChaCha20-Poly1305, which are streams too.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const { Transform } = require('stream');
  const ofOpenSsl = require('internal/openssl');
  const { secretOf } = require('internal/keys');
  const NAMES = ['128', '192', '256'].flatMap(bits => ['cbc', 'ctr', 'ecb', 'gcm'].map(mode => `aes-${bits}-${mode}`)).concat('chacha20-poly1305');
  const aliases = { aes128: 'aes-128-cbc', aes192: 'aes-192-cbc', aes256: 'aes-256-cbc',
    'id-aes128-gcm': 'aes-128-gcm', 'id-aes192-gcm': 'aes-192-gcm', 'id-aes256-gcm': 'aes-256-gcm' };

  const failures = {
    key: () => fail(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length'),
    iv: () => fail(TypeError, 'ERR_CRYPTO_INVALID_IV', 'Invalid initialization vector'),
    padding: () => ofOpenSsl('1C800064', 'Provider routines', 'bad decrypt'),
    length: () => ofOpenSsl('1C80006B', 'Provider routines', 'wrong final block length'),
    tag: () => new Error('Unsupported state or unable to authenticate data'),
  };
  const wrongState = method => fail(Error, 'ERR_CRYPTO_INVALID_STATE', `Invalid state for operation ${method}`);

  return bytesOf => {
    const encoded = (value, encoding, name) => library.base64Of(bytesOf(value, encoding, name));

    class Text extends Transform {
      #step;
      #encrypts;
      #tagLength;
      #decoder;
      #tag;
      #isOver = false;
      constructor(encrypts, algorithm, key, iv, options = {}) {
        super(options);
        if (typeof algorithm !== 'string') throw library.wrongArgument('"cipher" argument', 'of type string', algorithm);
        const name = aliases[algorithm.toLowerCase()] ?? algorithm.toLowerCase();
        const start = iv === null ? '' : encoded(iv, undefined, 'iv');
        this.#step = native.cipher(name, encrypts, encoded(secretOf(key), undefined, 'key'), start);
        if (this.#step === undefined) throw fail(Error, 'ERR_CRYPTO_UNKNOWN_CIPHER', 'Unknown cipher');
        if (typeof this.#step === 'string') throw failures[this.#step]();
        this.#encrypts = encrypts;
        this.#tagLength = options.authTagLength ?? 16;
      }
      update(data, inputEncoding, outputEncoding) {
        if (this.#isOver) throw wrongState('update');
        return this.#shown(Buffer.from(this.#step('update', encoded(data, inputEncoding))), outputEncoding);
      }
      final(outputEncoding) {
        if (this.#isOver) throw fail(Error, 'ERR_CRYPTO_INVALID_STATE', 'Invalid state');
        const parts = this.#encrypts || this.#tag === undefined ? this.#step('final') : this.#step('final', library.base64Of(this.#tag));
        this.#isOver = true;
        if (typeof parts === 'string') throw failures[parts]();
        if (this.#encrypts && parts[1] !== undefined) this.#tag = Buffer.from(parts[1]).subarray(0, this.#tagLength);
        const last = this.#shown(Buffer.from(parts[0]), outputEncoding);
        return typeof last === 'string' ? last + this.#decoder.end() : last;
      }
      // A text is cut only where a character of its encoding ends.
      #shown(bytes, encoding) {
        if (encoding === undefined || encoding === 'buffer') return bytes;
        this.#decoder ??= new (require('string_decoder').StringDecoder)(encoding);
        return this.#decoder.write(bytes);
      }
      setAutoPadding(pads = true) {
        if (this.#isOver) throw wrongState('setAutoPadding');
        if (!pads) this.#step('unpadded');
        return this;
      }
      setAAD(bytes, { encoding } = {}) {
        if (this.#isOver || !this.#step('header', encoded(bytes, encoding, 'aadbuf'))) throw wrongState('setAAD');
        return this;
      }
      getAuthTag() {
        if (!this.#encrypts || !this.#isOver || this.#tag === undefined) throw wrongState('getAuthTag');
        return this.#tag;
      }
      setAuthTag(tag, encoding) {
        const bytes = bytesOf(tag, encoding, 'tag');
        if (this.#encrypts || this.#isOver || this.#tag !== undefined) throw wrongState('setAuthTag');
        if (![4, 8, 12, 13, 14, 15, 16].includes(bytes.length)) {
          throw fail(TypeError, 'ERR_CRYPTO_INVALID_AUTH_TAG', `Invalid authentication tag length: ${bytes.length}`);
        }
        this.#tag = Buffer.from(bytes);
        return this;
      }
      _transform(chunk, encoding, done) {
        let out;
        try { out = this.update(chunk, encoding); } catch (error) { return done(error); }
        done(null, out);
      }
      _flush(done) {
        let out;
        try { out = this.final(); } catch (error) { return done(error); }
        done(null, out);
      }
    }
    class Cipheriv extends Text { constructor(...given) { super(true, ...given); } }
    class Decipheriv extends Text {
      constructor(...given) { super(false, ...given); this.getAuthTag = undefined; }
    }

    return {
      Cipheriv, Decipheriv,
      createCipheriv: (...given) => new Cipheriv(...given), createDecipheriv: (...given) => new Decipheriv(...given),
      getCiphers: () => [...NAMES],
      getCipherInfo(name) {
        const known = typeof name === 'string' ? aliases[name.toLowerCase()] ?? name.toLowerCase() : '';
        const kind = native.cipherKind(known);
        if (kind === undefined) return undefined;
        const [keyLength, ivLength, mode] = kind;
        const own = mode === 'gcm' ? `id-aes${keyLength * 8}-gcm` : known;
        const info = { name: own, mode: mode === 'poly1305' ? 'stream' : mode, keyLength };
        if (ivLength > 0) info.ivLength = ivLength;
        if (mode !== 'poly1305') info.blockSize = mode === 'cbc' || mode === 'ecb' ? 16 : 1;
        return info;
      },
    };
  };
})
