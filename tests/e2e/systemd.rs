//! systemd: socket activation, `sd_notify`, the watchdog; and configuration files that change under
//! a running gateway.

use crate::client::Client;
use crate::harness::{
    Process, TEST_TIMEOUT, config_text, flow_set, hash, page, program, public, run_command, until,
};
use crate::listener::shown;
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

/// The socket of `sd_notify(3)`, as systemd binds it.
struct NotifySocket(UnixDatagram);

impl NotifySocket {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self(socket)
    }

    fn receive(&self) -> String {
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
            let (client, over, answered) =
                (process.get("/a"), Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let answer = client.clone().send().await;
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
async fn activated_sockets_are_used_by_name() {
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
fn an_activated_plain_socket_on_a_public_address_is_refused() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let (code, output) = run_command(activated(&socket, "plain", place.path()));
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("has no TLS: give it a loopback address"),
        "{output}"
    );
}

#[tokio::test]
async fn systemd_is_notified_of_ready_reloading_stopping_and_watchdog() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let path = place.path().join("notify");
    let notify = NotifySocket::at(&path);
    let mut command = program(place.path(), &["run"]);
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "100000");
    let process = Process::launch(command, place.path()).unwrap();
    assert_eq!(notify.receive(), "READY=1\nSTATUS=serving");
    for _ in 0..3 {
        assert_eq!(notify.receive(), "WATCHDOG=1");
    }
    let receive = || {
        std::iter::repeat_with(|| notify.receive())
            .find(|output| output != "WATCHDOG=1")
            .unwrap()
    };
    process.signal("HUP");
    assert!(receive().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(receive(), "READY=1\nSTATUS=serving, reloaded");
    fs::write(place.path().join("gateway.toml"), "broken").unwrap();
    process.signal("HUP");
    receive();
    assert!(receive().starts_with("READY=1\nSTATUS=not reloaded"));
    process.signal("TERM");
    assert_eq!(receive(), "STOPPING=1\nSTATUS=draining");
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn the_notify_socket_may_be_abstract() {
    let place = tempdir().unwrap();
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let name = format!("flowgate-e2e-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let notify = NotifySocket(UnixDatagram::bind_addr(&address).unwrap());
    let mut command = program(place.path(), &["run"]);
    command.env("NOTIFY_SOCKET", format!("@{name}"));
    let _process = Process::launch(command, place.path()).unwrap();
    assert_eq!(notify.receive(), "READY=1\nSTATUS=serving");
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
async fn changed_files_are_reloaded_without_a_signal_and_invalid_ones_are_not() {
    let place = tempdir().unwrap();
    let first = certificate(place.path());
    let lines = format!("[server]\nwatch = \"50ms\"\n{OWN}");
    let process = Process::start(&lines, place.path());
    let mut roots = RootCertStore::empty();
    roots.add(first).unwrap();
    let client = Client {
        roots: Arc::new(roots),
        ..Client::clone(&process)
    };
    let mut open = client.connect(false).await.unwrap();
    assert_eq!(
        open.send(process.get("/auth/login")).await.unwrap().status,
        200
    );

    let second = certificate(place.path());
    process.wait_for_log("files of the configuration have changed");
    process.wait_for_log("reloaded users, routes, certificates");
    assert_eq!(shown(&process, "localhost").await, second);

    fs::write(place.path().join("own.crt"), "broken").unwrap();
    process.wait_for_log("certificates not reloaded: the old ones stay");
    assert_eq!(shown(&process, "localhost").await, second);
    fs::write(place.path().join("gateway.toml"), "broken").unwrap();
    process.wait_for_log("everything stays as it was");
    let answer = open.send(process.get("/auth/login")).await.unwrap();
    assert_eq!(answer.status, 200, "the connection from before lives on");
}

#[tokio::test]
async fn a_secret_file_is_watched_too() {
    let place = tempdir().unwrap();
    let file = place.path().join("hash");
    fs::write(&file, hash("one")).unwrap();
    let lines = "[server]\nwatch = \"50ms\"\n[[auth.user]]\nname = \"ann\"\npassword_hash_file = \"hash\"\npermissions = [\"*\"]\n";
    let process = Process::start(lines, place.path());
    let status = async |password| {
        process
            .sign_in_request("ann", password, "")
            .send()
            .await
            .status
    };
    assert_eq!((status("one").await, status("two").await), (200, 400));
    fs::write(&file, hash("two")).unwrap();
    process.wait_for_log("reloaded users");
    assert_eq!((status("one").await, status("two").await), (400, 200));
}

#[tokio::test]
async fn flowgate_reload_checks_the_file_and_then_signals_the_process() {
    let place = tempdir().unwrap();
    let reload = || run_command(program(place.path(), &["reload"]));
    fs::write(place.path().join("gateway.toml"), config_text("")).unwrap();
    let (code, output) = reload();
    assert_eq!(code, Some(1));
    assert!(
        output.contains("no flowgate runs on this data directory"),
        "{output}"
    );

    let lines = "[server]\nwatch = \"off\"";
    let process = Process::start(lines, place.path());
    let fewer = config_text(lines).replace("name = \"reader\"", "name = \"ann\"");
    fs::write(place.path().join("gateway.toml"), fewer).unwrap();
    assert_eq!(reload().0, Some(0));
    process.wait_for_log("reloaded users, routes, certificates");
    process.sign_in("ann").await;
    fs::write(place.path().join("gateway.toml"), "[servre]").unwrap();
    let (code, output) = reload();
    assert_eq!(code, Some(1));
    assert!(output.contains("did you mean `server`"), "{output}");
    process.sign_in("ann").await;
}
