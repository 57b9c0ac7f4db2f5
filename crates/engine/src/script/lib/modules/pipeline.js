// What joins streams, and waits for their end: `stream.pipeline` and `stream.finished`.
(function (library, native, require) {
  'use strict';

  const EventEmitter = require('events');
  const later = work => { Promise.resolve().then(work); };

  return (Readable, prematureClose) => {
    // Calls back once when a stream is over, well or with an error.
    function finished(stream, options, done) {
      if (typeof options === 'function') [options, done] = [{}, options];
      const over = () => (stream._readableState === undefined || options.readable === false || stream._readableState.endEmitted)
        && (stream._writableState === undefined || options.writable === false || stream._writableState.finished);
      const names = ['end', 'finish', 'error', 'close'];
      const came = error => {
        if (!(error instanceof Error) && !stream.closed && !over()) return;
        clean();
        done.call(stream, error instanceof Error ? error : stream.errored ?? (over() ? undefined : prematureClose()));
      };
      const clean = () => { for (const name of names) stream.removeListener(name, came); };
      for (const name of names) EventEmitter.prototype.on.call(stream, name, came);
      if (stream.closed || over()) later(came);
      return clean;
    }

    function pipeline(...streams) {
      const done = typeof streams.at(-1) === 'function' && streams.length > 2 ? streams.pop() : () => {};
      const list = streams.flat().map((stream, index) => index === 0 && stream._readableState === undefined ? Readable.from(stream) : stream);
      let isOver = false;
      const over = error => {
        if (isOver) return;
        isOver = true;
        if (error) for (const stream of list) { stream.on('error', () => {}); stream.destroy(); }
        done(error);
      };
      list.forEach((stream, index) => {
        const isLast = index === list.length - 1;
        finished(stream, { readable: !isLast, writable: index > 0 }, error => { if (error || isLast) over(error); });
      });
      return list.reduce((source, target) => source.pipe(target));
    }

    const promises = {
      pipeline: (...streams) => new Promise((resolve, reject) => { pipeline(...streams, error => error ? reject(error) : resolve()); }),
      finished: (stream, options = {}) => new Promise((resolve, reject) => { finished(stream, options, error => error ? reject(error) : resolve()); }),
    };
    const { custom } = library.util.promisify;
    Object.defineProperty(pipeline, custom, { value: promises.pipeline });
    Object.defineProperty(finished, custom, { value: promises.finished });
    return { finished, pipeline, promises };
  };
})
