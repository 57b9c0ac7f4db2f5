//! Under systemd, or something like it: sockets that outlive the process, readiness, the watchdog; and files of the
//! configuration that change under a running gateway.

use crate::client::Door;
use crate::harness::{
    PATIENCE, Process, config_text, ended, flow_set, hash, page, program, public, until,
};
use crate::server::shown;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tempfile::tempdir;
use tokio::task::spawn_blocking;

const FLOWGATE: &str = env!("CARGO_BIN_EXE_flowgate");

/// The program as systemd starts it with a socket of that name.
fn activated(socket: &TcpListener, name: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" run 3<&0 </dev/null";
    command
        .args(["-c", script, FLOWGATE])
        .env("LISTEN_FDNAMES", name)
        .current_dir(directory)
        .stdin(OwnedFd::from(socket.try_clone().unwrap()))
        .stdout(Stdio::null());
    command
}

/// A place for what the program tells systemd.
struct Told(UnixDatagram);

impl Told {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn hear(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

#[tokio::test]
async fn a_restart_with_sockets_of_systemd_refuses_no_connection_and_loses_no_request() {
    let place = tempdir().unwrap();
    let lines = public(&["/a"]);
    // The address in the file is another one: the socket stands in for it.
    fs::write(place.path().join("gateway.toml"), config_text(&lines)).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (socket, directory) = (Arc::new(socket), place.path().to_owned());
    let start = move || {
        let command = activated(&socket, "flowgate.socket", &directory);
        Process::launch(command, &directory).unwrap()
    };
    let mut process = start.clone()();
    assert_eq!(process.address, address);
    let token = process.sign_in("admin").await;
    process
        .deploy(&token, &flow_set(&[page("a", "/a", "still here")]))
        .await;

    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (door, over, answered) =
                (process.get("/a"), Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let answer = door.clone().send().await;
                    assert_eq!((answer.status, answer.text().as_str()), (200, "still here"));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for _ in 0..4 {
        let before = answered.load(Ordering::Relaxed);
        until("requests flow", async || {
            answered.load(Ordering::Relaxed) > before + 20
        })
        .await;
        process.signal("TERM");
        // The clients go on meanwhile.
        let ended = spawn_blocking(move || process.end()).await.unwrap();
        assert_eq!(ended.code(), Some(0));
        process = spawn_blocking(start.clone()).await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn sockets_are_for_what_their_names_say() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let command = activated(&socket, "operations", place.path());
    let process = Process::launch(command, place.path()).unwrap();
    let address = socket.local_addr().unwrap();
    assert_eq!(process.operations, address);
    assert_ne!(process.address, address);
    assert_eq!(process.operations("/readyz").await.status, 200);
}

#[test]
fn a_socket_without_tls_that_others_reach_is_refused() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let (code, said) = ended(activated(&socket, "plain", place.path()));
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("has no TLS: give it a loopback address"),
        "{said}"
    );
}

#[tokio::test]
async fn systemd_hears_ready_reloading_stopping_and_that_it_lives() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let path = place.path().join("notify");
    let told = Told::at(&path);
    let mut command = program(place.path(), &["run"]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "100000");
    let process = Process::launch(command, place.path()).unwrap();
    assert_eq!(told.hear(), "READY=1\nSTATUS=serving");
    for _ in 0..3 {
        assert_eq!(told.hear(), "WATCHDOG=1");
    }
    let hear = || {
        std::iter::repeat_with(|| told.hear())
            .find(|said| said != "WATCHDOG=1")
            .unwrap()
    };
    process.signal("HUP");
    assert!(hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(hear(), "READY=1\nSTATUS=serving, reloaded");
    fs::write(place.path().join("gateway.toml"), "broken").unwrap();
    process.signal("HUP");
    hear();
    assert!(hear().starts_with("READY=1\nSTATUS=not reloaded"));
    process.signal("TERM");
    assert_eq!(hear(), "STOPPING=1\nSTATUS=draining");
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn the_notify_socket_may_have_a_name_instead_of_a_path() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let name = format!("flowgate-story-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let told = Told(UnixDatagram::bind_addr(&address).unwrap());
    let mut command = program(place.path(), &["run"]);
    command.env("NOTIFY_SOCKET", format!("@{name}"));
    let _process = Process::launch(command, place.path()).unwrap();
    assert_eq!(told.hear(), "READY=1\nSTATUS=serving");
}

/// PEM files of a certificate for `localhost`.
fn certificate(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(directory.join("own.key"), made.signing_key.serialize_pem()).unwrap();
    fs::write(directory.join("own.crt"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

const OWN: &str = "[[tls.certificate]]\ncert = \"own.crt\"\nkey = \"own.key\"\n";

#[tokio::test]
async fn changed_files_are_taken_up_without_a_signal_and_broken_ones_are_not() {
    let place = tempdir().unwrap();
    let first = certificate(place.path());
    let lines = format!("[server]\nwatch = \"50ms\"\n{OWN}");
    let process = Process::start(&lines, place.path());
    let mut roots = RootCertStore::empty();
    roots.add(first).unwrap();
    let door = Door {
        roots: Arc::new(roots),
        ..Door::clone(&process)
    };
    let mut open = door.connect(false).await.unwrap();
    assert_eq!(
        open.send(process.get("/auth/login")).await.unwrap().status,
        200
    );

    let second = certificate(place.path());
    process.hear("files of the configuration have changed");
    process.hear("reloaded users, routes, certificates");
    assert_eq!(shown(&process, "localhost").await, second);

    fs::write(place.path().join("own.crt"), "broken").unwrap();
    process.hear("certificates not reloaded: the old ones stay");
    assert_eq!(shown(&process, "localhost").await, second);
    fs::write(place.path().join("gateway.toml"), "broken").unwrap();
    process.hear("everything stays as it was");
    let answer = open.send(process.get("/auth/login")).await.unwrap();
    assert_eq!(answer.status, 200, "the connection from before lives on");
}

#[tokio::test]
async fn a_file_that_holds_a_secret_is_watched_too() {
    let place = tempdir().unwrap();
    let file = place.path().join("hash");
    fs::write(&file, hash("one")).unwrap();
    let lines = "[server]\nwatch = \"50ms\"\n[[auth.user]]\nname = \"ann\"\npassword_hash_file = \"hash\"\npermissions = [\"*\"]\n";
    let process = Process::start(lines, place.path());
    let status = async |password| process.signing_in("ann", password, "").send().await.status;
    assert_eq!((status("one").await, status("two").await), (200, 400));
    fs::write(&file, hash("two")).unwrap();
    process.hear("reloaded users");
    assert_eq!((status("one").await, status("two").await), (400, 200));
}

#[tokio::test]
async fn flowgate_reload_tells_the_running_process_and_checks_the_file_first() {
    let place = tempdir().unwrap();
    let reload = || ended(program(place.path(), &["reload"]));
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let (code, said) = reload();
    assert_eq!(code, Some(1));
    assert!(
        said.contains("no flowgate runs on this data directory"),
        "{said}"
    );

    let lines = "[server]\nwatch = \"off\"";
    let process = Process::start(lines, place.path());
    let fewer = config_text(lines).replace("name = \"reader\"", "name = \"ann\"");
    fs::write(place.path().join("gateway.toml"), fewer).unwrap();
    assert_eq!(reload().0, Some(0));
    process.hear("reloaded users, routes, certificates");
    process.sign_in("ann").await;
    fs::write(place.path().join("gateway.toml"), "[servre]").unwrap();
    let (code, said) = reload();
    assert_eq!(code, Some(1));
    assert!(said.contains("did you mean `server`"), "{said}");
    process.sign_in("ann").await;
}
