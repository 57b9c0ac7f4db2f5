//! The certificates of a cluster's members: who shows none of theirs reaches nothing, and a reload
//! replaces them.

use crate::fail_over::{Certificates, Member, cluster, engine_of, until_says};
use crate::harness::{flow_set, page};
use crate::isolation::signal;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A client that trusts the authority in a directory, and shows the certificate in another one.
fn client(trusted: &Path, own: Option<&TempDir>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(trusted.join("members-ca.pem"));
    roots.add(authority.unwrap()).unwrap();
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let Some(own) = own else {
        return builder.with_no_client_auth();
    };
    let certificate = CertificateDer::from_pem_file(own.path().join("member.pem"));
    let key = PrivateKeyDer::from_pem_file(own.path().join("member.key"));
    let shown = builder.with_client_auth_cert(vec![certificate.unwrap()], key.unwrap());
    shown.unwrap()
}

/// Asks the engine of a member for the flows.
async fn ask(member: &Member, client: ClientConfig) -> io::Result<String> {
    let tls = TlsConnector::from(Arc::new(client));
    let tcp = TcpStream::connect(("127.0.0.1", member.port)).await?;
    let mut stream = tls.connect("127.0.0.1".try_into().unwrap(), tcp).await?;
    let request = b"GET /flows HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map(|_| answer)
}

#[tokio::test]
async fn only_members_reach_the_engine_of_a_cluster() {
    let (_postgres, one, _other) = cluster().await;
    let others = Certificates::make();
    for certificate in [None, Some(&others.0)] {
        let answer = ask(&one, client(one.directory.path(), certificate)).await;
        assert!(
            answer
                .as_ref()
                .is_err_and(|error| error.to_string().contains("received fatal alert")),
            "{answer:?}"
        );
    }
    let answer = ask(&one, client(one.directory.path(), Some(&one.directory))).await;
    assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_reload_replaces_the_certificates_of_members() {
    let (_postgres, one, other) = cluster().await;
    let token = one.sign_in("admin").await;
    one.deploy(&token, &flow_set(&[page("a", "/a", "here")]))
        .await;
    let before = Certificates(TempDir::new().unwrap());
    for name in ["member.pem", "member.key"] {
        fs::copy(one.directory.path().join(name), before.0.path().join(name)).unwrap();
    }
    let after = Certificates::make();
    for member in [&one, &other] {
        after.give(member.directory.path());
        member.process().signal("HUP");
        member.process().wait_for_log("reloaded users");
    }
    let trusted = one.directory.path();
    let answer = ask(&one, client(trusted, Some(&after.0))).await;
    assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
    assert!(ask(&one, client(trusted, Some(&before.0))).await.is_err());
    // With it the connections of the other member end.
    signal(engine_of(&one), "KILL");
    until_says(&other, "/a", "here").await;
    assert!(one.leads().await, "the other member has followed");
}
