// `path`, for paths with slashes.
(function (library, native, require) {
  'use strict';

  const check = (value, name) => {
    if (typeof value !== 'string') throw library.wrongArgument(`"${name}" argument`, 'of type string', value);
    return value;
  };

  // The parts of a path without `.` and, as far as there is something to go up from, `..`.
  function reduced(text, isAbsolute) {
    const parts = [];
    for (const part of text.split('/')) {
      if (part === '' || part === '.') continue;
      if (part !== '..') parts.push(part);
      else if (parts.length > 0 && parts.at(-1) !== '..') parts.pop();
      else if (!isAbsolute) parts.push('..');
    }
    return parts;
  }

  const isAbsolute = path => check(path, 'path').startsWith('/');

  function normalize(path) {
    check(path, 'path');
    if (path === '') return '.';
    const absolute = isAbsolute(path);
    const text = reduced(path, absolute).join('/');
    if (text === '') return absolute ? '/' : path.endsWith('/') ? './' : '.';
    return (absolute ? '/' : '') + text + (path.endsWith('/') ? '/' : '');
  }

  const join = (...paths) => normalize(paths.map(path => check(path, 'path')).filter(Boolean).join('/') || '.');

  // The directory of the program is `/`, as far as code can tell.
  function resolve(...paths) {
    let text = '';
    for (const path of paths.reverse()) {
      check(path, 'path');
      if (path !== '') text = text === '' ? path : `${path}/${text}`;
      if (path.startsWith('/')) break;
    }
    return '/' + reduced(text, true).join('/');
  }

  function relative(from, to) {
    const start = resolve(check(from, 'from')).split('/').filter(Boolean);
    const end = resolve(check(to, 'to')).split('/').filter(Boolean);
    let same = 0;
    while (same < start.length && same < end.length && start[same] === end[same]) same++;
    return [...Array(start.length - same).fill('..'), ...end.slice(same)].join('/');
  }

  // A path as what stands before the last slash, and what behind it; slashes at the end do not count.
  function split(path) {
    const whole = check(path, 'path').replace(/\/+$/, '');
    const at = whole.lastIndexOf('/');
    return { directory: at < 0 ? '' : whole.slice(0, at) || '/', base: whole.slice(at + 1) };
  }

  function dirname(path) {
    const { directory } = split(path);
    return directory === '/' && path.startsWith('//') ? '//' : directory || (isAbsolute(path) ? '/' : '.');
  }

  function basename(path, suffix) {
    if (suffix !== undefined) check(suffix, 'suffix');
    const { base } = split(path);
    if (path === suffix) return '';
    return suffix && base !== suffix && base.endsWith(suffix) ? base.slice(0, -suffix.length) : base;
  }

  function extname(path) {
    const { base } = split(path);
    const at = base.lastIndexOf('.');
    return at <= 0 || base === '..' ? '' : base.slice(at);
  }

  function parse(path) {
    const base = basename(path), ext = extname(path), root = isAbsolute(path) ? '/' : '';
    return { root, dir: split(path).directory || root, base, ext, name: ext === '' ? base : base.slice(0, -ext.length) };
  }

  function format(parts) {
    if (typeof parts !== 'object' || parts === null) throw library.wrongArgument('"pathObject" argument', 'of type object', parts);
    const dir = parts.dir || parts.root;
    const ext = parts.ext ? (parts.ext.startsWith('.') ? '' : '.') + parts.ext : '';
    const base = parts.base || `${parts.name || ''}${ext}`;
    return !dir ? base : dir === parts.root ? dir + base : `${dir}/${base}`;
  }

  const path = {
    resolve, normalize, isAbsolute, join, relative, toNamespacedPath: path => path, dirname, basename, extname, format, parse,
    sep: '/', delimiter: ':',
  };
  path.posix = path;
  return path;
})
