//! Failing storage: a full or read-only disk, torn files. Messages name the file and the remedy,
//! nothing is overwritten, and the instructions of docs/troubleshooting.md work.

use crate::harness::{Process, flow_set, page, program, public, run_command, run_to_exit};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::{TempDir, tempdir};

const ROUTES: &[&str] = &["/a"];

fn flows(text: &str) -> Json {
    flow_set(&[page("a", "/a", text)])
}

/// A directory that was used and left: two deployments with credentials, and a token.
async fn used() -> (TempDir, String) {
    let directory = tempdir().unwrap();
    let process = Process::start(&public(ROUTES), directory.path());
    let token = process.sign_in("admin").await;
    for text in ["first", "second"] {
        let mut flows = flows(text);
        flows[1]["credentials"] = json!({ "secret": text });
        process.deploy(&token, &flows).await;
    }
    process.signal("TERM");
    process.end();
    (directory, token)
}

fn data(directory: &TempDir, file: &str) -> PathBuf {
    directory.path().join("data").join(file)
}

/// All files of the data directory with their content, but for what `SQLite` makes while a database
/// is looked at, and the lock with the number of its last process.
fn content(directory: &TempDir) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(data(directory, "")).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    // The control socket has no content.
    let files = files.filter(|path| path.is_file());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .filter(|(name, _)| name != "flowgate.lock")
        .collect()
}

/// The program for whom the modes of files count: root could write everywhere.
fn bound_by_modes(directory: &Path) -> Command {
    let plain = program(directory, &["run"]);
    if !rustix::process::geteuid().is_root() {
        return plain;
    }
    let mut command = Command::new("setpriv");
    command
        .arg("--bounding-set=-dac_override,-dac_read_search")
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(directory)
        .stdout(std::process::Stdio::null());
    command
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_the_deployment_and_everything_else_goes_on() {
    let (directory, token) = used().await;
    let before = content(&directory);
    let mut command = Command::new("sh");
    // No file may grow beyond 512 KiB; without the trap that would be a signal instead of an error.
    let limited = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" run";
    command
        .args(["-c", limited])
        .arg(env!("CARGO_BIN_EXE_flowgate"))
        .current_dir(directory.path());
    let process = Process::launch(command, directory.path()).unwrap();
    let large = flows(&"x".repeat(700_000));
    let answer = process.deployment(&token, &large, None).send().await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (500, "storage_failed")
    );
    let line = process.wait_for_log("ulimit -f");
    assert!(line.contains("flows.json"), "{line}");
    assert_eq!(content(&directory)["flows.json"], before["flows.json"]);
    assert!(!data(&directory, ".flows.json.new").exists());
    assert_eq!(process.get("/a").send().await.text(), "second");

    process.deploy(&token, &flows("small")).await;
    process.sign_in("reader").await;
    process.signal("KILL");
    process.end();
    let process = Process::start(&public(ROUTES), directory.path());
    assert_eq!(process.get("/a").send().await.text(), "small");
}

#[tokio::test]
async fn a_read_only_directory_refuses_the_start_and_stays_as_it_is() {
    let (directory, _) = used().await;
    let before = content(&directory);
    set_mode(&data(&directory, ""), 0o500);
    let (code, output) = run_command(bound_by_modes(directory.path()));
    set_mode(&data(&directory, ""), 0o700);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("storage.directory: "), "{output}");
    assert!(output.contains("data/flowgate."), "{output}");
    assert!(output.contains("make it writable"), "{output}");
    assert_eq!(content(&directory), before);
}

#[tokio::test]
async fn a_directory_that_becomes_read_only_refuses_deployments_until_it_is_writable_again() {
    let (directory, token) = used().await;
    let process = Process::launch(bound_by_modes(directory.path()), directory.path()).unwrap();
    set_mode(&data(&directory, ""), 0o500);
    let refused = process.deployment(&token, &flows("third"), None);
    let refused = refused.send().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (500, "storage_failed")
    );
    process.wait_for_log("must own the data directory");
    assert_eq!(process.get("/a").send().await.text(), "second");
    set_mode(&data(&directory, ""), 0o700);
    process.deploy(&token, &flows("third")).await;
    assert_eq!(process.get("/a").send().await.text(), "third");
}

#[tokio::test]
async fn a_damaged_database_refuses_the_start_and_is_not_touched() {
    let (directory, token) = used().await;
    let whole = fs::read(data(&directory, "flowgate.db")).unwrap();
    let pages = whole.len() / 4096;
    let mut broken = vec![("header", [b"torn", &whole[4..]].concat())];
    broken.push(("half", whole[..pages / 2 * 4096].to_vec()));
    // The last page may be empty: then nothing would be lost with its end.
    broken.push(("torn page", whole[..whole.len() - 4096 - 1000].to_vec()));
    for page in 1..pages {
        let mut bytes = whole.clone();
        // The head of a page of a tree; what is text or a hash has nothing that could tell.
        if !matches!(bytes[page * 4096], 2 | 5 | 10 | 13) {
            continue;
        }
        bytes[page * 4096..][..64].fill(0xaa);
        broken.push(("page", bytes));
    }
    assert!(broken.len() > 6, "{}", broken.len());
    for (what, bytes) in broken {
        fs::write(data(&directory, "flowgate.db"), bytes).unwrap();
        let before = content(&directory);
        let (code, output) = run_to_exit(directory.path());
        assert_eq!(code, Some(1), "{what}: {output}");
        assert!(output.contains("data/flowgate.db is damaged"), "{output}");
        assert!(output.contains("move flowgate.db"), "{output}");
        assert_eq!(content(&directory), before, "{what}");
    }

    for name in ["flowgate.db", "flowgate.db-wal", "flowgate.db-shm"] {
        let _ = fs::rename(data(&directory, name), directory.path().join(name));
    }
    let process = Process::start(&public(ROUTES), directory.path());
    assert_eq!(process.get("/a").send().await.text(), "second");
    assert!(!process.accepts_token(&token).await);
    process.sign_in("admin").await;
}

#[tokio::test]
async fn torn_flow_files_start_nothing_and_a_restored_backup_runs_after_a_reload() {
    let (directory, token) = used().await;
    let file = data(&directory, "flows.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let before = content(&directory);
    let child = program(directory.path(), &["run"]);
    let process = Process::launch(child, directory.path()).unwrap();
    assert_eq!(process.get("/a").send().await.status, 404);
    assert_eq!(content(&directory)["flows.json"], before["flows.json"]);
    assert_eq!(
        content(&directory)["flows_cred.json"],
        before["flows_cred.json"]
    );

    fs::copy(data(&directory, ".flows.json.backup"), &file).unwrap();
    let reload = process
        .post("/flows")
        .token(&token)
        .header("Service-Deployment-Type", "reload");
    assert_eq!(reload.send().await.status, 204);
    assert_eq!(process.get("/a").send().await.text(), "first");
}

#[tokio::test]
async fn torn_credentials_are_reported_and_kept_aside_when_they_are_replaced() {
    let (directory, token) = used().await;
    let file = data(&directory, "flows_cred.json");
    let torn = fs::read(&file).unwrap()[..20].to_vec();
    fs::write(&file, &torn).unwrap();
    let process = Process::start(&public(ROUTES), directory.path());
    assert_eq!(process.get("/a").send().await.text(), "second");
    assert_eq!(fs::read(&file).unwrap(), torn);
    process.deploy(&token, &flows("third")).await;
    let kept = data(&directory, "flows_cred.json.undecryptable");
    assert_eq!(fs::read(kept).unwrap(), torn);
}
