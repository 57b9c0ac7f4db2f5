//! Certificates by ACME, from a real authority: Pebble, which validates over TLS-ALPN-01 and asks a
//! DNS server of its own.

use crate::harness::{KillOnDrop, Process, TEST_TIMEOUT};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use testing::ports;

const DOMAIN: &str = "gate.example.org";

fn wait_for(port: u16) {
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(since.elapsed() < TEST_TIMEOUT, "port {port} is never open");
        sleep(Duration::from_millis(20));
    }
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Pebble with its DNS server, which has this machine's address for every name.
struct Pebble {
    directory: TempDir,
    port: u16,
    management: u16,
    running: Vec<KillOnDrop>,
}

impl Pebble {
    /// It validates at this port.
    fn start(validated: u16) -> Self {
        let mut pebble = Self::prepare(validated);
        pebble.launch();
        pebble
    }

    fn prepare(validated: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let file = |name: &str| directory.path().join(name);
        fs::write(file("ca.pem"), certificate.pem()).unwrap();
        fs::write(file("ca.key"), key.serialize_pem()).unwrap();
        let (port, management) = (ports::free(), ports::free());
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": file("ca.pem"), "privateKey": file("ca.key"),
            "httpPort": 1, "tlsPort": validated, "externalAccountBindingRequired": false,
        }});
        fs::write(file("pebble.json"), config.to_string()).unwrap();
        Self {
            directory,
            port,
            management,
            running: Vec::new(),
        }
    }

    fn launch(&mut self) {
        let (dns, control) = (ports::free(), ports::free());
        let names = quiet("pebble-challtestsrv")
            .args(["-http01", "", "-https01", "", "-tlsalpn01", ""])
            .args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""])
            .args(["-dns01", &format!("127.0.0.1:{dns}")])
            .args(["-management", &format!("127.0.0.1:{control}")])
            .spawn();
        let config = self.directory.path().join("pebble.json");
        let authority = quiet("pebble")
            .args(["-strict", "-dnsserver", &format!("127.0.0.1:{dns}")])
            .arg("-config")
            .arg(config)
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_VA_ALWAYS_VALID", "0")
            .spawn();
        self.running = vec![KillOnDrop(names.unwrap()), KillOnDrop(authority.unwrap())];
        wait_for(dns);
        wait_for(self.port);
    }

    fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Lines of a gateway at this port that orders a certificate for these names.
    fn lines(&self, gateway: u16, domains: &[&str]) -> String {
        let (port, ca_file) = (self.port, self.ca_file());
        let ca_file = ca_file.display();
        format!(
            "[server]\nlisten = [\"127.0.0.1:{gateway}\"]\n[tls.acme]\ndomains = {domains:?}\naccept_terms = true\n\
             contact = [\"mailto:ops@example.org\"]\ndirectory = \"https://localhost:{port}/dir\"\nca_file = \"{ca_file}\"\n"
        )
    }

    /// The certificate that clients of the authority trust.
    fn root(&self) -> PathBuf {
        let root = self.directory.path().join("root.pem");
        let url = format!("https://localhost:{}/roots/0", self.management);
        let mut curl = Command::new("curl");
        let curl = curl.arg("--silent").arg("--fail").arg("--cacert");
        let curl = curl.arg(self.ca_file()).arg("--output").arg(&root).arg(url);
        assert!(curl.status().unwrap().success());
        root
    }
}

/// Returns whether a client that trusts this root reaches the gateway under a name.
fn trusts(root: &Path, name: &str, gateway: u16) -> bool {
    let mut curl = quiet("curl");
    curl.arg("--silent").arg("--cacert").arg(root);
    curl.args(["--resolve", &format!("{name}:{gateway}:127.0.0.1")]);
    curl.arg(format!("https://{name}:{gateway}/"));
    curl.status().unwrap().success()
}

fn wait_until(holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < TEST_TIMEOUT, "it never holds");
        sleep(Duration::from_millis(50));
    }
}

/// The line of the log with these words that comes at this place; an order may have ended before
/// the gateway listens.
fn logged(gateway: &Process, words: &str, place: usize) -> String {
    let since = Instant::now();
    loop {
        let log = gateway.log_so_far();
        let mut lines = log.iter().filter(|line| line.contains(words));
        if let Some(line) = lines.nth(place - 1) {
            return line.clone();
        }
        assert!(
            since.elapsed() < TEST_TIMEOUT,
            "{words:?} is never logged: {log:#?}"
        );
        sleep(Duration::from_millis(20));
    }
}

