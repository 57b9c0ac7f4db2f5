// `stream`: readable, writable and transforming streams in memory, and what joins them.
(function (library, native, require) {
  'use strict';

  const { Buffer, fail } = library;
  const EventEmitter = require('events');
  const later = work => { Promise.resolve().then(work); };
  const inherit = (kind, parent) => {
    Object.setPrototypeOf(kind.prototype, parent.prototype);
    Object.setPrototypeOf(kind, parent);
  };
  const missing = name => fail(Error, 'ERR_METHOD_NOT_IMPLEMENTED', `The ${name} method is not implemented`);

  const prematureClose = () => fail(Error, 'ERR_STREAM_PREMATURE_CLOSE', 'Premature close');

  // Bytes or text that wait, and objects, of which each counts as one.
  const sizeOf = (state, chunk) => state.objectMode ? 1 : chunk.length;
  const stateOf = (options, side) => {
    const objectMode = Boolean(options.objectMode ?? options[`${side}ObjectMode`]);
    const highWaterMark = options.highWaterMark ?? options[`${side}HighWaterMark`] ?? (objectMode ? 16 : 16384);
    return { objectMode, highWaterMark, length: 0, buffer: [], ended: false };
  };
  const bytesOf = (chunk, encoding) => {
    if (typeof chunk === 'string') return Buffer.from(chunk, encoding);
    if (Buffer.isBuffer(chunk)) return chunk;
    if (ArrayBuffer.isView(chunk)) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    throw library.wrongArgument('"chunk" argument', 'of type string or an instance of Buffer, TypedArray, or DataView', chunk);
  };

  // A function and not a class, as all kinds here: modules call them on their own objects.
  function Stream(options) { EventEmitter.call(this, options); }
  inherit(Stream, EventEmitter);
  const init = (stream, options = {}) => {
    EventEmitter.call(stream);
    Object.assign(stream, { destroyed: false, closed: false, errored: null, _autoDestroy: options.autoDestroy !== false });
    for (const name of ['read', 'write', 'writev', 'final', 'destroy', 'transform', 'flush', 'construct']) {
      if (typeof options[name] === 'function') stream[`_${name}`] = options[name];
    }
  };

  const common = {
    destroy(error, done) {
      if (this.destroyed) return this;
      Object.assign(this, { destroyed: true, errored: error ?? null });
      this._destroy(error ?? null, failure => {
        this.errored = failure ?? null;
        later(() => {
          this.closed = true;
          done?.(failure);
          for (const call of this._writableState?.callbacks.splice(0) ?? []) call(failure ?? prematureClose());
          if (failure) this.emit('error', failure);
          this.emit('close');
        });
      });
      return this;
    },
    _destroy(error, done) { done(error); },
  };
  // Both directions have ended: nothing more can come.
  const closeIfOver = stream => {
    const over = (stream._readableState?.endEmitted ?? true) && (stream._writableState?.finished ?? true);
    if (over && stream._autoDestroy) stream.destroy();
  };

  function Readable(options) {
    if (!(this instanceof Readable)) return new Readable(options);
    init(this, options);
    initReadable(this, options);
  }
  const initReadable = (stream, options = {}) => {
    stream._readableState = { ...stateOf(options, 'readable'), flowing: null, reading: false, endEmitted: false, scheduled: false };
    if (options.encoding) stream.setEncoding(options.encoding);
  };
  inherit(Readable, Stream);

  const schedule = stream => {
    const state = stream._readableState;
    if (state.scheduled) return;
    state.scheduled = true;
    later(() => { state.scheduled = false; flow(stream); });
  };
  const ask = stream => {
    const state = stream._readableState;
    if (state.reading || state.ended || stream.destroyed || state.length >= state.highWaterMark) return;
    state.reading = true;
    stream._read(state.highWaterMark);
  };
  const take = state => {
    const chunk = state.buffer.shift();
    state.length -= sizeOf(state, chunk);
    return chunk;
  };
  function flow(stream) {
    const state = stream._readableState;
    while (state.flowing && state.buffer.length > 0 && !stream.destroyed) stream.emit('data', take(state));
    if (stream.destroyed) return;
    if (state.ended && state.buffer.length === 0 && (state.flowing || stream.listenerCount('readable') > 0)) return end(stream);
    if (state.flowing !== true && (state.buffer.length > 0 || state.ended)) stream.emit('readable');
    if (state.flowing || stream.listenerCount('readable') > 0) ask(stream);
  }
  function end(stream) {
    const state = stream._readableState;
    if (state.endEmitted) return;
    state.endEmitted = true;
    stream.emit('end');
    closeIfOver(stream);
  }

  Object.assign(Readable.prototype, {
    push(chunk, encoding) { return add(this, chunk, encoding, false); },
    unshift(chunk, encoding) { return add(this, chunk, encoding, true); },
    _read() { throw missing('_read()'); },
    read(size) {
      const state = this._readableState;
      if (state.buffer.length === 0) {
        if (state.ended) later(() => end(this));
        else ask(this);
        if (state.buffer.length === 0) return null;
      }
      if (size === undefined && !state.objectMode) {
        const all = state.buffer.splice(0);
        state.length = 0;
        schedule(this);
        return typeof all[0] === 'string' ? all.join('') : Buffer.concat(all);
      }
      if (!state.objectMode && state.length < size && !state.ended) return null;
      let chunk = take(state);
      while (!state.objectMode && chunk.length < size && state.buffer.length > 0) {
        chunk = typeof chunk === 'string' ? chunk + take(state) : Buffer.concat([chunk, take(state)]);
      }
      if (!state.objectMode && chunk.length > size) {
        add(this, chunk.slice(size), undefined, true);
        chunk = chunk.slice(0, size);
      }
      schedule(this);
      return chunk;
    },
    setEncoding(encoding) {
      const { StringDecoder } = require('string_decoder');
      this._readableState.decoder = new StringDecoder(encoding);
      this.readableEncoding = encoding;
      return this;
    },
    on(event, listener) {
      EventEmitter.prototype.on.call(this, event, listener);
      if (event === 'data' && this._readableState.flowing !== false) this.resume();
      if (event === 'readable') schedule(this);
      return this;
    },
    resume() { this._readableState.flowing = true; schedule(this); return this; },
    pause() { this._readableState.flowing = false; return this; },
    isPaused() { return this._readableState.flowing === false; },
    pipe(target, { end: ends = true } = {}) {
      const source = this;
      const data = chunk => { if (target.write(chunk) === false) source.pause(); };
      const drain = () => source.resume();
      const over = () => target.end();
      source._pipes = [...source._pipes ?? [], { target, stop() {
        source.removeListener('data', data).removeListener('end', over);
        target.removeListener('drain', drain);
      } }];
      target.on('drain', drain);
      if (ends) source.once('end', over);
      target.emit('pipe', source);
      source.on('data', data);
      return target;
    },
    unpipe(target) {
      for (const pipe of this._pipes ?? []) {
        if (target === undefined || pipe.target === target) { pipe.stop(); pipe.target.emit('unpipe', this); }
      }
      this._pipes = (this._pipes ?? []).filter(pipe => target !== undefined && pipe.target !== target);
      return this;
    },
    async *[Symbol.asyncIterator]() {
      // An error is thrown here.
      EventEmitter.prototype.on.call(this, 'error', () => {});
      try {
        for (;;) {
          const chunk = this.destroyed ? null : this.read();
          if (chunk !== null) { yield chunk; continue; }
          if (this.errored) throw this.errored;
          if (this._readableState.ended && this._readableState.buffer.length === 0) return;
          if (this.destroyed) throw prematureClose();
          await new Promise(resolve => {
            const names = ['readable', 'end', 'error', 'close'];
            const go = () => { for (const name of names) this.removeListener(name, go); resolve(); };
            for (const name of names) this.on(name, go);
          });
        }
      } finally {
        this.destroy();
      }
    },
  });
  Readable.prototype.addListener = Readable.prototype.on;
  function add(stream, chunk, encoding, isFirst) {
    const state = stream._readableState;
    state.reading = false;
    if (chunk === null) {
      const rest = state.decoder?.end();
      if (rest) { state.buffer.push(rest); state.length += rest.length; }
      state.ended = true;
      schedule(stream);
      return false;
    }
    if (state.ended && !isFirst) {
      stream.destroy(fail(Error, 'ERR_STREAM_PUSH_AFTER_EOF', 'stream.push() after EOF'));
      return false;
    }
    if (!state.objectMode) chunk = isFirst && typeof chunk === 'string' && state.decoder ? chunk : bytesOf(chunk, encoding);
    if (state.decoder && typeof chunk !== 'string') chunk = state.decoder.write(chunk);
    if (state.objectMode || chunk.length > 0) {
      state.buffer[isFirst ? 'unshift' : 'push'](chunk);
      state.length += sizeOf(state, chunk);
    }
    schedule(stream);
    return state.length < state.highWaterMark;
  }
  Readable.from = (values, options) => {
    const whole = typeof values === 'string' || Buffer.isBuffer(values);
    const iterator = whole ? [values].values() : (values[Symbol.asyncIterator] ?? values[Symbol.iterator]).call(values);
    return new Readable({
      objectMode: true, ...options,
      async read() {
        try {
          const { value, done } = await iterator.next();
          this.push(done ? null : await value);
        } catch (error) {
          this.destroy(error);
        }
      },
    });
  };

  function Writable(options) {
    if (!(this instanceof Writable) && !(this instanceof Duplex)) return new Writable(options);
    init(this, options);
    initWritable(this, options);
  }
  const initWritable = (stream, options = {}) => {
    stream._writableState = {
      ...stateOf(options, 'writable'), decodeStrings: options.decodeStrings !== false, writing: false, needDrain: false, finished: false, callbacks: [],
    };
  };
  inherit(Writable, Stream);
  function write(stream) {
    const state = stream._writableState;
    if (state.writing || stream.destroyed) return;
    const next = state.buffer.shift();
    if (next === undefined) return finish(stream);
    state.writing = true;
    let isNow = true;
    const done = error => {
      state.writing = false;
      state.length -= sizeOf(state, next.chunk);
      const goOn = () => {
        next.done?.(error ?? null);
        if (error) return stream.destroy(error);
        if (state.needDrain && state.length === 0) { state.needDrain = false; stream.emit('drain'); }
        write(stream);
      };
      if (isNow) later(goOn); else goOn();
    };
    if (stream._writev && !stream._write) stream._writev([next], done);
    else if (stream._write) stream._write(next.chunk, next.encoding, done);
    else stream.destroy(missing('_write()'));
    isNow = false;
  }
  function finish(stream) {
    const state = stream._writableState;
    if (!state.ended || state.finishing) return;
    state.finishing = true;
    const done = error => later(() => {
      if (error) return stream.destroy(error);
      state.finished = true;
      for (const call of state.callbacks.splice(0)) call();
      stream.emit('finish');
      closeIfOver(stream);
    });
    if (stream._final) stream._final(done); else done();
  }
  const writing = {
    write(chunk, encoding, done) {
      const state = this._writableState;
      if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
      if (chunk === null) throw fail(TypeError, 'ERR_STREAM_NULL_VALUES', 'May not write null values to stream');
      if (state.ended || this.destroyed) {
        const error = state.ended ? fail(Error, 'ERR_STREAM_WRITE_AFTER_END', 'write after end')
          : fail(Error, 'ERR_STREAM_DESTROYED', 'Cannot call write after a stream was destroyed');
        later(() => done?.(error));
        if (!this.destroyed) this.destroy(error);
        return false;
      }
      if (!state.objectMode) {
        const bytes = bytesOf(chunk, encoding);
        if (state.decodeStrings || typeof chunk !== 'string') [chunk, encoding] = [bytes, 'buffer'];
      }
      state.buffer.push({ chunk, encoding: encoding ?? 'utf8', done });
      state.length += sizeOf(state, chunk);
      const hasRoom = state.length < state.highWaterMark;
      state.needDrain ||= !hasRoom;
      if (!state.corked) write(this);
      return hasRoom;
    },
    end(chunk, encoding, done) {
      const state = this._writableState;
      if (typeof chunk === 'function') [chunk, done] = [undefined, chunk];
      if (typeof encoding === 'function') [encoding, done] = [undefined, encoding];
      if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
      if (done) state.callbacks.push(done);
      Object.assign(state, { ended: true, corked: false });
      later(() => write(this));
      return this;
    },
    cork() { this._writableState.corked = true; },
    uncork() { this._writableState.corked = false; write(this); },
  };
  Object.assign(Writable.prototype, writing);

  function Duplex(options = {}) {
    if (!(this instanceof Duplex)) return new Duplex(options);
    init(this, options);
    initReadable(this, options);
    initWritable(this, options);
  }
  inherit(Duplex, Readable);
  Object.assign(Duplex.prototype, writing);

  function Transform(options) {
    if (!(this instanceof Transform)) return new Transform(options);
    Duplex.call(this, options);
  }
  inherit(Transform, Duplex);
  Object.assign(Transform.prototype, {
    _transform() { throw missing('_transform()'); },
    _write(chunk, encoding, done) {
      this._transform(chunk, encoding, (error, out) => {
        if (error) return done(error);
        if (out !== undefined && out !== null) this.push(out);
        const { length, highWaterMark } = this._readableState;
        if (length < highWaterMark) done(); else this._held = done;
      });
    },
    _read() {
      this._readableState.reading = false;
      const held = this._held;
      this._held = undefined;
      held?.();
    },
    _final(done) {
      const over = (error, out) => {
        if (error) return done(error);
        if (out !== undefined && out !== null) this.push(out);
        this.push(null);
        done();
      };
      if (this._flush) this._flush(over); else over();
    },
  });

  function PassThrough(options) {
    if (!(this instanceof PassThrough)) return new PassThrough(options);
    Transform.call(this, options);
  }
  inherit(PassThrough, Transform);
  PassThrough.prototype._transform = (chunk, encoding, done) => done(null, chunk);

  for (const kind of [Readable, Writable, Duplex]) Object.assign(kind.prototype, common);
  const show = (kind, side, names) => {
    for (const [name, read] of Object.entries(names)) {
      Object.defineProperty(kind.prototype, name, { configurable: true, get() { return read(this[`_${side}State`], this); } });
    }
  };
  const readable = {
    readable: (state, stream) => !stream.destroyed && !state.endEmitted, readableEnded: state => state.endEmitted,
    readableFlowing: state => state.flowing, readableLength: state => state.length,
    readableHighWaterMark: state => state.highWaterMark, readableObjectMode: state => state.objectMode,
  };
  const writable = {
    writable: (state, stream) => !stream.destroyed && !state.ended, writableEnded: state => state.ended,
    writableFinished: state => state.finished, writableLength: state => state.length, writableNeedDrain: state => state.needDrain,
    writableHighWaterMark: state => state.highWaterMark, writableObjectMode: state => state.objectMode,
  };
  show(Readable, 'readable', readable);
  show(Writable, 'writable', writable);
  show(Duplex, 'writable', writable);

  const { pipeline, finished, promises } = require('internal/pipeline')(Readable, prematureClose);
  return Object.assign(Stream, { Stream, Readable, Writable, Duplex, Transform, PassThrough, pipeline, finished, promises });
})
