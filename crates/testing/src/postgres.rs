//! A PostgreSQL server of a test's own, of Debian's package.

use crate::command::run;
use crate::ports;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// After this a test fails instead of waiting on.
const PATIENCE: Duration = Duration::from_mins(1);

/// The user and the database that every server has.
const NAME: &str = "flowgate";

/// A server; dropped, it ends at once.
pub struct Postgres {
    directory: TempDir,
    port: u16,
    /// What its user signs in with; `None`: it believes every local user.
    password: Option<String>,
    server: Option<Child>,
}

impl Postgres {
    /// A server with an empty database, which believes every local user.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        own(directory.path());
        copy(&trusting_cluster(), &directory.path().join("data"));
        Self::start_in(directory, "", None)
    }

    /// A server which asks for a password, on connections with TLS or without.
    pub fn start_with_tls(certificate: &Path, key: &Path, password: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        own(directory.path());
        let own_copy = |from: &Path, name: &str| {
            let to = directory.path().join(name);
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
            own(&to);
            to.display().to_string()
        };
        let (certificate, key) = (own_copy(certificate, "tls.crt"), own_copy(key, "tls.key"));
        let file = directory.path().join("password");
        fs::write(&file, password).unwrap();
        own(&file);
        let file = format!("--pwfile={}", file.display());
        let data = directory.path().join("data");
        make_cluster(&data, &["--auth=scram-sha-256", &file]);
        let lines = format!("ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n");
        Self::start_in(directory, &lines, Some(password.to_owned()))
    }

    /// Starts a server of the cluster in `data` of a directory, with more lines of configuration.
    fn start_in(directory: TempDir, lines: &str, password: Option<String>) -> Self {
        // A path with more than 107 bytes names no socket, so there is none.
        let settings = format!(
            "fsync = off\nunix_socket_directories = ''\nlisten_addresses = '127.0.0.1'\n{lines}\n"
        );
        let file = directory.path().join("data/postgresql.conf");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text + &settings).unwrap();
        let mut server = Self {
            directory,
            port: ports::free(),
            password,
            server: None,
        };
        server.resume_service();
        server
    }

    /// A synchronous replica: what is acknowledged from now on has both.
    #[must_use = "dropped, it ends, and nothing is acknowledged any more"]
    pub fn replica(&self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        own(directory.path());
        let (from, data) = (self.url(), directory.path().join("data"));
        let mut copy = program("pg_basebackup");
        copy.args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf"]);
        copy.args(["--dbname", &from, "--pgdata"]);
        run(copy.arg(&data));
        let file = data.join("postgresql.conf");
        let text = fs::read_to_string(&file).unwrap();
        // The first server may be away for a moment.
        fs::write(&file, text + "wal_retrieve_retry_interval = '200ms'\n").unwrap();
        let mut replica = Self {
            directory,
            port: ports::free(),
            password: self.password.clone(),
            server: None,
        };
        replica.resume_service();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("SELECT pg_reload_conf()");
        let is_synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        wait(
            || self.sql(is_synchronous) == "1",
            || "the replica is never synchronous".to_owned(),
        );
        replica
    }

    /// Makes a replica the server of the database.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    /// The URL of the database, which either of the two has.
    pub fn url_with(&self, replica: &Self) -> String {
        format!(
            "postgres://{NAME}@127.0.0.1:{},127.0.0.1:{}/{NAME}",
            self.port, replica.port
        )
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.port)
    }

    /// Its port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its files.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Carries out a statement; answers what `psql` prints, a row each line.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in(NAME, statement)
    }

    fn sql_in(&self, database: &str, statement: &str) -> String {
        let port = self.port.to_string();
        let mut psql = program("psql");
        psql.env("PGPASSWORD", self.password.as_deref().unwrap_or_default())
            .args([
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
            ])
            .args([
                "--host=127.0.0.1",
                "--port",
                &port,
                "--username",
                NAME,
                "--dbname",
                database,
            ])
            .args(["--command", statement]);
        run(&mut psql).trim_end().to_owned()
    }

    /// `pg_dump` of its database into a file.
    pub fn dump(&self, file: &Path) {
        let url = format!("--dbname={}", self.url());
        let mut dump = program("pg_dump");
        dump.args(["--format=custom", &url]);
        // The server's user may not write where the file is.
        let written = fs::File::create(file).unwrap();
        run(dump.stdout(written));
    }

    /// `pg_restore` of such a file, in the place of what is there.
    pub fn restore(&self, file: &Path) {
        let url = format!("--dbname={}", self.url());
        let mut restore = program("pg_restore");
        restore.args(["--clean", "--if-exists", &url]);
        run(restore.stdin(fs::File::open(file).unwrap()));
    }

    /// Ends the server, and with it all its connections.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // "Fast": it waits for no client.
            signal(&server, "INT");
            server.wait().unwrap();
        }
    }

    /// Starts it again.
    pub fn resume_service(&mut self) {
        let port = self.port.to_string();
        let mut command = program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &port]);
        let log = fs::File::create(self.directory.path().join("log")).unwrap();
        self.server = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let answers = || {
            let mut asked = program("pg_isready");
            asked.args(["--quiet", "--host=127.0.0.1", "--port", &port]);
            asked.status().unwrap().success()
        };
        wait(answers, || {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
            format!("PostgreSQL does not start: {log}")
        });
    }

    /// Stops all its processes in the midst of what they do, or lets them go on, unless it has
    /// ended.
    pub fn freeze(&self, is_frozen: bool) {
        let Some(server) = &self.server else {
            return;
        };
        let children = Command::new("pgrep")
            .args(["-P", &server.id().to_string()])
            .output();
        let children = String::from_utf8(children.unwrap().stdout).unwrap();
        let name = if is_frozen { "STOP" } else { "CONT" };
        signal(server, name);
        for child in children.lines() {
            let _ = Command::new("kill").args(["-s", name, child]).status();
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What stands still does not end.
        self.freeze(false);
        if let Some(mut server) = self.server.take() {
            // "Immediate": it ends its processes, and writes nothing.
            signal(&server, "QUIT");
            let _ = server.wait();
        }
    }
}

