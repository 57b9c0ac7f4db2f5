//! `[tls.acme]`, right and wrong.

use super::{bad, good};

fn acme(lines: &str) -> String {
    format!("[tls.acme]\ndomains = [\"gate.example.org\"]\n{lines}\n")
}

#[test]
fn acme_needs_names_and_an_explicit_consent_only() {
    let acme = good(&acme("accept_terms = true")).tls.acme.unwrap();
    assert_eq!(acme.domains, ["gate.example.org"]);
    assert_eq!(
        acme.directory.to_string(),
        "https://acme-v02.api.letsencrypt.org/directory"
    );
    assert!(acme.contact.is_empty() && acme.external_account.is_none());
    assert!(good("").tls.acme.is_none());
}

#[test]
fn acme_that_could_not_work_or_was_not_agreed_to_is_refused() {
    let agreed = "accept_terms = true\n";
    for (text, words) in [
        (acme(""), "accept_terms = true"),
        (acme("accept_terms = false"), "accept_terms = true"),
        (format!("[tls.acme]\n{agreed}"), "needs domains"),
        (format!("[tls.acme]\n{agreed}domains = []"), "needs domains"),
        (
            format!("[tls.acme]\n{agreed}domains = [\"*.example.org\"]"),
            "neither wildcards nor addresses",
        ),
        (
            format!("[tls.acme]\n{agreed}domains = [\"a.example\", \"A.example\"]"),
            "a.example is named twice",
        ),
        (
            acme(&format!("{agreed}contact = [\"ops@example.org\"]")),
            "mailto:",
        ),
        (
            acme(&format!("{agreed}directory = \"http://ca.example.org/\"")),
            "https URL",
        ),
        (
            acme(&format!("{agreed}eab_key_id = \"kid-1\"")),
            "eab_key_id and eab_hmac_key_file",
        ),
        (
            acme(&format!(
                "{agreed}[[tls.certificate]]\ncert = \"a.pem\"\nkey = \"a.key\""
            )),
            "[tls.acme] and [[tls.certificate]]",
        ),
    ] {
        let error = bad(&text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn a_certificate_that_no_listener_shows_is_a_warning() {
    let agreed = acme("accept_terms = true");
    let warns = |lines: &str| {
        let text = format!("{agreed}{lines}");
        let warnings: Vec<_> = good(&text).warnings().collect();
        warnings.concat().contains("[tls.acme] has no effect")
    };
    assert!(!warns(""));
    assert!(warns("[server]\nlisten = []\nplain = \"127.0.0.1:1880\"\n"));
}
