// The signatures of `crypto`, and its encryption with RSA.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const { Writable } = require('stream');
  const keys = require('internal/keys');
  const ofOpenSsl = require('internal/openssl');
  const constants = {
    RSA_PKCS1_PADDING: 1, RSA_NO_PADDING: 3, RSA_PKCS1_OAEP_PADDING: 4, RSA_PKCS1_PSS_PADDING: 6,
    RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_MAX_SIGN: -2, RSA_PSS_SALTLEN_AUTO: -2,
  };
  const LENGTHS = { sha1: 20, sha256: 32, sha384: 48, sha512: 64 };
  const failures = {
    digest: () => ofOpenSsl('1C80007A', 'Provider routines', 'invalid digest'),
    kind: () => Object.assign(ofOpenSsl('03000096', 'digital envelope routines', 'operation not supported for this keytype'),
      { code: 'ERR_OSSL_EVP_OPERATION_NOT_SUPPORTED_FOR_THIS_KEYTYPE' }),
    length: () => ofOpenSsl('0200006E', 'rsa routines', 'data too large for key size'),
    text: () => ofOpenSsl('02000079', 'rsa routines', 'oaep decoding error'),
  };
  const bytesOrFailure = made => {
    if (typeof made === 'string') throw failures[made]();
    return Buffer.from(made);
  };

  return ({ bytesOf, nameOf, shown }) => {
    const encoded = (value, encoding, name) => library.base64Of(bytesOf(value, encoding, name));

    // How a key signs: `{ hash, salt, isFixed }`. The length of a salt is the digest's or the most.
    function schemeOf(algorithm, given, key, verifies) {
      const { padding = constants.RSA_PKCS1_PADDING, saltLength = constants.RSA_PSS_SALTLEN_MAX_SIGN, dsaEncoding = 'der' } = given ?? {};
      if (!['der', 'ieee-p1363'].includes(dsaEncoding)) throw keys.wrongValue('dsaEncoding', dsaEncoding);
      const own = key.asymmetricKeyType === 'ed25519' ? '' : 'sha256';
      const hash = algorithm === undefined || algorithm === null ? own : nameOf(algorithm);
      const schemes = [{ hash, isFixed: dsaEncoding === 'ieee-p1363' }];
      if (key.asymmetricKeyType !== 'rsa' || padding === constants.RSA_PKCS1_PADDING) return schemes;
      if (padding !== constants.RSA_PKCS1_PSS_PADDING) throw keys.wrongValue('padding', padding);
      const isMost = saltLength === constants.RSA_PSS_SALTLEN_MAX_SIGN;
      if (!isMost && saltLength !== constants.RSA_PSS_SALTLEN_DIGEST && saltLength !== LENGTHS[hash]) throw keys.wrongValue('saltLength', saltLength);
      const salts = isMost && verifies ? ['max', 'digest'] : [isMost ? 'max' : 'digest'];
      return salts.map(salt => ({ ...schemes[0], salt }));
    }

    function signed(algorithm, data, given) {
      if (given === undefined || given === null) throw fail(Error, 'ERR_CRYPTO_SIGN_KEY_REQUIRED', 'No key provided to sign');
      const key = keys.keyFor(given, 'private');
      const [scheme] = schemeOf(algorithm, given, key, false);
      return bytesOrFailure(native.signText(keys.nativeOf(key), scheme, data));
    }
    function verified(algorithm, data, given, signature) {
      const key = keys.keyFor(given, 'public');
      return schemeOf(algorithm, given, key, true).some(scheme => {
        const isRight = native.verifyText(keys.nativeOf(key), scheme, data, signature);
        if (typeof isRight === 'string') throw failures[isRight]();
        return isRight;
      });
    }
    // The whole text of `sign` and `verify`, which is no stream's.
    const textOf = data => {
      if (typeof data === 'string' || library.types.isAnyArrayBuffer(data) || ArrayBuffer.isView(data)) return encoded(data);
      throw library.wrongArgument('"data" argument', 'of type string or an instance of ArrayBuffer, Buffer, TypedArray, or DataView', data);
    };
    const known = algorithm => {
      if (algorithm !== undefined && algorithm !== null && native.hasher(nameOf(algorithm)) === undefined) {
        throw fail(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', `Invalid digest: ${algorithm}`);
      }
    };

    // What both kinds have in common: a text grows until it is signed or verified.
    class Text extends Writable {
      #algorithm;
      #parts = [];
      constructor(algorithm, options) {
        super(options);
        if (native.hasher(nameOf(algorithm)) === undefined) throw fail(TypeError, 'ERR_CRYPTO_INVALID_DIGEST', 'Invalid digest');
        this.#algorithm = algorithm;
      }
      update(data, encoding) {
        if (this.#parts === undefined) throw fail(Error, 'ERR_CRYPTO_INVALID_STATE', 'Not initialised');
        this.#parts.push(Buffer.from(bytesOf(data, encoding)));
        return this;
      }
      _write(chunk, encoding, done) {
        this.update(chunk, encoding);
        done();
      }
      // The algorithm and the whole text, once.
      _ended() {
        if (this.#parts === undefined) throw fail(Error, 'ERR_CRYPTO_INVALID_STATE', 'Not initialised');
        const text = library.base64Of(Buffer.concat(this.#parts));
        this.#parts = undefined;
        return [this.#algorithm, text];
      }
    }
    class Sign extends Text {
      sign(key, encoding) {
        if (key === undefined || key === null) throw fail(Error, 'ERR_CRYPTO_SIGN_KEY_REQUIRED', 'No key provided to sign');
        return shown(signed(...this._ended(), key), encoding);
      }
    }
    class Verify extends Text {
      verify(key, signature, encoding) { return verified(...this._ended(), key, encoded(signature, encoding, 'signature')); }
    }

    // A hash and a label, or neither for PKCS #1 v1.5.
    function paddingOf({ padding = constants.RSA_PKCS1_OAEP_PADDING, oaepHash = 'sha1', oaepLabel } = {}) {
      if (padding === constants.RSA_PKCS1_PADDING) return {};
      if (padding !== constants.RSA_PKCS1_OAEP_PADDING) throw keys.wrongValue('padding', padding);
      const hash = nameOf(oaepHash);
      if (LENGTHS[hash] === undefined) throw fail(Error, 'ERR_OSSL_EVP_INVALID_DIGEST', 'Invalid digest used');
      return { hash, label: oaepLabel === undefined ? '' : encoded(oaepLabel, undefined, 'key.oaepLabel') };
    }
    function publicEncrypt(given, data) {
      const key = keys.nativeOf(keys.keyFor(given, 'public'));
      return bytesOrFailure(native.encryptRsa(key, paddingOf(given), encoded(data, given?.encoding, 'buffer')));
    }
    function privateDecrypt(given, data) {
      const key = keys.nativeOf(keys.keyFor(given, 'private'));
      const padding = paddingOf(given);
      if (padding.hash === undefined) {
        throw fail(TypeError, 'ERR_INVALID_ARG_VALUE', 'RSA_PKCS1_PADDING is no longer supported for private decryption');
      }
      return bytesOrFailure(native.decryptRsa(key, padding, encoded(data, given?.encoding, 'buffer')));
    }

    return {
      constants, Sign, Verify, publicEncrypt, privateDecrypt,
      createSign: (algorithm, options) => new Sign(algorithm, options), createVerify: (algorithm, options) => new Verify(algorithm, options),
      sign(algorithm, data, key) {
        known(algorithm);
        return signed(algorithm, textOf(data), key);
      },
      verify(algorithm, data, key, signature) {
        known(algorithm);
        return verified(algorithm, textOf(data), key, encoded(signature, undefined, 'signature'));
      },
    };
  };
})
