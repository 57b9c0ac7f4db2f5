// `process`, as far as modules ask it about where they run. It knows no environment: functions have `env`.
(function (library, native, require) {
  'use strict';

  const { platform, arch } = native.machine();
  const hrtime = before => {
    const now = [Math.floor(Date.now() / 1000), Date.now() % 1000 * 1e6];
    if (before === undefined) return now;
    const behind = now[1] < before[1] ? 1 : 0;
    return [now[0] - before[0] - behind, now[1] - before[1] + behind * 1e9];
  };
  hrtime.bigint = () => BigInt(Date.now()) * 1000000n;
  return {
    platform, arch, env: {}, argv: [], execArgv: [], version: '', versions: {}, hrtime,
    cwd: () => '/',
    nextTick(work, ...values) { Promise.resolve().then(() => work(...values)); },
    emitWarning() {},
  };
})
