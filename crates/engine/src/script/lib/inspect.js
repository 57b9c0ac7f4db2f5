// `util.inspect`: values as Node.js shows them.
(function (library, native) {
  'use strict';

  const { types } = library;
  const custom = Symbol.for('nodejs.util.inspect.custom');
  const defaults = { depth: 2, breakLength: 80, compact: 3, maxArrayLength: 100, maxStringLength: 10000, showHidden: false, sorted: false };
  const isName = /^[a-zA-Z_][a-zA-Z_0-9]*$/;

  function quoted(text) {
    const quote = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes('`') && !text.includes('${') ? '`' : "'";
    const escapes = { '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r', '\\': '\\\\', "'": quote === "'" ? "\\'" : "'" };
    return quote + text.replace(/[\u0000-\u001f\u007f-\u009f'\\]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, c =>
      escapes[c] ?? (c > '\u00ff' ? '\\u' + c.charCodeAt(0).toString(16) : '\\x' + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0'))) + quote;
  }

  const primitive = (value, state, isTop) => {
    switch (typeof value) {
      case 'string': {
        let text = value, rest = '';
        if (text.length > state.maxStringLength) {
          const more = text.length - state.maxStringLength;
          text = text.slice(0, state.maxStringLength);
          rest = `... ${more} more character${more > 1 ? 's' : ''}`;
        }
        if (!isTop && text.length > 16 && text.length > state.breakLength - state.indent - 4) {
          return text.split(/(?<=\n)/).map(quoted).join(` +\n${' '.repeat(state.indent + 2)}`) + rest;
        }
        return quoted(text) + rest;
      }
      case 'number': return Object.is(value, -0) ? '-0' : String(value);
      case 'bigint': return `${value}n`;
      case 'symbol': return value.toString();
      default: return String(value);
    }
  };

  function nameOf(value) {
    for (let at = value; at; at = Object.getPrototypeOf(at)) {
      const own = Object.getOwnPropertyDescriptor(at, 'constructor');
      // Of a frozen prototype of plain objects it is an accessor, see `freeze.js`.
      const isFrozen = own?.get && Object.getPrototypeOf(at) === null && Object.isFrozen(at);
      const kind = isFrozen ? own.get.call(at) : own?.value;
      if (typeof kind === 'function' && kind.name !== '') return kind.name;
    }
    return null;
  }

  const keyed = key => typeof key === 'symbol' ? `[${key.toString()}]` : key === '__proto__' ? "['__proto__']" : isName.test(key) ? key : quoted(key);

  function keysOf(value, state) {
    const keys = state.showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
    const symbols = Object.getOwnPropertySymbols(value)
      .filter(s => state.showHidden || Object.prototype.propertyIsEnumerable.call(value, s));
    const all = [...keys, ...symbols];
    return state.sorted ? all.sort(typeof state.sorted === 'function' ? state.sorted : undefined) : all;
  }

  // One property as `name: value`; `indent` is how far its lines are moved.
  function property(value, key, level, state, isElement) {
    const own = Object.getOwnPropertyDescriptor(value, key) ?? { value: value[key], enumerable: true };
    let text;
    if (own.get !== undefined) {
      text = own.set !== undefined ? '[Getter/Setter]' : '[Getter]';
    } else if (own.set !== undefined) {
      text = '[Setter]';
    } else {
      const step = isElement ? 2 : state.compact !== true ? 2 : 3;
      state.indent += step;
      text = show(own.value, level + 1, state);
      state.indent -= step;
    }
    if (isElement) return text;
    return `${own.enumerable ? keyed(key) : `[${typeof key === 'symbol' ? key.toString() : key}]`}: ${text}`;
  }

  const more = (count, what = 'item') => `... ${count} more ${what}${count > 1 ? 's' : ''}`;

  function elements(array, level, state) {
    const output = [];
    const shown = Math.min(state.maxArrayLength, array.length);
    for (let i = 0; i < array.length && output.length < shown; i++) {
      if (Object.prototype.hasOwnProperty.call(array, i)) {
        output.push(property(array, String(i), level, state, true));
      } else {
        const from = i;
        while (i + 1 < array.length && !Object.prototype.hasOwnProperty.call(array, i + 1)) i++;
        const holes = i - from + 1;
        output.push(`<${holes} empty item${holes > 1 ? 's' : ''}>`);
        if (i + 1 >= array.length) return output;
      }
    }
    if (array.length > shown) output.push(more(array.length - shown));
    return output;
  }

  // Long arrays of short things become columns.
  function columns(output, state, value) {
    let longest = 0, total = 0;
    const hasMore = state.maxArrayLength < output.length || /^\.\.\. \d+ more item/.test(output[output.length - 1]);
    const count = hasMore ? output.length - 1 : output.length;
    const lengths = output.slice(0, count).map(text => {
      total += text.length + 2;
      longest = Math.max(longest, text.length);
      return text.length;
    });
    const width = longest + 2;
    if (width * 3 + state.indent >= state.breakLength || !(total / width > 5 || longest <= 6)) return output;
    const usual = Math.max(width - 3 - Math.sqrt(width - total / output.length), 1);
    const perRow = Math.min(
      Math.round(Math.sqrt(2.5 * usual * count) / usual), // cells are about 2.5 times as high as wide
      Math.floor((state.breakLength - state.indent) / width), state.compact * 4, 15);
    if (perRow <= 1) return output;
    const widths = [];
    for (let i = 0; i < perRow; i++) {
      let widest = 0;
      for (let j = i; j < count; j += perRow) widest = Math.max(widest, lengths[j]);
      widths.push(widest + 2);
    }
    const isNumeric = value !== undefined && Array.from(value).every(v => typeof v === 'number' || typeof v === 'bigint');
    const rows = [];
    for (let i = 0; i < count; i += perRow) {
      const last = Math.min(i + perRow, count);
      let row = '';
      for (let j = i; j < last - 1; j++) {
        const cell = `${output[j]}, `;
        row += isNumeric ? cell.padStart(widths[j - i]) : cell.padEnd(widths[j - i]);
      }
      row += isNumeric ? output[last - 1].padStart(widths[last - 1 - i] - 2) : output[last - 1];
      rows.push(row);
    }
    if (hasMore) rows.push(output[output.length - 1]);
    return rows;
  }

  // Puts the parts between the braces: on one line if they are few, short and not deep, else one a line.
  function assemble(output, base, [open, close], level, state, list) {
    const entries = output.length;
    if (list !== undefined && entries > 6) output = columns(output, state, list);
    if (state.deepest - level < state.compact && entries === output.length) {
      const start = output.length + state.indent + open.length + base.length + 10;
      const length = output.reduce((sum, text) => sum + text.length, output.length + start);
      if (length <= state.breakLength && !base.includes('\n') && !output.some(text => text.includes('\n'))) {
        const text = output.join(', ');
        return `${base ? `${base} ` : ''}${open} ${text} ${close}`;
      }
    }
    const margin = `\n${' '.repeat(state.indent)}`;
    return `${base ? `${base} ` : ''}${open}${margin}  ${output.join(`,${margin}  `)}${margin}${close}`;
  }

  function errorText(error, keys) {
    let text = typeof error.stack === 'string' && error.stack !== '' ? error.stack : '';
    const head = Error.prototype.toString.call(error);
    if (!text.startsWith(head)) text = text ? `${head}\n${text.trimEnd()}` : `[${head}]`;
    for (const hidden of ['name', 'message', 'stack']) {
      const at = keys.indexOf(hidden);
      if (at !== -1 && text.includes(error[hidden])) keys.splice(at, 1);
    }
    return text;
  }

  function functionText(f, constructor) {
    if (/^class[\s{]/.test(Function.prototype.toString.call(f))) {
      const parent = Object.getPrototypeOf(f);
      return `[class ${f.name === '' ? '(anonymous)' : f.name}${parent && parent.name ? ` extends ${parent.name}` : ''}]`;
    }
    const kind = constructor === null ? 'Function (null prototype)' : Object.prototype.toString.call(f).slice(8, -1);
    return `[${kind}${f.name === '' ? ' (anonymous)' : `: ${f.name}`}]`;
  }

  // What a kind of object shows before its properties: { base, braces, parts, list }.
  function shape(value, level, state, keys) {
    const constructor = nameOf(value);
    const tag = typeof value[Symbol.toStringTag] === 'string' && value[Symbol.toStringTag] !== constructor ? ` [${value[Symbol.toStringTag]}]` : '';
    const prefix = (fallback, size) => constructor === null ? `[${fallback}${size ?? ''}: null prototype]${tag} ` : `${constructor}${size ?? ''}${tag} `;
    const nested = work => { state.indent += 2; const parts = work(); state.indent -= 2; return parts; };
    if (Array.isArray(value)) {
      const plain = constructor === 'Array' && !tag;
      return { braces: [`${plain ? '' : prefix('Array', `(${value.length})`)}[`, ']'], parts: () => elements(value, level, state), list: value, isIndexed: true };
    }
    if (library.Buffer.isBuffer(value)) {
      const bytes = Array.from(value.subarray(0, 50), b => b.toString(16).padStart(2, '0')).join(' ');
      return { whole: `<Buffer${bytes ? ` ${bytes}` : ''}${value.length > 50 ? ` ... ${value.length - 50} more byte${value.length > 51 ? 's' : ''}` : ''}>` };
    }
    if (types.isTypedArray(value)) {
      return { braces: [`${prefix('TypedArray', `(${value.length})`)}[`, ']'], parts: () => elements(value, level, state), list: value, isIndexed: true };
    }
    if (types.isSet(value)) {
      return { braces: [`${prefix('Set', `(${value.size})`)}{`, '}'], parts: () => nested(() => Array.from(value, v => show(v, level + 1, state))) };
    }
    if (types.isMap(value)) {
      return {
        braces: [`${prefix('Map', `(${value.size})`)}{`, '}'],
        parts: () => nested(() => Array.from(value, ([k, v]) => `${show(k, level + 1, state)} => ${show(v, level + 1, state)}`)),
      };
    }
    if (typeof value === 'function') return { base: functionText(value, constructor) };
    if (types.isRegExp(value)) return { base: RegExp.prototype.toString.call(value) };
    if (types.isDate(value)) return { base: Number.isNaN(+value) ? 'Invalid Date' : Date.prototype.toISOString.call(value) };
    if (types.isNativeError(value)) return { base: errorText(value, keys) };
    if (types.isArrayBuffer(value)) {
      const bytes = Array.from(new Uint8Array(value).subarray(0, 50), b => b.toString(16).padStart(2, '0')).join(' ');
      return { braces: [`${prefix('ArrayBuffer')}{`, '}'], parts: () => [`[Uint8Contents]: <${bytes}>`, `byteLength: ${value.byteLength}`] };
    }
    if (types.isPromise(value)) return { braces: [`${prefix('Promise')}{`, '}'], parts: () => ['<pending>'] };
    if (types.isWeakSet(value) || types.isWeakMap(value)) return { braces: [`${prefix('WeakSet')}{`, '}'], parts: () => ['<items unknown>'] };
    if (types.isBoxedPrimitive(value)) {
      const kind = Object.prototype.toString.call(value).slice(8, -1);
      if (kind === 'String') keys.splice(0, value.length);
      return { base: `[${kind}: ${primitive(value.valueOf(), state, true)}]` };
    }
    if (library.isHandle(value)) return { whole: '[Handle]' };
    const isPlain = constructor === 'Object' && !tag;
    return { braces: [`${isPlain ? '' : prefix('Object')}{`, '}'], parts: () => [] };
  }

  function show(value, level, state) {
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') return primitive(value, state, level === 0);
    const own = value[custom];
    if (state.customInspect !== false && typeof own === 'function' && own !== inspect) {
      const result = own.call(value, state.depth === null ? null : state.depth - level, { ...state.asked }, inspect);
      if (result !== value) return typeof result === 'object' ? show(result, level, state) : String(result).replaceAll('\n', `\n${' '.repeat(state.indent)}`);
    }
    if (state.above.includes(value)) {
      if (!state.circular.has(value)) state.circular.set(value, state.circular.size + 1);
      return `[Circular *${state.circular.get(value)}]`;
    }
    if (state.depth !== null && level > state.depth) {
      const name = Array.isArray(value) ? 'Array' : nameOf(value);
      return name === null ? '[Object: null prototype]' : `[${name}]`;
    }
    return showObject(value, level, state);
  }

  function showObject(value, level, state) {
    const keys = keysOf(value, state).filter(key => !(typeof key === 'string' && /^\d+$/.test(key) && (Array.isArray(value) || types.isTypedArray(value))));
    const { base = '', braces = ['{', '}'], parts = () => [], list, whole } = shape(value, level, state, keys);
    if (whole !== undefined && keys.length === 0) return whole;
    state.above.push(value);
    state.deepest = level;
    const output = [...parts(), ...keys.map(key => property(value, key, level, state, false))];
    state.above.pop();
    const text = whole ?? base;
    const mark = state.circular.has(value) ? `<ref *${state.circular.get(value)}>` : '';
    const front = [mark, text].filter(Boolean).join(' ');
    if (output.length === 0) {
      if (text) return front;
      return `${mark ? `${mark} ` : ''}${braces[0]}${braces[1]}`;
    }
    return assemble(output, front, braces, level, state, list);
  }

  function inspect(value, options, depth, colors) {
    const asked = typeof options === 'object' && options !== null ? options : { showHidden: options === true, ...(depth !== undefined && { depth }) };
    const state = { ...defaults, ...asked, asked, indent: 0, above: [], circular: new Map(), deepest: 0 };
    if (state.depth === Infinity || state.depth === null) state.depth = null;
    if (state.maxArrayLength === null) state.maxArrayLength = Infinity;
    if (state.maxStringLength === null) state.maxStringLength = Infinity;
    if (typeof state.compact !== 'number') state.compact = state.compact ? 3 : 0;
    return show(value, 0, state);
  }
  inspect.custom = custom;
  inspect.defaultOptions = { ...defaults, colors: false };
  library.inspect = inspect;
})
