//! The data of the machine for `lib/modules/os.js`; read anew each time, as hosts are renamed and
//! memory fills.

use rquickjs::{Ctx, Function, Object as JsObject, Result};
use std::env;
use std::fs::read_to_string;

/// Gives `machine()`, an object.
pub(super) fn define(native: &JsObject<'_>) -> Result<()> {
    native.set("machine", Function::new(native.ctx().clone(), machine)?)
}

#[allow(clippy::needless_pass_by_value, reason = "arguments arrive by value")]
fn machine(ctx: Ctx<'_>) -> Result<JsObject<'_>> {
    let names = rustix::system::uname();
    let figures = rustix::system::sysinfo();
    let facts = JsObject::new(ctx)?;
    let text = |name: &'static str, text: &std::ffi::CStr| {
        facts.set(name, text.to_string_lossy().as_ref())
    };
    text("hostname", names.nodename())?;
    text("type", names.sysname())?;
    text("release", names.release())?;
    text("version", names.version())?;
    text("machine", names.machine())?;
    facts.set("platform", platform())?;
    facts.set("arch", arch())?;
    facts.set("isLittleEndian", cfg!(target_endian = "little"))?;
    facts.set("uptime", figures.uptime as f64)?;
    // The kernel counts load in 65536ths.
    facts.set(
        "loads",
        figures.loads.map(|load| load as f64 / 65536.0).to_vec(),
    )?;
    facts.set("total", memory("MemTotal:"))?;
    facts.set("free", memory("MemAvailable:"))?;
    facts.set("home", env::var("HOME").ok())?;
    facts.set("temporary", env::temp_dir().to_str())?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    facts.set("processors", processors)?;
    Ok(facts)
}

/// The system as Node.js calls it.
fn platform() -> &'static str {
    match env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

/// The processor as Node.js calls it.
fn arch() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "x64",
        "x86" => "ia32",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64",
        other => other,
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn memory(line: &str) -> Option<f64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let rest = text.lines().find_map(|l| l.strip_prefix(line))?;
    let kibibytes: f64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
