// Brotli for `zlib`: its constants, parameters and errors.
(function (library, native, require) {
  'use strict';

  const { fail } = library;
  const constants = {
    BROTLI_DECODE: 8, BROTLI_ENCODE: 9,
    BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2, BROTLI_OPERATION_EMIT_METADATA: 3,
    BROTLI_PARAM_MODE: 0, BROTLI_MODE_GENERIC: 0, BROTLI_MODE_TEXT: 1, BROTLI_MODE_FONT: 2, BROTLI_DEFAULT_MODE: 0,
    BROTLI_PARAM_QUALITY: 1, BROTLI_MIN_QUALITY: 0, BROTLI_MAX_QUALITY: 11, BROTLI_DEFAULT_QUALITY: 11,
    BROTLI_PARAM_LGWIN: 2, BROTLI_MIN_WINDOW_BITS: 10, BROTLI_MAX_WINDOW_BITS: 24, BROTLI_LARGE_MAX_WINDOW_BITS: 30, BROTLI_DEFAULT_WINDOW: 22,
    BROTLI_PARAM_LGBLOCK: 3, BROTLI_MIN_INPUT_BLOCK_BITS: 16, BROTLI_MAX_INPUT_BLOCK_BITS: 24,
    BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING: 4, BROTLI_PARAM_SIZE_HINT: 5, BROTLI_PARAM_LARGE_WINDOW: 6,
    BROTLI_PARAM_NPOSTFIX: 7, BROTLI_PARAM_NDIRECT: 8,
    BROTLI_DECODER_RESULT_ERROR: 0, BROTLI_DECODER_RESULT_SUCCESS: 1, BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT: 2,
    BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: 3,
    BROTLI_DECODER_PARAM_DISABLE_RING_BUFFER_REALLOCATION: 0, BROTLI_DECODER_PARAM_LARGE_WINDOW: 1,
    BROTLI_DECODER_NO_ERROR: 0, BROTLI_DECODER_SUCCESS: 1, BROTLI_DECODER_NEEDS_MORE_INPUT: 2, BROTLI_DECODER_NEEDS_MORE_OUTPUT: 3,
  };
  const errors = {
    FORMAT_EXUBERANT_NIBBLE: -1, FORMAT_RESERVED: -2, FORMAT_EXUBERANT_META_NIBBLE: -3, FORMAT_SIMPLE_HUFFMAN_ALPHABET: -4,
    FORMAT_SIMPLE_HUFFMAN_SAME: -5, FORMAT_CL_SPACE: -6, FORMAT_HUFFMAN_SPACE: -7, FORMAT_CONTEXT_MAP_REPEAT: -8,
    FORMAT_BLOCK_LENGTH_1: -9, FORMAT_BLOCK_LENGTH_2: -10, FORMAT_TRANSFORM: -11, FORMAT_DICTIONARY: -12, FORMAT_WINDOW_BITS: -13,
    FORMAT_PADDING_1: -14, FORMAT_PADDING_2: -15, FORMAT_DISTANCE: -16, DICTIONARY_NOT_SET: -19, INVALID_ARGUMENTS: -20,
    ALLOC_CONTEXT_MODES: -21, ALLOC_TREE_GROUPS: -22, ALLOC_CONTEXT_MAP: -25, ALLOC_RING_BUFFER_1: -26, ALLOC_RING_BUFFER_2: -27,
    ALLOC_BLOCK_TYPE_TREES: -30, UNREACHABLE: -31,
  };
  for (const [name, number] of Object.entries(errors)) constants[`BROTLI_DECODER_ERROR_${name}`] = number;

  // `options.params` as pairs of numbers.
  const parametersOf = ({ params = {} }) => Object.entries(params).map(([key, value]) => {
    if (!(/^\d+$/.test(key) && Number(key) <= constants.BROTLI_PARAM_NDIRECT)) {
      throw fail(RangeError, 'ERR_BROTLI_INVALID_PARAM', `${key} is not a valid Brotli parameter`);
    }
    if (typeof value !== 'number' && typeof value !== 'boolean') {
      throw library.wrongArgument('"options.params[key]" property', 'of type number', value);
    }
    return [Number(key), value >>> 0];
  });

  return {
    constants,
    encoder: options => native.brotliEncoder(parametersOf(options)),
    decoder(options) {
      parametersOf(options);
      return native.brotliDecoder();
    },
    failure(number) {
      const name = Object.keys(errors).find(name => errors[name] === number) ?? 'UNREACHABLE';
      return Object.assign(new Error('Decompression failed'), { errno: number, code: `ERR__ERROR_${name}` });
    },
  };
})
