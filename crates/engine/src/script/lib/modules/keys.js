// The keys of `crypto`: `KeyObject`, and what reads and generates keys.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const ofOpenSsl = require('internal/openssl');
  const inspected = Symbol.for('nodejs.util.inspect.custom');
  const isBytes = value => library.types.isAnyArrayBuffer(value) || ArrayBuffer.isView(value);
  const bytesOf = value => ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : Buffer.from(value);
  const wrongValue = (name, value) => fail(TypeError, 'ERR_INVALID_ARG_VALUE', `The property 'options.${name}' is invalid. Received ${library.inspect(value)}`);
  const wrongType = (has, wanted) => fail(TypeError, 'ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE', `Invalid key object type ${has}, expected ${wanted}.`);
  const unreadable = {
    key: () => ofOpenSsl('1E08010C', 'DECODER routines', 'unsupported'),
    locked: () => Object.assign(ofOpenSsl('07880109', 'common libcrypto routines', 'interrupted or cancelled'),
      { code: 'ERR_OSSL_CRYPTO_INTERRUPTED_OR_CANCELLED' }),
    passphrase: () => ofOpenSsl('1C800064', 'Provider routines', 'bad decrypt'),
  };
  const LABELS = {
    private: { pkcs1: 'RSA PRIVATE KEY', pkcs8: 'PRIVATE KEY', sec1: 'EC PRIVATE KEY' },
    public: { pkcs1: 'RSA PUBLIC KEY', spki: 'PUBLIC KEY' },
  };
  const pem = (label, der) => `-----BEGIN ${label}-----\n${der.toString('base64').replace(/.{1,64}/g, '$&\n')}-----END ${label}-----\n`;

  // Only the functions below make keys.
  const inside = Symbol('inside');

  class KeyObject {
    constructor(type, facts, token) {
      if (token !== inside) throw new TypeError('Illegal constructor');
      Object.defineProperties(this, { type: { value: type }, [inside]: { value: facts } });
    }
    get [Symbol.toStringTag]() { return 'KeyObject'; }
    [inspected]() { return `${this.constructor.name} {}`; }
    equals(other) {
      if (!(other instanceof KeyObject)) throw library.wrongArgument('"otherKeyObject" argument', 'an instance of KeyObject', other);
      const [one, two] = [this, other].map(key => key[inside][key.type]);
      return this.type === other.type && one.length === two.length && native.areEqual(library.base64Of(one), library.base64Of(two));
    }
  }
  class SecretKeyObject extends KeyObject {
    get symmetricKeySize() { return this[inside].secret.length; }
    export({ format = 'buffer' } = {}) {
      if (format === 'jwk') return { kty: 'oct', k: this[inside].secret.toString('base64url') };
      if (format !== 'buffer') throw wrongValue('format', format);
      return Buffer.from(this[inside].secret);
    }
  }
  class AsymmetricKeyObject extends KeyObject {
    get asymmetricKeyType() { return this[inside].kind; }
    get asymmetricKeyDetails() {
      const { kind, curve, modulus, exponent } = this[inside];
      if (kind === 'ec') return { namedCurve: curve };
      if (kind !== 'rsa') return {};
      return { modulusLength: (modulus.length - 1) * 8 + 32 - Math.clz32(modulus[0]), publicExponent: BigInt(`0x${exponent.toString('hex')}`) };
    }
    export(options) {
      if (options === null || typeof options !== 'object') throw library.wrongArgument('"options" argument', 'of type object', options);
      const { type, format, cipher } = options;
      if (!['pem', 'der'].includes(format)) throw wrongValue('format', format);
      const label = LABELS[this.type][type];
      if (label === undefined) throw wrongValue('type', type);
      if (cipher !== undefined) throw wrongValue('cipher', cipher);
      const der = native.writeKey(this[inside].native, label);
      if (der === undefined) {
        throw fail(Error, 'ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS', `The selected key encoding ${type} can only be used for ${type === 'sec1' ? 'EC' : 'RSA'} keys.`);
      }
      return format === 'pem' ? pem(label, Buffer.from(der)) : Buffer.from(der);
    }
  }
  class PublicKeyObject extends AsymmetricKeyObject {}
  class PrivateKeyObject extends AsymmetricKeyObject {}

  function keyOf(type, read) {
    const facts = {};
    for (const name of ['kind', 'curve']) facts[name] = read[name];
    for (const name of ['modulus', 'exponent', 'public', ...type === 'private' ? ['private'] : []]) {
      if (read[name] !== undefined) facts[name] = Buffer.from(read[name]);
    }
    facts.native = { isPrivate: type === 'private', der: library.base64Of(facts[type]) };
    return new (type === 'private' ? PrivateKeyObject : PublicKeyObject)(type, facts, inside);
  }

  // A key in PEM or DER; `wanted` is `private`, or `public`, which a private key and a certificate are too.
  function read(given, wanted) {
    const options = given !== null && typeof given === 'object' && !isBytes(given) ? given : { key: given };
    const { key, format = 'pem', type, passphrase, encoding } = options;
    if (typeof key !== 'string' && !isBytes(key)) {
      throw library.wrongArgument(options === given ? '"key.key" property' : '"key" argument',
        'of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView', key);
    }
    const bytes = typeof key === 'string' ? Buffer.from(key, encoding) : bytesOf(key);
    const secret = passphrase === undefined || passphrase === null ? undefined : library.base64Of(typeof passphrase === 'string' ? Buffer.from(passphrase, encoding) : bytesOf(passphrase));
    let label, der;
    if (format === 'der') {
      label = wanted === 'public' ? LABELS.public[type] ?? LABELS.private[type] : LABELS.private[type];
      if (label === undefined) throw wrongValue('type', type);
      if (type === 'pkcs8' && secret !== undefined) label = 'ENCRYPTED PRIVATE KEY';
      der = bytes;
    } else if (format === 'pem') {
      const found = [...bytes.toString('latin1').matchAll(/-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)-----END \1-----/g)]
        .find(([, name]) => name.endsWith('PRIVATE KEY') || wanted === 'public' && /^(RSA )?PUBLIC KEY$|^CERTIFICATE$/.test(name));
      if (found === undefined) throw unreadable.key();
      [label, der] = [found[1], Buffer.from(found[2], 'base64')];
    } else {
      throw wrongValue('format', format);
    }
    const made = native.readKey(label, library.base64Of(der), secret);
    if (typeof made === 'string') throw unreadable[made]();
    return keyOf(wanted, made);
  }

  // The key that an operation is given: an object, or what one is made of.
  function keyFor(given, wanted) {
    const key = given instanceof KeyObject ? given : given?.key instanceof KeyObject ? given.key : undefined;
    if (key === undefined) return read(given, wanted);
    if (key.type === wanted) return key;
    if (key.type === 'secret' || wanted === 'private') throw wrongType(key.type, wanted === 'private' ? 'private' : 'private or public');
    return keyOf('public', key[inside]);
  }

  function createPrivateKey(key) {
    if (key instanceof KeyObject) {
      throw library.wrongArgument('"key" argument', 'of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView', key);
    }
    return read(key, 'private');
  }
  function createPublicKey(key) {
    const object = key instanceof KeyObject ? key : key?.key;
    if (object instanceof KeyObject && object.type !== 'private') throw wrongType(object.type, 'private');
    return keyFor(key, 'public');
  }
  function createSecretKey(key, encoding) {
    if (typeof key !== 'string' && !isBytes(key)) {
      throw library.wrongArgument('"key" argument', 'an instance of ArrayBuffer, Buffer, TypedArray, or DataView', key);
    }
    const secret = typeof key === 'string' ? Buffer.from(key, encoding) : Buffer.from(bytesOf(key));
    return new SecretKeyObject('secret', { secret }, inside);
  }

  // A function that gives the pair once it is there.
  function generator(type, options) {
    if (!['rsa', 'ec', 'ed25519'].includes(type)) {
      throw fail(TypeError, 'ERR_INVALID_ARG_VALUE', `The argument 'type' must be a supported key type. Received ${library.inspect(type)}`);
    }
    if (options === undefined && type === 'ed25519') options = {};
    if (options === null || typeof options !== 'object') throw library.wrongArgument('"options" argument', 'of type object', options);
    const { modulusLength = 0, namedCurve = '', publicExponent = 65537, publicKeyEncoding, privateKeyEncoding } = options;
    if (type === 'rsa') {
      if (typeof options.modulusLength !== 'number') throw library.wrongArgument('"options.modulusLength" property', 'of type number', options.modulusLength);
      if (![2048, 3072, 4096].includes(modulusLength)) {
        throw fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.modulusLength" is out of range. It must be 2048, 3072 or 4096. Received ${modulusLength}`);
      }
      if (publicExponent !== 65537) {
        throw fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "options.publicExponent" is out of range. It must be 65537. Received ${publicExponent}`);
      }
    }
    if (type === 'ec' && typeof options.namedCurve !== 'string') throw library.wrongArgument('"options.namedCurve" property', 'of type string', options.namedCurve);
    const look = native.generateKey({ kind: type, bits: modulusLength, curve: namedCurve });
    if (look === 'curve') throw fail(TypeError, 'ERR_CRYPTO_INVALID_CURVE', 'Invalid EC curve name');
    const encoded = (key, encoding) => encoding === undefined ? key : key.export(encoding);
    return waits => {
      const pair = look(waits);
      if (pair === undefined) return undefined;
      if (pair === 'failed') throw fail(Error, 'ERR_CRYPTO_OPERATION_FAILED', 'Operation failed');
      return [encoded(keyOf('public', pair), publicKeyEncoding), encoded(keyOf('private', pair), privateKeyEncoding)];
    };
  }

  function generateKeyPairSync(type, options) {
    const look = generator(type, options);
    for (;;) {
      const pair = look(true);
      if (pair !== undefined) return { publicKey: pair[0], privateKey: pair[1] };
    }
  }
  // Looks every few milliseconds, so that other nodes run meanwhile.
  function generateKeyPair(type, options, callback) {
    if (typeof options === 'function') [options, callback] = [undefined, options];
    if (typeof callback !== 'function') throw library.wrongArgument('"callback" argument', 'of type function', callback);
    const look = generator(type, options);
    const again = () => {
      let pair;
      try { pair = look(false); } catch (error) { return callback(error); }
      if (pair === undefined) setTimeout(again, 10); else callback(null, ...pair);
    };
    setTimeout(again, 0);
  }
  Object.defineProperty(generateKeyPair, library.util.promisify.custom, {
    value: (type, options) => new Promise((resolve, reject) => {
      generateKeyPair(type, options, (error, publicKey, privateKey) => error ? reject(error) : resolve({ publicKey, privateKey }));
    }),
  });

  return {
    keyFor, nativeOf: key => key[inside].native, wrongValue,
    secretOf: key => key instanceof SecretKeyObject ? key[inside].secret : key,
    exported: {
      KeyObject, createPrivateKey, createPublicKey, createSecretKey, generateKeyPair, generateKeyPairSync,
      getCurves: () => ['prime256v1', 'secp256k1', 'secp384r1', 'secp521r1'],
    },
  };
})
