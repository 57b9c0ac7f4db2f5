//! The Debian package is installed, upgraded, removed and purged, by dpkg, in a directory that
//! stands for the root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use testing::command::run;

/// Makes the package of a version.
fn build(version: &str, directory: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/debian/build");
    let mut command = Command::new(script);
    command.arg(env!("CARGO_BIN_EXE_flowgate")).arg(directory);
    command
        .env("VERSION", version)
        .env("SOURCE_DATE_EPOCH", "1700000000");
    // The best compression of a program that is not optimised takes a minute.
    command
        .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    run(&mut command);
    let files = fs::read_dir(directory).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_ours = |file: &PathBuf| file.to_string_lossy().contains(&format!("_{version}_"));
    files.find(is_ours).unwrap()
}

/// A directory that stands for the root of a system without any package.
struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for directory in [
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "etc",
            "var/lib",
        ] {
            fs::create_dir_all(root.path(directory)).unwrap();
        }
        for (file, text) in [
            ("var/lib/dpkg/status", ""),
            ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
            ("etc/group", "root:x:0:\n"),
            ("etc/shadow", "root:*:19000:0:99999:7:::\n"),
            ("etc/gshadow", "root:*::\n"),
        ] {
            fs::write(root.path(file), text).unwrap();
        }
        root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// A command as root of this directory, where owners are kept from one command to the next.
    fn as_root(&self, program: &str) -> Command {
        let owners = self.path("owners");
        let mut command = Command::new("fakeroot");
        if owners.exists() {
            command.arg("-i").arg(&owners);
        }
        command.arg("-s").arg(&owners).args(["--", program]);
        command
    }

    /// Dependencies are those of a whole system; its scripts run without it.
    fn dpkg(&self, arguments: &[&str]) {
        let mut command = self.as_root("dpkg");
        command.arg(format!("--root={}", self.0.path().display()));
        command.args(["--force-script-chrootless", "--force-depends"]);
        run(command.args(arguments));
    }

    /// Mode and group of a file.
    fn access(&self, file: &str) -> (String, String) {
        let mut stat = self.as_root("stat");
        let shown = run(stat.args(["--format", "%a %g"]).arg(self.path(file)));
        let (mode, group) = shown.trim().split_once(' ').unwrap();
        let named = |line: &&str| line.split(':').nth(2) == Some(group);
        let groups = self.text("etc/group");
        let name = groups.lines().find(named).unwrap().split(':').next();
        (mode.to_owned(), name.unwrap().to_owned())
    }

    /// All files and directories, without what belongs to dpkg and what lists users.
    fn files(&self) -> BTreeSet<String> {
        let mut find = Command::new("find");
        let all = run(find
            .arg(self.0.path())
            .args(["-mindepth", "1", "-printf", "%P\n"]));
        let is_kept = |path: &&str| {
            let lists = [
                "etc/passwd",
                "etc/group",
                "etc/shadow",
                "etc/gshadow",
                "etc/.pwd.lock",
            ];
            let is_list = lists.iter().any(|list| path.starts_with(list));
            !(is_list || path.starts_with("var/lib/dpkg") || *path == "owners")
        };
        all.lines().filter(is_kept).map(str::to_owned).collect()
    }
}

#[test]
fn the_debian_package_is_installed_upgraded_removed_and_leaves_nothing_when_it_is_purged() {
    let packages = tempfile::tempdir().unwrap();
    let before = build("0.0.9", packages.path());
    let after = build("0.1.0", packages.path());
    let root = Root::new();
    let empty = root.files();

    root.dpkg(&["--install", before.to_str().unwrap()]);
    let version = run(Command::new(root.path("usr/bin/flowgate")).arg("--version"));
    assert!(version.starts_with("flowgate "), "{version}");
    for (unit, file) in [("flowgate", "gateway"), ("flowgate-engine", "engine")] {
        let config = format!("etc/flowgate/{file}.toml");
        assert_eq!(root.access(&config), ("640".to_owned(), unit.to_owned()));
        let unit = root.text(&format!("usr/lib/systemd/system/{unit}.service"));
        assert!(unit.contains(&format!("ExecStart=/usr/bin/flowgate --config /{config}")));
        assert!(!unit.contains("/usr/local"), "{unit}");
    }

    assert!(root.text("etc/passwd").contains("\nflowgate-nodes:"));

    // What an administrator has written, and the services, is there after an upgrade and a removal.
    let mine = format!("{}\n# mine\n", root.text("etc/flowgate/gateway.toml"));
    fs::write(root.path("etc/flowgate/gateway.toml"), &mine).unwrap();
    let state = [
        "var/lib/flowgate/data/flows.json",
        "var/lib/private/flowgate-engine/flows.json",
    ];
    for file in state.map(|file| root.path(file)) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "[]").unwrap();
    }
    root.dpkg(&["--install", after.to_str().unwrap()]);
    assert!(
        root.text("var/lib/dpkg/status")
            .contains("Version: 0.1.0\n")
    );
    assert_eq!(root.access("etc/flowgate/gateway.toml").1, "flowgate");
    root.dpkg(&["--remove", "flowgate"]);
    assert!(!root.path("usr/bin/flowgate").exists());
    assert_eq!(root.text("etc/flowgate/gateway.toml"), mine);
    assert!(state.iter().all(|file| root.path(file).exists()));

    root.dpkg(&["--purge", "flowgate"]);
    let left: Vec<String> = root.files().difference(&empty).cloned().collect();
    assert_eq!(left, ["var/lib/private"]);
    for list in ["etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"] {
        assert!(
            !root.text(list).contains("flowgate"),
            "{list}: {}",
            root.text(list)
        );
    }
}

#[test]
fn the_same_program_gives_the_same_package() {
    let packages = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = packages
        .each_ref()
        .map(|directory| fs::read(build("0.1.0", directory.path())).unwrap());
    assert!(one == other);
}