/// The files that the gateway keeps for its only authority.
fn kept(directory: &Path, file: &str) -> PathBuf {
    let mut authorities = fs::read_dir(directory.join("certs/acme")).unwrap();
    authorities.next().unwrap().unwrap().path().join(file)
}

fn orders(gateway: &Process, result: &str) -> String {
    let url = format!("http://{}/metrics", gateway.operations);
    let curl = Command::new("curl").args(["--silent", &url]).output();
    let text = String::from_utf8(curl.unwrap().stdout).unwrap();
    let name = format!("flowgate_acme_orders_total{{result=\"{result}\"}} ");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&name));
    values.next().unwrap().to_owned()
}

#[test]
fn a_certificate_is_ordered_served_and_kept_for_the_next_start() {
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let mut pebble = Pebble::start(port);
    let lines = pebble.lines(port, &[DOMAIN, "www.example.org"]);
    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "certificate issued", 1);
    let root = pebble.root();
    wait_until(|| trusts(&root, DOMAIN, port));
    assert!(trusts(&root, "www.example.org", port));
    assert!(!trusts(&root, "other.example.org", port));
    assert_eq!(orders(&gateway, "issued"), "1");
    for file in ["account.json", "certificate.pem"] {
        let mode = fs::metadata(kept(directory.path(), file)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{file}");
    }
    let key = fs::read_to_string(kept(directory.path(), "account.json")).unwrap();
    let key: serde_json::Value = serde_json::from_str(&key).unwrap();
    let key = key["key_pkcs8"].as_str().unwrap().to_owned();
    gateway.signal("TERM");
    assert!(!gateway.whole_log().concat().contains(&key));

    pebble.running.clear();
    let gateway = Process::start(&lines, directory.path());
    assert!(trusts(&root, DOMAIN, port));
    assert_eq!(orders(&gateway, "issued"), "0");
    gateway.signal("TERM");
    let log = gateway.whole_log().concat();
    assert!(!log.contains("ordering a certificate"), "{log}");
}

#[test]
fn a_certificate_in_its_last_third_is_used_and_renewed() {
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let pebble = Pebble::start(port);
    let lines = pebble.lines(port, &[DOMAIN]);
    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "certificate issued", 1);
    gateway.signal("TERM");
    assert!(gateway.end().success());

    let (key, now) = (KeyPair::generate().unwrap(), SystemTime::now());
    let now = date_time_ymd(1970, 1, 1) + now.duration_since(UNIX_EPOCH).unwrap();
    let mut old = CertificateParams::new(vec![DOMAIN.to_owned()]).unwrap();
    old.not_before = now - Duration::from_hours(80 * 24);
    old.not_after = now + Duration::from_hours(10 * 24);
    let old = old.self_signed(&key).unwrap().pem();
    let file = kept(directory.path(), "certificate.pem");
    let account = fs::read(kept(directory.path(), "account.json")).unwrap();
    fs::write(&file, format!("{old}{}", key.serialize_pem())).unwrap();

    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "certificate issued", 1);
    let root = pebble.root();
    wait_until(|| trusts(&root, DOMAIN, port));
    assert!(!fs::read_to_string(&file).unwrap().contains(&old));
    let same = fs::read(kept(directory.path(), "account.json")).unwrap();
    assert_eq!(same, account, "the account is kept");
}

