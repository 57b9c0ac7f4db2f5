//! `flowgate import` of an nginx's configuration: five files as administrators have them become files that `flowgate check`
//! accepts, and what is not carried over is reported with its line.

use crate::harness::{program, run_command};
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Imports a file of tests/data/nginx, and checks what was made. Its text, and the notices.
fn import(name: &str) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path();
    let certificate = rcgen::generate_simple_self_signed(["flows.example.org".to_owned()]).unwrap();
    fs::write(own.join("fullchain.pem"), certificate.cert.pem()).unwrap();
    fs::write(
        own.join("privkey.pem"),
        certificate.signing_key.serialize_pem(),
    )
    .unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nginx");
    let text = fs::read_to_string(data.join(name)).unwrap();
    fs::write(
        own.join(name),
        text.replace("@DIRECTORY@", own.to_str().unwrap()),
    )
    .unwrap();
    let (code, notices) = run_command(program(own, &["import", name, "--output", "made.toml"]));
    assert_eq!(code, Some(0), "{notices}");
    let made = fs::read_to_string(own.join("made.toml")).unwrap();
    let (code, errors) = run_command(program(own, &["--config", "made.toml", "check"]));
    assert_eq!((code, &*errors), (Some(0), ""), "{made}");
    (made.replace(own.to_str().unwrap(), ""), notices)
}

fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "{line}\n---\n{text}");
    }
}

#[test]
fn a_site_becomes_a_gateway_with_its_names_certificate_and_limits() {
    let (made, notices) = import("site.conf");
    has(
        &made,
        &[
            "listen = [\"[::]:443\"]",
            "hosts = [\"flows.example.org\", \"www.flows.example.org\"]",
            "cert = \"/fullchain.pem\"\nkey = \"/privkey.pem\"",
            "body = \"20MiB\"",
            "hsts = \"31536000s\"",
            "[upstream]\nurl = \"http://127.0.0.1:1880\"\nfirst_byte = \"3600s\"\nidle = \"3600s\"",
        ],
    );
    has(
        &notices,
        &[
            "line 2: a server that redirects is not carried over",
            "line 30: proxy_read_timeout 86400 is longer than flowgate waits",
        ],
    );
    assert!(
        !notices.contains("Upgrade") && !notices.contains("ssl_ciphers"),
        "{notices}"
    );
}

#[test]
fn a_whole_file_with_a_group_of_servers_and_passwords_is_read() {
    let (made, notices) = import("nginx.conf");
    has(
        &made,
        &[
            "listen = [\"0.0.0.0:443\"]",
            "header = \"15s\"",
            "keep_alive = \"65s\"",
            "[upstream]\nurl = \"http://127.0.0.1:1880\"\nconnect = \"10s\"\nfirst_byte = \"300s\"",
        ],
    );
    assert!(
        !made.contains("hosts =") && !made.contains("path ="),
        "{made}"
    );
    has(
        &notices,
        &[
            "line 4: include /etc/nginx/modules-enabled/*.conf is not followed",
            "line 32: include /etc/nginx/conf.d/*.conf is not followed",
            "upstream nodered has several servers",
            "auth_basic is not carried over: users sign in to flowgate",
            "auth_basic_user_file is not carried over: make an [[auth.user]]",
        ],
    );
    assert!(!notices.contains("mime.types"), "{notices}");
}

#[test]
fn paths_lead_to_upstreams_of_their_own() {
    let (made, notices) = import("paths.conf");
    has(
        &made,
        &[
            "hosts = [\"plant.example.org\", \"*.plant.example.org\"]",
            "cert = \"/fullchain.pem\"",
            "body = \"1GiB\"",
            "[[upstream]]\nname = \"line1-1\"\npath = \"/line1\"\nstrip = true\nurl = \"http://10.0.0.11:1880\"",
            "[[upstream]]\nname = \"line2-2\"\npath = \"/line2\"\nstrip = false\nurl = \"http://10.0.0.12:1880\"",
        ],
    );
    assert!(
        !made.contains("line3") && !made.contains("favicon"),
        "{made}"
    );
    has(
        &notices,
        &[
            "root is not carried over: flowgate serves no files",
            "client_max_body_size 0: flowgate takes bodies from 1 KiB to 1 GiB",
            "proxy_pass http://10.0.0.13:1880/other/ is not carried over",
            "location = /favicon.ico is not carried over",
            "location /static/ is not carried over: it has no proxy_pass",
        ],
    );
}

#[test]
fn networks_client_certificates_and_the_proxy_protocol_are_carried_over() {
    let (made, notices) = import("closed.conf");
    has(
        &made,
        &[
            "listen = [\"10.0.0.5:443\"]",
            "hosts = [\"plant.example.org\", \"*.plant.example.org\"]",
            "trusted_proxies = [\"10.0.0.0/24\"]\nproxy_protocol = true",
            "tls12 = false\nclient_ca = \"/fullchain.pem\"\nclient_certificates = \"optional\"",
            "body_idle = \"30s\"",
            "permission_networks = { \"*\" = [\"192.168.0.0/16\", \"2001:db8::/32\"] }",
            "url = \"unix:/run/node-red/node-red.sock\"",
        ],
    );
    has(
        &notices,
        &[
            "client certificates: name the user of each in [[auth.user]] certificates",
            "all permissions may be used from these networks only",
        ],
    );
}

#[test]
fn what_has_no_equal_is_reported_with_its_line_and_what_to_do() {
    let (made, notices) = import("strange.conf");
    has(
        &made,
        &[
            "listen = [\"0.0.0.0:80\"]",
            "url = \"https://node-red.internal:1880\"\nfirst_byte = \"90s\"\nidle = \"90s\"\nca_file = \"/fullchain.pem\"\nserver_name = \"node-red.internal\"",
        ],
    );
    has(
        &notices,
        &[
            "line 1: limit_req_zone is not carried over",
            "line 4: 0.0.0.0:80 had no TLS",
            "line 5: server_name ~^(?<plant>.+)\\.example\\.org$ is not carried over",
            "line 6: limit_req is not carried over: set rate_limit",
            "line 8: if is not carried over",
            "line 11: rewrite is not carried over",
            "line 12: allow and deny are not carried over",
            "line 19: proxy_set_header X-Plant is not carried over",
            "line 22: location ~* \\.(png|jpg)$ is not carried over",
            "line 26: proxy_pass http://$plant is not carried over",
            "there is no ssl_certificate: flowgate makes a self-signed certificate",
        ],
    );
}

#[test]
fn a_file_that_is_no_gateways_or_broken_makes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (text, words) in [
        (
            "server { listen 80; root /var/www; }",
            "no server in it has a proxy_pass",
        ),
        ("server {\n listen 80\n", "line 3: unexpected end of file"),
        ("", "no server in it has a proxy_pass"),
    ] {
        fs::write(directory.path().join("nginx.conf"), text).unwrap();
        let mut command = program(directory.path(), &["import", "nginx.conf"]);
        command.stdout(Stdio::piped());
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(
            errors.contains(words) && output.stdout.is_empty(),
            "{errors}"
        );
    }
}
