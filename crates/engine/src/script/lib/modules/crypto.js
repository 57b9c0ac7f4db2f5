// `crypto`: digests, codes of authentication, derived keys and random values; the rest is in files of its own.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const keys = require('internal/keys');
  const HASHES = ['md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha512', 'sha512-256'];
  // Bytes that a digest takes in one step; shorter ones are the rule.
  const LONG_BLOCKS = ['sha384', 'sha512', 'sha512-256'];

  const bytesOf = (value, encoding, name = 'data') => {
    if (typeof value === 'string') return Buffer.from(value, encoding === 'buffer' ? 'utf8' : encoding);
    if (library.types.isAnyArrayBuffer(value)) return Buffer.from(value);
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    throw library.wrongArgument(`"${name}" argument`, 'of type string or an instance of Buffer, TypedArray, or DataView', value);
  };
  const base64 = (value, encoding, name) => library.base64Of(bytesOf(value, encoding, name));
  const shown = (buffer, encoding) => encoding === undefined || encoding === 'buffer' ? buffer : buffer.toString(encoding);
  const nameOf = algorithm => {
    if (typeof algorithm !== 'string') throw library.wrongArgument('"algorithm" argument', 'of type string', algorithm);
    return algorithm.toLowerCase().replace(/^rsa-/, '').replace(/^sha-/, 'sha').replace('/', '-');
  };
  const finished = () => fail(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');

  // What both kinds have in common: bytes go in until the digest is asked for.
  class Digest {
    #add;
    #end;
    #isFinished = false;
    constructor(add, end) { this.#add = add; this.#end = end; }
    update(data, encoding) {
      if (this.#isFinished) throw finished();
      this.#add(base64(data, encoding));
      return this;
    }
    digest(encoding) {
      if (this.#isFinished) throw finished();
      this.#isFinished = true;
      return shown(this.#end(), encoding);
    }
  }
  class Hash extends Digest {}
  class Hmac extends Digest {}

  function hasherOf(algorithm, complaint) {
    const hasher = native.hasher(nameOf(algorithm));
    if (hasher === undefined) throw complaint();
    return hasher;
  }
  const unknownHash = () => new Error('Digest method not supported');

  function createHash(algorithm) {
    const hasher = hasherOf(algorithm, unknownHash);
    return new Hash(hasher, () => Buffer.from(hasher()));
  }
  const hash = (algorithm, data, encoding = 'hex') => createHash(algorithm).update(data).digest(encoding);

  // RFC 2104.
  function createHmac(algorithm, secret) {
    const unknown = () => fail(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${algorithm}`);
    const inner = hasherOf(algorithm, unknown), outer = hasherOf(algorithm, unknown);
    const block = Buffer.alloc(LONG_BLOCKS.includes(nameOf(algorithm)) ? 128 : 64);
    const key = bytesOf(keys.secretOf(secret), undefined, 'key');
    (key.length > block.length ? createHash(algorithm).update(key).digest() : key).copy(block);
    inner(library.base64Of(block.map(byte => byte ^ 0x36)));
    outer(library.base64Of(block.map(byte => byte ^ 0x5c)));
    return new Hmac(inner, () => {
      outer(library.base64Of(new Uint8Array(inner())));
      return Buffer.from(outer());
    });
  }

  const whole = (value, name, least, most) => {
    if (typeof value !== 'number') throw library.wrongArgument(`"${name}" argument`, 'of type number', value);
    if (!Number.isInteger(value) || value < least || value > most) {
      throw fail(RangeError, 'ERR_OUT_OF_RANGE',
        `The value of "${name}" is out of range. It must be >= ${least} && <= ${most}. Received ${value}`);
    }
    return value;
  };
  const MOST = 2 ** 31 - 1;

  function pbkdf2Sync(password, salt, iterations, keylen, digest) {
    const derived = native.pbkdf2({
      secret: base64(password, undefined, 'password'), salt: base64(salt, undefined, 'salt'),
      rounds: whole(iterations, 'iterations', 1, MOST), length: whole(keylen, 'keylen', 0, MOST), algorithm: nameOf(digest),
    });
    if (derived === undefined) throw fail(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${digest}`);
    return Buffer.from(derived);
  }

  // RFC 5869.
  function hkdfSync(digest, key, salt, info, keylen) {
    if (!HASHES.includes(nameOf(digest))) throw fail(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${digest}`);
    const one = createHmac(digest, bytesOf(salt, undefined, 'salt')).update(bytesOf(keys.secretOf(key), undefined, 'ikm')).digest();
    const most = 255 * one.length;
    if (whole(keylen, 'length', 0, MOST) > most) throw fail(RangeError, 'ERR_CRYPTO_INVALID_KEYLEN', 'Invalid key length');
    const blocks = [];
    for (let length = 0; length < keylen; length += one.length) {
      const previous = blocks.at(-1) ?? Buffer.alloc(0);
      blocks.push(createHmac(digest, one).update(previous).update(info).update(Buffer.of(blocks.length + 1)).digest());
    }
    return new Uint8Array(Buffer.concat(blocks).subarray(0, keylen)).buffer;
  }

  // RFC 7914.
  function scryptSync(password, salt, keylen, options = {}) {
    const cost = options.N ?? options.cost ?? 16384, size = options.r ?? options.blockSize ?? 8, parallel = options.p ?? options.parallelization ?? 1;
    const memory = options.maxmem ?? 32 * 1024 * 1024;
    const wrong = text => fail(RangeError, 'ERR_CRYPTO_INVALID_SCRYPT_PARAMS', `Invalid scrypt params${text}`);
    if (128 * cost * size > memory) throw wrong(': error:030000AC:digital envelope routines::memory limit exceeded');
    const derived = native.scrypt({
      secret: base64(password, undefined, 'password'), salt: base64(salt, undefined, 'salt'), cost, size, parallel,
      length: whole(keylen, 'keylen', 0, MOST),
    });
    if (derived === undefined) throw wrong('');
    return Buffer.from(derived);
  }

  function randomFillSync(target, offset = 0, size) {
    const bytes = bytesOf(target, undefined, 'buf');
    const end = size === undefined ? bytes.length : offset + size;
    for (let at = offset; at < end;) {
      const some = new Uint8Array(native.random(end - at));
      bytes.set(some, at);
      at += some.length;
    }
    return target;
  }

  // Later, as those that take a callback do it; what goes wrong is its first argument.
  const later = (callback, work) => {
    if (typeof callback !== 'function') throw library.wrongArgument('"callback" argument', 'of type function', callback);
    let values;
    try { values = [null, work()]; } catch (error) { values = [error]; }
    setTimeout(callback, 0, ...values);
  };
  const withCallback = work => (...values) => {
    if (typeof values.at(-1) !== 'function') return work(...values);
    const callback = values.pop();
    return later(callback, () => work(...values));
  };

  const randomBytes = size => randomFillSync(Buffer.alloc(whole(size, 'size', 0, MOST)));

  // Values that would make some numbers more likely than others are thrown away.
  function randomInt(least, most) {
    if (most === undefined) [least, most] = [0, least];
    const range = most - least;
    if (!Number.isSafeInteger(least)) throw library.wrongArgument('"min" argument', 'a safe integer', least);
    if (!Number.isSafeInteger(most)) throw library.wrongArgument('"max" argument', 'a safe integer', most);
    if (range <= 0 || range >= 2 ** 48) {
      throw fail(RangeError, 'ERR_OUT_OF_RANGE',
        `The value of "max" is out of range. It must be greater than the value of "min" (${least}). Received ${most}`);
    }
    const end = 2 ** 48 - 2 ** 48 % range;
    for (;;) {
      const value = randomBytes(6).readUIntBE(0, 6);
      if (value < end) return least + value % range;
    }
  }

  // RFC 9562: version 4.
  function randomUUID() {
    const bytes = randomBytes(16);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  }

  function timingSafeEqual(a, b) {
    const [one, other] = [bytesOf(a, undefined, 'buf1'), bytesOf(b, undefined, 'buf2')];
    if (one.length !== other.length) {
      throw fail(RangeError, 'ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH', 'Input buffers must have the same byte length');
    }
    return native.areEqual(library.base64Of(one), library.base64Of(other));
  }

  const { sign, verify, ...signing } = require('internal/sign')({ bytesOf, nameOf, shown });
  return {
    ...require('internal/ciphers')(bytesOf), ...keys.exported, ...signing, sign: withCallback(sign), verify: withCallback(verify),
    hkdfSync, hkdf: withCallback(hkdfSync), scryptSync, scrypt: withCallback(scryptSync),
    Hash, Hmac, createHash, createHmac, hash, getHashes: () => [...HASHES], pbkdf2Sync, pbkdf2: withCallback(pbkdf2Sync),
    randomBytes: withCallback(randomBytes), pseudoRandomBytes: withCallback(randomBytes), randomInt: withCallback(randomInt),
    randomFillSync, randomFill: withCallback(randomFillSync), getRandomValues: target => randomFillSync(target), randomUUID,
    timingSafeEqual,
  };
})