#[test]
fn an_account_that_the_authority_does_not_know_any_more_is_made_again() {
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let mut pebble = Pebble::start(port);
    let lines = pebble.lines(port, &[DOMAIN]);
    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "certificate issued", 1);
    gateway.signal("TERM");
    assert!(gateway.end().success());
    let account = fs::read(kept(directory.path(), "account.json")).unwrap();
    fs::remove_file(kept(directory.path(), "certificate.pem")).unwrap();

    // Pebble keeps nothing.
    pebble.running.clear();
    pebble.launch();
    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "the authority does not know the account", 1);
    logged(&gateway, "certificate issued", 1);
    let root = pebble.root();
    wait_until(|| trusts(&root, DOMAIN, port));
    assert_ne!(
        fs::read(kept(directory.path(), "account.json")).unwrap(),
        account
    );
    let aside = kept(directory.path(), "account-unknown.json");
    assert_eq!(fs::read(&aside).unwrap(), account);
    let mode = fs::metadata(aside).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_name_that_the_authority_cannot_validate_is_logged_and_the_gateway_serves_on() {
    let (gateway_port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    // Nothing listens where it validates.
    let pebble = Pebble::start(ports::free());
    let lines = pebble.lines(gateway_port, &[DOMAIN]);
    let gateway = Process::start(&lines, directory.path());
    let line = logged(&gateway, "no certificate: the order failed", 1);
    for words in [
        DOMAIN,
        "could not validate",
        "urn:ietf:params:acme:error:",
        "retry_after=60",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    assert_eq!(orders(&gateway, "failed"), "1");
    let own = directory.path().join("certs/self-signed.crt");
    assert!(trusts(&own, "localhost", gateway_port));

    // One that starts again and again asks the authority for no more.
    drop(gateway);
    let gateway = Process::start(&lines, directory.path());
    logged(&gateway, "no certificate is ordered yet", 1);
    assert_eq!(orders(&gateway, "failed"), "0");
    gateway.signal("HUP");
    logged(&gateway, "no certificate: the order failed", 1);
}

#[test]
fn a_gateway_whose_authority_is_down_serves_and_a_reload_with_other_names_orders_at_once() {
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let mut pebble = Pebble::prepare(port);
    let gateway = Process::start(&pebble.lines(port, &[DOMAIN]), directory.path());
    logged(&gateway, "no certificate: the order failed", 1);
    let own = directory.path().join("certs/self-signed.crt");
    assert!(trusts(&own, "localhost", port));

    pebble.launch();
    for names in [&["www.example.org"][..], &["www.example.org", DOMAIN]] {
        let text = crate::harness::config_text(&pebble.lines(port, names));
        fs::write(directory.path().join("gateway.toml"), text).unwrap();
        gateway.signal("HUP");
        logged(&gateway, "certificate issued", names.len());
        let root = pebble.root();
        for name in names {
            wait_until(|| trusts(&root, name, port));
        }
    }
}

#[test]
fn an_authority_that_never_answers_is_given_up_and_the_gateway_serves_meanwhile() {
    // It accepts connections, as far as the system does that for it.
    let silent = std::net::TcpListener::bind("localhost:0").unwrap();
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let mut pebble = Pebble::prepare(port);
    pebble.port = silent.local_addr().unwrap().port();
    let gateway = Process::start(&pebble.lines(port, &[DOMAIN]), directory.path());
    let own = directory.path().join("certs/self-signed.crt");
    assert!(trusts(&own, "localhost", port));
    let failed = |line: &String| line.contains("the order failed");
    assert!(
        !gateway.log_so_far().iter().any(failed),
        "the start waits for it"
    );
    let line = logged(&gateway, "no certificate: the order failed", 1);
    assert!(line.contains("retry_after=60"), "{line}");
    assert_eq!(orders(&gateway, "failed"), "1");
}

#[test]
fn an_authority_that_wants_an_external_account_gets_its_binding() {
    let (port, directory) = (ports::free(), tempfile::tempdir().unwrap());
    let mut pebble = Pebble::prepare(port);
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let file = pebble.directory.path().join("pebble.json");
    let config = fs::read_to_string(&file).unwrap().replace(
        "\"externalAccountBindingRequired\":false",
        &format!(
            "\"externalAccountBindingRequired\":true,\"externalAccountMACKeys\":{{\"kid-1\":\"{key}\"}}"
        ),
    );
    fs::write(&file, config).unwrap();
    pebble.launch();
    let gateway = Process::start(&pebble.lines(port, &[DOMAIN]), directory.path());
    let line = logged(&gateway, "no certificate: the order failed", 1);
    assert!(line.contains("externalAccountRequired"), "{line}");

    fs::write(directory.path().join("hmac"), format!("{key}\n")).unwrap();
    let lines = pebble.lines(port, &[DOMAIN]);
    let lines = format!("{lines}eab_key_id = \"kid-1\"\neab_hmac_key_file = \"hmac\"\n");
    let text = crate::harness::config_text(&lines);
    fs::write(directory.path().join("gateway.toml"), text).unwrap();
    gateway.signal("HUP");
    logged(&gateway, "certificate issued", 1);
    gateway.signal("TERM");
    assert!(!gateway.whole_log().concat().contains(key));
}
