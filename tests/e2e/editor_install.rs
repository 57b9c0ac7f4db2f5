//! `flowgate editor install`: the stock editor from a registry of npm, here one of the test.

use crate::harness::{Process, program};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

/// The archives by their paths at a registry, as npm has them: from its cache, which `tests/run`
/// fills, or its registry.
fn archives(place: &Path) -> HashMap<String, Vec<u8>> {
    let pack = |name: &str| {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--prefer-offline", "--ignore-scripts", "--silent"]);
        npm.arg(format!("@node-red/{name}@4.1.15"));
        assert!(npm.current_dir(place).output().unwrap().status.success());
        let packed = place.join(format!("node-red-{name}-4.1.15.tgz"));
        let path = format!("/@node-red/{name}/-/{name}-4.1.15.tgz");
        (path, fs::read(packed).unwrap())
    };
    ["editor-client", "nodes"].map(pack).into()
}

/// A registry, by its URL; `answer` makes the response to a path, with its head.
fn registry(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let path = requested(&stream);
            // The client may have seen enough of it.
            let _ = (&stream).write_all(&answer(&path));
        }
    });
    url
}

fn requested(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn response(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn install(directory: &Path, registry: &str) -> (bool, String) {
    let mut command = program(directory, &["editor", "install"]);
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .env("npm_config_registry", registry)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let output = [stdout, stderr].concat();
    (status.success(), String::from_utf8(output).unwrap())
}

#[tokio::test]
async fn the_editor_is_installed_without_npm_and_served() {
    let directory = tempfile::tempdir().unwrap();
    let packed = tempfile::tempdir().unwrap();
    let archives = archives(packed.path());
    let good = registry(move |path| match archives.get(path) {
        Some(archive) => response("200 OK", archive),
        None => response("404 Not Found", b""),
    });
    let (installed, report) = install(directory.path(), &format!("{good}/"));
    assert!(installed, "{report}");
    assert!(
        report.contains("modules = \"editor/node_modules\""),
        "{report}"
    );

    // What a registry changes is refused, and the editor that is there stays.
    let evil = registry(|_| response("200 OK", b"an archive of others"));
    let (installed, report) = install(directory.path(), &evil);
    assert!(!installed && report.contains("SHA-512 differs"), "{report}");

    let lines = "[editor]\nmodules = \"editor/node_modules\"\n";
    let process = Process::start(lines, directory.path());
    let page = process.get("/").send().await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<title>Node-RED</title>"));
    let script = process.get("/red/red.min.js").send().await;
    assert_eq!(script.status, 200);
    let names = fs::read_dir(directory.path().join("editor")).unwrap();
    assert_eq!(names.count(), 1, "nothing is left beside it");
}

#[test]
fn a_registry_that_redirects_has_no_package_or_sends_too_much_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere =
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n";
    for (answer, reason) in [
        (elsewhere.to_vec(), "status 302"),
        (response("404 Not Found", b""), "status 404"),
        (response("200 OK", &vec![0; (64 << 20) + 1]), "too large"),
        (b"no HTTP\r\n\r\n".to_vec(), "/@node-red/editor-client/-/"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec(),
            "ended",
        ),
    ] {
        let url = registry(move |_| answer.clone());
        let (installed, report) = install(directory.path(), &url);
        assert!(!installed && report.contains(reason), "{reason}: {report}");
    }
    for url in [
        "ftp://npm.example.org",
        "https://me:secret@npm.example.org",
        "npm",
    ] {
        let (installed, report) = install(directory.path(), url);
        assert!(!installed && report.contains("expected a URL"), "{report}");
        assert!(!report.contains("secret"), "{report}");
    }
    assert!(!directory.path().join("editor").exists());
}
