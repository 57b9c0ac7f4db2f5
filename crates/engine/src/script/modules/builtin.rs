//! The built-in modules of Node.js: the engine's own files for those that make sense without files,
//! network and processes.

use super::Refusal;

/// The source of a built-in module, with or without `node:` before its name; `None` if Node.js has
/// none of this name.
pub(super) fn source(asked: &str) -> Result<Option<&'static str>, Refusal> {
    let (name, is_certain) = asked
        .strip_prefix("node:")
        .map_or((asked, false), |name| (name, true));
    let source = match name {
        "assert" => include_str!("../lib/modules/assert.js"),
        "assert/strict" => {
            "(function (library, native, require) { return require('assert').strict })"
        }
        "buffer" => include_str!("../lib/modules/buffer.js"),
        "crypto" => include_str!("../lib/modules/crypto.js"),
        "events" => include_str!("../lib/modules/events.js"),
        "os" => include_str!("../lib/modules/os.js"),
        "path" => include_str!("../lib/modules/path.js"),
        "path/posix" => "(function (library, native, require) { return require('path') })",
        "process" => include_str!("../lib/modules/process.js"),
        "punycode" => include_str!("../lib/modules/punycode.js"),
        "querystring" => include_str!("../lib/modules/querystring.js"),
        "string_decoder" => include_str!("../lib/modules/string_decoder.js"),
        "internal/brotli" => include_str!("../lib/modules/brotli.js"),
        "internal/ciphers" => include_str!("../lib/modules/ciphers.js"),
        "internal/keys" => include_str!("../lib/modules/keys.js"),
        "internal/openssl" => include_str!("../lib/modules/openssl.js"),
        "internal/pipeline" => include_str!("../lib/modules/pipeline.js"),
        "internal/sign" => include_str!("../lib/modules/sign.js"),
        "stream" => include_str!("../lib/modules/stream.js"),
        "stream/promises" => {
            "(function (library, native, require) { return require('stream').promises })"
        }
        "zlib" => include_str!("../lib/modules/zlib.js"),
        "timers" => include_str!("../lib/modules/timers.js"),
        "timers/promises" => {
            "(function (library, native, require) { return require('timers').promises })"
        }
        "url" => include_str!("../lib/modules/url.js"),
        "util" => include_str!("../lib/modules/util.js"),
        "util/types" => "(function (library, native, require) { return require('util').types })",
        _ if reaches_out(name) => return Err(Refusal::Unreachable(asked.into())),
        _ if is_certain || is_of_node(name) => return Err(Refusal::NotOffered(asked.into())),
        _ => return Ok(None),
    };
    Ok(Some(source))
}

/// Returns whether Node.js has a built-in module of this name without `node:` before it.
pub(crate) fn is_builtin_of_node(name: &str) -> bool {
    name != "sqlite" && !matches!(source(name), Ok(None))
}

/// Modules of Node.js for files, the network, processes and threads.
fn reaches_out(name: &str) -> bool {
    matches!(
        name.strip_suffix("/promises").unwrap_or(name),
        "child_process"
            | "cluster"
            | "dgram"
            | "dns"
            | "fs"
            | "http"
            | "http2"
            | "https"
            | "inspector"
            | "net"
            | "readline"
            | "repl"
            | "sqlite"
            | "tls"
            | "tty"
            | "wasi"
            | "worker_threads"
    )
}

/// Other modules of Node.js, which go before those of the same name that are installed.
fn is_of_node(name: &str) -> bool {
    matches!(
        name,
        "async_hooks"
            | "console"
            | "constants"
            | "diagnostics_channel"
            | "domain"
            | "module"
            | "path/win32"
            | "perf_hooks"
            | "stream/consumers"
            | "stream/web"
            | "sys"
            | "trace_events"
            | "v8"
            | "vm"
    )
}
