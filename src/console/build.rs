//! The build script: compresses the console's files, so that the program has them both ways and compresses nothing while
//! it runs.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a build that fails says why"
)]

/// Without the console there is nothing to do.
#[cfg(not(feature = "console"))]
fn main() {}

#[cfg(feature = "console")]
fn main() {
    console::compress();
}

#[cfg(feature = "console")]
mod console {
    use std::fmt::Write as _;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    /// The folder of the files, from the root of the package.
    const WEB: &str = "src/console/web";

    /// The page itself is not one of them: it has their version in it.
    const PAGE: &str = "index.html";

    /// Brotli's quality (0 to 11): 11 makes them 5 % smaller and takes six times as long in an unoptimised build script.
    const QUALITY: i32 = 9;

    pub(super) fn compress() {
        println!("cargo::rerun-if-changed={WEB}");
        let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
        let listed = fs::read_dir(root.join(WEB)).expect("the console's files are there");
        let mut files: Vec<PathBuf> = listed
            .map(|entry| entry.expect("the folder can be read").path())
            .filter(|path| path.file_name().is_some_and(|name| name != PAGE))
            .collect();
        files.sort();
        let mut table = String::from("/// The files.\nstatic FILES: &[File] = &[\n");
        for file in files {
            let name = file.file_name().expect("it is a file").to_string_lossy();
            let compressed = out.join(format!("{name}.br"));
            write(&file, &compressed);
            let (file, compressed) = (file.to_string_lossy(), compressed.to_string_lossy());
            let _ = writeln!(
                table,
                "File {{ name: {name:?}, plain: include_bytes!({file:?}), brotli: include_bytes!({compressed:?}) }},"
            );
        }
        fs::write(out.join("console.rs"), table + "];\n").expect("the folder can be written");
    }

    fn write(file: &Path, compressed: &Path) {
        let plain = fs::read(file).expect("the file can be read");
        let params = brotli::enc::BrotliEncoderParams {
            quality: QUALITY,
            ..Default::default()
        };
        let mut bytes = Vec::new();
        brotli::BrotliCompress(&mut plain.as_slice(), &mut bytes, &params)
            .expect("memory takes all bytes");
        fs::write(compressed, bytes).expect("the folder can be written");
    }
}
