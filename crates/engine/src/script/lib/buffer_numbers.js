// Reading and writing numbers in a Buffer: readUInt16LE, writeDoubleBE, readIntBE(offset, byteLength) and their like.
(function (library, native) {
  'use strict';

  const { bufferPrototype: prototype, fail, wrongArgument } = library;
  const view = buffer => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const outOfRange = (name, range, value) => fail(RangeError, 'ERR_OUT_OF_RANGE',
    `The value of "${name}" is out of range. It must be ${range}. Received ${shown(value)}`);
  const shown = value => {
    const plain = String(value) + (typeof value === 'bigint' ? 'n' : '');
    const digits = /^(-?)(\d{4,})(.*)$/.exec(plain);
    return digits && (typeof value === 'bigint' || Math.abs(value) > 2 ** 32)
      ? digits[1] + digits[2].replace(/\B(?=(\d{3})+$)/g, '_') + digits[3] : plain;
  };

  function place(buffer, offset, width) {
    if (offset === undefined) offset = 0;
    if (typeof offset !== 'number') throw wrongArgument('"offset" argument', 'of type number', offset);
    if (!Number.isInteger(offset)) throw outOfRange('offset', 'an integer', offset);
    if (buffer.length < width) {
      throw fail(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds');
    }
    if (offset < 0 || offset > buffer.length - width) throw outOfRange('offset', `>= 0 and <= ${buffer.length - width}`, offset);
    return offset;
  }

  function inRange(value, low, high, bits) {
    if (value > high || value < low) {
      const n = typeof low === 'bigint' ? 'n' : '';
      const range = bits <= 32 ? `>= ${low} and <= ${high}`
        : low < 0 ? `>= -(2${n} ** ${bits - 1}${n}) and < 2${n} ** ${bits - 1}${n}`
          : `>= 0${n} and < 2${n} ** ${bits}${n}`;
      throw outOfRange('value', range, value);
    }
  }

  const define = (names, method) => {
    for (const name of names) Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
  };
  const aliases = name => name.includes('UInt') ? [name, name.replace('UInt', 'Uint')] : [name];

  // Fixed widths, by way of a DataView.
  const fixed = [
    ['Int8', 1], ['UInt8', 1], ['Int16', 2], ['UInt16', 2], ['Int32', 4], ['UInt32', 4],
    ['BigInt64', 8], ['BigUInt64', 8], ['Float', 4], ['Double', 8],
  ];
  for (const [kind, width] of fixed) {
    const method = { Float: 'Float32', Double: 'Float64', UInt8: 'Uint8', UInt16: 'Uint16', UInt32: 'Uint32', BigUInt64: 'BigUint64' }[kind] ?? kind;
    const signed = !kind.includes('UInt'), isBig = kind.startsWith('Big'), isFloat = kind === 'Float' || kind === 'Double';
    const bits = BigInt(width * 8);
    const limits = [signed ? -(2n ** (bits - 1n)) : 0n, signed ? 2n ** (bits - 1n) - 1n : 2n ** bits - 1n];
    const [low, high] = isBig ? limits : limits.map(Number);
    for (const order of width === 1 ? [''] : ['LE', 'BE']) {
      const little = order === 'LE';
      define(aliases(`read${kind}${order}`), function (offset) {
        return view(this)['get' + method](place(this, offset, width), little);
      });
      define(aliases(`write${kind}${order}`), function (value, offset) {
        if (isBig) {
          if (typeof value !== 'bigint') throw wrongArgument('"value" argument', 'of type bigint', value);
        } else {
          value = +value;
        }
        if (!isFloat) inRange(value, low, high, width * 8);
        const at = place(this, offset, width);
        view(this)['set' + method](at, value, little);
        return at + width;
      });
    }
  }

  // Widths of 1 to 6 bytes.
  const checkWidth = width => {
    if (typeof width !== 'number') throw wrongArgument('"byteLength" argument', 'of type number', width);
    if (!Number.isInteger(width) || width < 1 || width > 6) throw outOfRange('byteLength', '>= 1 and <= 6', width);
  };
  for (const signed of [true, false]) {
    for (const order of ['LE', 'BE']) {
      const kind = signed ? 'Int' : 'UInt';
      define(aliases(`read${kind}${order}`), function (offset, width) {
        checkWidth(width);
        const at = place(this, offset, width);
        let value = 0;
        for (let i = 0; i < width; i++) value = value * 256 + this[order === 'BE' ? at + i : at + width - 1 - i];
        return signed && value >= 2 ** (8 * width - 1) ? value - 2 ** (8 * width) : value;
      });
      define(aliases(`write${kind}${order}`), function (value, offset, width) {
        checkWidth(width);
        value = Math.trunc(+value) || 0;
        const span = 2 ** (8 * width);
        inRange(value, signed ? -span / 2 : 0, signed ? span / 2 - 1 : span - 1, 8 * width);
        const at = place(this, offset, width);
        let rest = value < 0 ? value + span : value;
        for (let i = 0; i < width; i++) {
          this[order === 'BE' ? at + width - 1 - i : at + i] = rest % 256;
          rest = Math.floor(rest / 256);
        }
        return at + width;
      });
    }
  }
})
