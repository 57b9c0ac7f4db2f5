// `buffer`: Buffer, and what goes with it.
(function (library, native, require) {
  'use strict';

  const { Buffer } = library;
  const bytesOf = value => {
    if (library.types.isAnyArrayBuffer(value)) return Buffer.from(value);
    if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    throw library.wrongArgument('"input" argument', 'an instance of ArrayBuffer, Buffer, or TypedArray', value);
  };
  const wrongCharacter = () => Object.assign(new Error('Invalid character'), { name: 'InvalidCharacterError', code: 5 });
  function SlowBuffer(size) { return Buffer.allocUnsafeSlow(size); }
  return {
    Buffer, SlowBuffer,
    INSPECT_MAX_BYTES: 50,
    kMaxLength: 2 ** 32, kStringMaxLength: 2 ** 30 - 1,
    constants: { MAX_LENGTH: 2 ** 32, MAX_STRING_LENGTH: 2 ** 30 - 1 },
    isUtf8: value => Buffer.from(bytesOf(value).toString()).equals(bytesOf(value)),
    isAscii: value => bytesOf(value).every(byte => byte < 128),
    btoa(value) {
      const text = `${value}`;
      if (/[^\0-\xff]/.test(text)) throw wrongCharacter();
      return Buffer.from(text, 'latin1').toString('base64');
    },
    atob(value) {
      const text = `${value}`.replace(/[\t\n\f\r ]/g, '');
      if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.replace(/=+$/, '').length % 4 === 1) throw wrongCharacter();
      return Buffer.from(text, 'base64').toString('latin1');
    },
  };
})
