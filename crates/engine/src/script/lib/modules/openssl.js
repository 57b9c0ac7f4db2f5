// OpenSSL's errors, with its numbers.
(function () {
  'use strict';

  return (number, name, reason) => Object.assign(new Error(`error:${number}:${name}::${reason}`), {
    library: name, reason, code: `ERR_OSSL_${name === 'rsa routines' ? 'RSA_' : ''}${reason.toUpperCase().replaceAll(' ', '_')}`,
  });
})
