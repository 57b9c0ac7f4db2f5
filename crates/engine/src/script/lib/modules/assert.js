// `assert`: claims that throw when they do not hold.
(function (library, native, require) {
  'use strict';

  const { types, wrongArgument, fail: errorOf } = library;
  const { isDeepStrictEqual, inspect } = library.util;
  const shown = value => inspect(value, { compact: false, depth: 1000, maxArrayLength: Infinity, sorted: true });
  const inLine = value => inspect(value);
  const isObject = value => (typeof value === 'object' && value !== null) || typeof value === 'function';

  // Lines that both texts have, in their order; the others as `+` and `-`.
  function difference(actual, expected) {
    const [a, b] = [actual.split('\n'), expected.split('\n')];
    const bare = line => line.replace(/,$/, '');
    const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) {
        common[i][j] = bare(a[i]) === bare(b[j]) ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
      }
    }
    const lines = [];
    for (let i = 0, j = 0; i < a.length || j < b.length;) {
      if (i < a.length && j < b.length && bare(a[i]) === bare(b[j])) { lines.push(`  ${a[i++]}`); j++; }
      else if (i < a.length && (j >= b.length || common[i + 1][j] >= common[i][j + 1])) lines.push(`+ ${a[i++]}`);
      else lines.push(`- ${b[j++]}`);
    }
    return lines;
  }

  function comparison(title, actual, expected) {
    const [left, right] = [shown(actual), shown(expected)];
    const isShort = !left.includes('\n') && !right.includes('\n');
    const isZero = actual === 0 && expected === 0;
    if (isShort && !isObject(actual) && !isObject(expected) && left.length + right.length <= 12 && !isZero) {
      return `${title}\n\n${left} !== ${right}\n`;
    }
    if (left === right && isObject(actual)) return `Values have same structure but are not reference-equal:\n\n${left}\n`;
    const lines = isShort ? [`+ ${left}`, `- ${right}`] : difference(left, right);
    if (isShort && typeof actual === typeof expected && typeof actual !== 'number') {
      let same = 0;
      while (same < left.length && left[same] === right[same]) same++;
      if (same > 2) lines.push(' '.repeat(same + 2) + '^');
    }
    return `${title}\n+ actual - expected\n\n${lines.join('\n')}`;
  }

  // The message if the caller gives none.
  function messageOf(operator, actual, expected) {
    switch (operator) {
      case '==': case '!=': return `${inLine(actual)} ${operator} ${inLine(expected)}`;
      case 'strictEqual': return comparison('Expected values to be strictly equal:', actual, expected);
      case 'deepStrictEqual': case 'throws': return comparison('Expected values to be strictly deep-equal:', actual, expected);
      case 'deepEqual':
        return `Expected values to be loosely deep-equal:\n\n${shown(actual)}\n\nshould loosely deep-equal\n\n${shown(expected)}`;
      case 'notDeepEqual': return `Expected "actual" not to be loosely deep-equal to:\n\n${shown(actual)}`;
      case 'notDeepStrictEqual':
        return `Expected "actual" not to be strictly deep-equal to:${isObject(actual) ? `\n\n${shown(actual)}\n` : ` ${shown(actual)}`}`;
      case 'notStrictEqual':
        return isObject(actual) ? `Expected "actual" not to be reference-equal to "expected":\n\n${shown(actual)}\n`
          : `Expected "actual" to be strictly unequal to: ${shown(actual)}`;
      default: return 'Failed';
    }
  }

  class AssertionError extends Error {
    constructor(options) {
      if (!isObject(options)) throw wrongArgument('"options" argument', 'of type object', options);
      const { message, operator, actual, expected } = options;
      super(message !== undefined ? String(message) : messageOf(operator, actual, expected));
      Object.defineProperty(this, 'name', { value: 'AssertionError', writable: true, configurable: true });
      Object.assign(this, { generatedMessage: message === undefined, code: 'ERR_ASSERTION', actual, expected, operator });
    }
    toString() { return `${this.name} [${this.code}]: ${this.message}`; }
  }

  function claim(holds, message, about) {
    if (holds) return;
    if (types.isNativeError(message)) throw message;
    throw new AssertionError({ ...about, message: message === undefined ? about.message : message });
  }

  // As `claim`; the message is ours.
  function unfounded(message, about) {
    throw Object.assign(new AssertionError({ ...about, message }), { generatedMessage: true });
  }

  function isDeepEqual(a, b, seen = new Map()) {
    if (!isObject(a) || !isObject(b)) return a == b || (a !== a && b !== b);
    if (a === b) return true;
    if (seen.get(a) === b) return true;
    seen.set(a, b);
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const own = [types.isDate, types.isRegExp, types.isMap, types.isSet, types.isNativeError, types.isBoxedPrimitive];
    if (own.some(is => is(a) || is(b))) return isDeepStrictEqual(a, b);
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every(key => Object.hasOwn(b, key) && isDeepEqual(a[key], b[key], seen));
  }

  // Of an object only what was expected to be in it, under a name that shows in the message.
  function onlyAsked(object, keys) {
    class Comparison { constructor() { for (const key of keys) this[key] = object?.[key]; } }
    return new Comparison();
  }

  // What is wrong with what was thrown; undefined if it is what was expected.
  function wrongness(thrown, expected) {
    if (types.isRegExp(expected)) {
      return expected.test(String(thrown)) ? undefined
        : `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(String(thrown))}\n`;
    }
    if (typeof expected !== 'function') {
      const keys = [...Object.keys(expected), ...types.isNativeError(expected) ? ['name', 'message'] : []];
      const isAsExpected = key => isDeepStrictEqual(thrown?.[key], expected[key])
        || (types.isRegExp(expected[key]) && expected[key].test(String(thrown?.[key])));
      return keys.every(isAsExpected) ? undefined : messageOf('throws', onlyAsked(thrown, keys), onlyAsked(expected, keys));
    }
    if (expected.prototype !== undefined && thrown instanceof expected) return undefined;
    if (expected === Error || Error.isPrototypeOf(expected)) {
      return `The error is expected to be an instance of "${expected.name}". Received "${thrown?.constructor?.name}"\n\nError message:\n\n${thrown?.message}`;
    }
    const answer = expected.call({}, thrown);
    return answer === true ? undefined
      : `The ${expected.name ? `"${expected.name}" ` : ''}validation function is expected to return "true". Received ${inspect(answer)}\n\nCaught error:\n\n${thrown}`;
  }

  // A text in place of what is expected is the message.
  const sorted = (expected, message) => typeof expected === 'string' ? [undefined, expected] : [expected, message];
  function expectThrown(outcome, [expected, message], operator) {
    if ('thrown' in outcome) {
      const wrong = expected === undefined ? undefined : wrongness(outcome.thrown, expected);
      const about = { actual: outcome.thrown, expected, operator };
      if (wrong !== undefined) message === undefined ? unfounded(wrong, about) : claim(false, message, about);
      return;
    }
    const what = operator === 'rejects' ? 'rejection' : 'exception', kind = expected?.name ? ` (${expected.name})` : '';
    claim(false, `Missing expected ${what}${kind}${message ? `: ${message}` : '.'}`, { expected, operator });
  }
  function expectNothingThrown(outcome, [expected, message], operator) {
    if (!('thrown' in outcome)) return;
    const { thrown } = outcome;
    if (typeof expected === 'function' && !(thrown instanceof expected)) throw thrown;
    const what = operator === 'doesNotReject' ? 'rejection' : 'exception';
    const text = `Got unwanted ${what}${message ? `: ${message}` : '.'}\nActual message: "${thrown?.message}"`;
    claim(false, text, { actual: thrown, expected, operator });
  }

  function outcomeOf(work) {
    if (typeof work !== 'function') throw wrongArgument('"fn" argument', 'of type function', work);
    try { work(); return {}; } catch (thrown) { return { thrown }; }
  }
  async function outcomeOfPromise(work) {
    const promise = typeof work === 'function' ? work() : work;
    try { await promise; return {}; } catch (thrown) { return { thrown }; }
  }

  const both = (operator, holds) => function (actual, expected, message) {
    if (arguments.length < 2) throw errorOf(TypeError, 'ERR_MISSING_ARGS', 'The "actual" and "expected" arguments must be specified');
    claim(holds(actual, expected), message, { actual, expected, operator });
  };
  const matching = (operator, wanted, sentence) => (text, expression, message) => {
    if (!types.isRegExp(expression)) throw wrongArgument('"regexp" argument', 'an instance of RegExp', expression);
    const about = { actual: text, expected: expression, operator };
    if (typeof text === 'string' && expression.test(text) === wanted) return;
    if (message !== undefined) claim(false, message, about);
    unfounded(typeof text === 'string' ? `The input ${sentence} ${inspect(expression)}. Input:\n\n${inspect(text)}\n`
      : wrongArgument('"string" argument', 'of type string', text).message, about);
  };

  function ok(...values) {
    const [value, message] = values;
    const about = { actual: value, expected: true, operator: '==' };
    if (values.length === 0) unfounded('No value argument passed to `assert.ok()`', about);
    claim(value, message, about);
  }

  const claims = {
    ok, AssertionError,
    fail(message) { claim(false, message, { operator: 'fail' }); },
    equal: both('==', (a, b) => a == b || (a !== a && b !== b)),
    notEqual: both('!=', (a, b) => a != b && !(a !== a && b !== b)),
    strictEqual: both('strictEqual', Object.is),
    notStrictEqual: both('notStrictEqual', (a, b) => !Object.is(a, b)),
    deepEqual: both('deepEqual', (a, b) => isDeepEqual(a, b)),
    notDeepEqual: both('notDeepEqual', (a, b) => !isDeepEqual(a, b)),
    deepStrictEqual: both('deepStrictEqual', (a, b) => isDeepStrictEqual(a, b)),
    notDeepStrictEqual: both('notDeepStrictEqual', (a, b) => !isDeepStrictEqual(a, b)),
    match: matching('match', true, 'did not match the regular expression'),
    doesNotMatch: matching('doesNotMatch', false, 'was expected to not match the regular expression'),
    throws: (work, expected, message) => expectThrown(outcomeOf(work), sorted(expected, message), 'throws'),
    doesNotThrow: (work, expected, message) => expectNothingThrown(outcomeOf(work), sorted(expected, message), 'doesNotThrow'),
    rejects: async (work, expected, message) => expectThrown(await outcomeOfPromise(work), sorted(expected, message), 'rejects'),
    doesNotReject: async (work, expected, message) =>
      expectNothingThrown(await outcomeOfPromise(work), sorted(expected, message), 'doesNotReject'),
    ifError(value) {
      if (value === null || value === undefined) return;
      const told = types.isNativeError(value) ? value.message : inspect(value);
      claim(false, `ifError got unwanted exception: ${told}`, { actual: value, expected: null, operator: 'ifError' });
    },
  };
  const assert = Object.assign((...values) => ok(...values), claims);
  assert.strict = Object.assign((...values) => ok(...values), claims, {
    equal: claims.strictEqual, notEqual: claims.notStrictEqual, deepEqual: claims.deepStrictEqual, notDeepEqual: claims.notDeepStrictEqual,
  });
  assert.strict.strict = assert.strict;
  return assert;
})
