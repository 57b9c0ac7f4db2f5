//! The part of the build script for the console: compresses its files, so that the program has them
//! both ways and compresses nothing while it runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folder of the files, from the root of the package.
const WEB: &str = "src/console/web";

/// The page itself is not one of them: it has their version in it.
const PAGE: &str = "index.html";

/// Brotli's quality (0 to 11): 11 makes them 5 % smaller and takes six times as long in an
/// unoptimised build script.
const QUALITY: i32 = 9;

pub(super) fn compress() -> io::Result<()> {
    println!("cargo::rerun-if-changed={WEB}");
    let (root, out) = (folder("CARGO_MANIFEST_DIR")?, folder("OUT_DIR")?);
    let listed = fs::read_dir(root.join(WEB))?;
    let mut files = Vec::new();
    for entry in listed {
        let entry = entry?;
        files.push((entry.file_name(), entry.path()));
    }
    files.retain(|(name, _)| name != PAGE);
    files.sort();
    let mut table = String::from("/// The files.\nstatic FILES: &[File] = &[\n");
    for (name, file) in files {
        let name = name.to_string_lossy();
        let compressed = out.join(format!("{name}.br"));
        write(&file, &compressed)?;
        let (file, compressed) = (file.to_string_lossy(), compressed.to_string_lossy());
        let _ = writeln!(
            table,
            "File {{ name: {name:?}, plain: include_bytes!({file:?}), brotli: include_bytes!({compressed:?}) }},"
        );
    }
    fs::write(out.join("console.rs"), table + "];\n")
}

/// A folder that cargo names.
fn folder(variable: &str) -> io::Result<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    named.ok_or_else(|| io::Error::other(format!("cargo does not set {variable}")))
}

fn write(file: &Path, compressed: &Path) -> io::Result<()> {
    let params = brotli::enc::BrotliEncoderParams {
        quality: QUALITY,
        ..Default::default()
    };
    let plain = fs::read(file)?;
    let mut bytes = Vec::new();
    brotli::BrotliCompress(&mut plain.as_slice(), &mut bytes, &params)?;
    fs::write(compressed, bytes)
}
