//! The RPM package: its files with their owners, its scripts, and that it is installed, upgraded
//! and erased in a directory that stands for the root.

use super::repository;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use testing::command::run;

/// Makes the package of a version.
fn build(version: &str, directory: &Path) -> PathBuf {
    let mut command = Command::new(repository().join("deploy/rpm/build"));
    command.arg(env!("CARGO_BIN_EXE_flowgate")).arg(directory);
    command.env("VERSION", version);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    // The best compression of a program that is not optimised takes a minute.
    run(command.env("PAYLOAD", "w1.gzdio"));
    let files = fs::read_dir(directory).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_ours = |file: &PathBuf| file.to_string_lossy().contains(&format!("-{version}-"));
    files.find(is_ours).unwrap()
}

/// What `rpm -qp` says of a package.
fn query(package: &Path, arguments: &[&str]) -> String {
    run(Command::new("rpm").arg("-qp").args(arguments).arg(package))
}

/// A directory that stands for the root of a system without any package.
struct Root(tempfile::TempDir);

impl Root {
    /// The scripts need a system; they are run apart. Without root, all files are root's in a user
    /// namespace of one user.
    fn rpm(&self, arguments: &[&str]) {
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let mut command = Command::new(if is_root { "rpm" } else { "unshare" });
        if !is_root {
            command.args(["--map-root-user", "rpm"]);
        }
        command.args(["--noscripts", "--nodeps"]);
        command.arg("--root").arg(self.0.path());
        run(command.args(arguments));
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// All files and directories, without the database of packages.
    fn files(&self) -> BTreeSet<String> {
        let mut find = Command::new("find");
        find.arg(self.0.path());
        let all = run(find.args(["-mindepth", "1", "-printf", "%P\n"]));
        let is_kept = |path: &&str| !path.starts_with("var/lib/rpm");
        all.lines().filter(is_kept).map(str::to_owned).collect()
    }
}

#[test]
fn the_rpm_package_has_the_units_and_the_configuration_of_their_groups() {
    let packages = tempfile::tempdir().unwrap();
    let package = build("0.1.0", packages.path());
    let format = "[%{FILEMODES:octal} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\\n]";
    let listed = query(&package, &["--qf", format]);
    for line in [
        "100755 root root /usr/bin/flowgate",
        "100640 root flowgate /etc/flowgate/gateway.toml",
        "100640 root flowgate-engine /etc/flowgate/engine.toml",
        "100644 root root /usr/lib/sysusers.d/flowgate.conf",
        "100644 root root /usr/share/licenses/flowgate/LICENSE",
        "100644 root root /usr/share/doc/flowgate/docs/operation.md",
    ] {
        assert!(listed.lines().any(|listed| listed == line), "{line}");
    }
    for entry in fs::read_dir(repository().join("deploy")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".service") || name.ends_with(".socket") {
            let file = format!(" /usr/lib/systemd/system/{name}\n");
            assert!(listed.contains(&file), "{file}");
        }
    }
    let kept = query(&package, &["--configfiles"]);
    assert_eq!(
        kept,
        "/etc/flowgate/engine.toml\n/etc/flowgate/gateway.toml\n"
    );
    let users = fs::read_to_string(repository().join("deploy/flowgate.sysusers")).unwrap();
    let script = query(&package, &["--qf", "%{PREIN}"]);
    for line in users.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(' ').nth(1).unwrap();
        assert!(script.contains(&format!(" {name}")), "{name}");
    }
    let again = tempfile::tempdir().unwrap();
    let again = build("0.1.0", again.path());
    assert!(
        fs::read(&package).unwrap() == fs::read(again).unwrap(),
        "the same program gives another package"
    );
}

#[test]
fn the_rpm_package_is_installed_upgraded_and_erased_and_leaves_what_was_written() {
    let packages = tempfile::tempdir().unwrap();
    let before = build("0.0.9", packages.path());
    let after = build("0.1.0", packages.path());
    let root = Root(tempfile::tempdir().unwrap());
    root.rpm(&["-i", before.to_str().unwrap()]);
    let version = run(Command::new(root.path("usr/bin/flowgate")).arg("--version"));
    assert!(version.starts_with("flowgate "), "{version}");
    let unit = fs::read_to_string(root.path("usr/lib/systemd/system/flowgate.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/flowgate --config /etc/flowgate/gateway.toml"));
    assert!(!unit.contains("/usr/local"), "{unit}");

    let mine = format!(
        "{}\n# mine\n",
        fs::read_to_string(root.path("etc/flowgate/gateway.toml")).unwrap()
    );
    fs::write(root.path("etc/flowgate/gateway.toml"), &mine).unwrap();
    fs::create_dir_all(root.path("var/lib/flowgate/data")).unwrap();
    fs::write(root.path("var/lib/flowgate/data/flows.json"), "[]").unwrap();
    root.rpm(&["-U", after.to_str().unwrap()]);
    let kept = fs::read_to_string(root.path("etc/flowgate/gateway.toml")).unwrap();
    assert_eq!(kept, mine);

    root.rpm(&["-e", "flowgate"]);
    let left = root.files();
    let has = |name: &str| left.iter().any(|path| path.contains(name));
    assert!(has("var/lib/flowgate/data/flows.json") && has("etc/flowgate/gateway.toml.rpmsave"));
    for gone in [
        "usr/bin/flowgate",
        "engine.toml",
        "flowgate.service",
        "doc/flowgate",
    ] {
        assert!(!has(gone), "{gone}: {left:?}");
    }
}

/// What a script of the package calls on a system with systemd, for the number of packages that
/// stay.
fn calls(package: &Path, script: &str, number: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let stub = directory.path().join("systemctl");
    fs::write(&stub, "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let text = query(package, &["--qf", &format!("%{{{script}}}")]);
    let text = text.replace("/run/systemd/system", "/proc");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", directory.path().display());
    let mut shell = Command::new("sh");
    run(shell.env("PATH", path).args(["-ec", &text, "sh", number]))
}

#[test]
fn the_scripts_of_the_rpm_package_start_nothing_restart_after_an_upgrade_and_stop_when_it_is_erased()
 {
    let packages = tempfile::tempdir().unwrap();
    let package = build("0.1.0", packages.path());
    assert_eq!(calls(&package, "POSTIN", "1"), "daemon-reload\n");
    assert_eq!(calls(&package, "PREUN", "1"), "");
    let stopped = calls(&package, "PREUN", "0");
    assert!(stopped.starts_with("disable --now ") && stopped.contains("flowgate-engine.service"));
    let restarted = calls(&package, "POSTUN", "1");
    assert!(restarted.contains("try-restart ") && restarted.contains(" flowgate.service"));
    assert_eq!(calls(&package, "POSTUN", "0"), "daemon-reload\n");
}