/// A cluster which believes every local user, made once for all tests: `initdb` takes longer than
/// most of them.
fn trusting_cluster() -> PathBuf {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/.cache");
    let version = newest();
    let version = version.parent().and_then(Path::file_name).unwrap();
    let cached = cache.join(format!("postgresql-{}-of-{}", version.display(), user()));
    if !cached.exists() {
        let directory = tempfile::tempdir().unwrap();
        own(directory.path());
        let data = directory.path().join("data");
        make_cluster(&data, &["--auth=trust"]);
        fs::create_dir_all(&cache).unwrap();
        // Another test may do the same at the same time; a directory has its name only when it is
        // complete.
        let complete = tempfile::tempdir_in(&cache).unwrap();
        copy(&data, &complete.path().join("data"));
        let _ = fs::rename(complete.path().join("data"), &cached);
    }
    cached
}

/// Makes a cluster with a database, with arguments of `initdb`.
fn make_cluster(data: &Path, arguments: &[&str]) {
    let mut initdb = program("initdb");
    let fixed = ["--no-sync", "--locale=C", "--encoding=UTF8", "--username"];
    initdb.args(fixed).arg(NAME).args(arguments);
    run(initdb.arg("--pgdata").arg(data));
    let mut server = program("postgres");
    server
        .args(["--single", "-j", "-D"])
        .arg(data)
        .arg("postgres");
    let mut server = server
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let statement = format!("CREATE DATABASE {NAME};\n\n");
    let mut input = server.stdin.take().unwrap();
    input.write_all(statement.as_bytes()).unwrap();
    drop(input);
    assert!(server.wait().unwrap().success());
}

/// Copies a directory with its owners and modes.
fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Waits until it holds, or fails with this.
fn wait(holds: impl Fn() -> bool, failure: impl Fn() -> String) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{}", failure());
        #[allow(
            clippy::disallowed_methods,
            reason = "tests wait on threads of their own"
        )]
        sleep(Duration::from_millis(20));
    }
}

fn signal(server: &Child, name: &str) {
    let id = server.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .unwrap()
            .success()
    );
}

/// One of PostgreSQL's programs, as a user that it accepts: never root.
fn program(name: &str) -> Command {
    let mut command = Command::new(newest().join(name));
    if let Some(user) = stand_in() {
        command.uid(user).gid(user);
    }
    command
}

/// Debian's newest version.
fn newest() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").unwrap();
    let versions = versions.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let newest: u32 = versions.max().expect("PostgreSQL is not installed");
    PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"))
}

/// The user of the tests.
fn user() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap())
}

/// The user in the place of root: any that is not root will do.
fn stand_in() -> Option<u32> {
    (user() == 0).then_some(65_534)
}

/// Gives the directory to that user.
fn own(directory: &Path) {
    if let Some(user) = stand_in() {
        std::os::unix::fs::chown(directory, Some(user), Some(user)).unwrap();
    }
}
