//! `[cluster]`, right and wrong.

use super::{bad, good};

const STORAGE: &str = "[storage]\nurl = \"postgres://flowgate@127.0.0.1/flowgate\"\ncredential_secret = \"a secret\"\n";
const ENGINE: &str = "[engine]\nisolation = \"process\"\n";
const FILES: &str = "cert = \"member.pem\"\nkey = \"member.key\"\nca_file = \"ca.pem\"\n";
const SHARED: &str = "[[engine.context]]\nname = \"c\"\nmodule = \"shared\"\n";

fn cluster(advertise: &str) -> String {
    format!("[cluster]\nadvertise = \"{advertise}\"\n{FILES}")
}

#[test]
fn a_member_listens_where_it_is_reached_unless_the_file_says_otherwise() {
    let text = format!("{STORAGE}{ENGINE}{}", cluster("https://10.0.0.5:8444"));
    let member = good(&text).cluster.unwrap();
    assert_eq!((member.host.as_str(), member.port), ("10.0.0.5", 8444));
    assert_eq!(member.listen.to_string(), "10.0.0.5:8444");
    let named = cluster("https://edge-1.example.org:8444");
    let text = format!("{STORAGE}{ENGINE}{named}listen = \"0.0.0.0:1\"\n");
    assert_eq!(good(&text).cluster.unwrap().listen.to_string(), "0.0.0.0:1");
    assert!(bad(&format!("{STORAGE}{ENGINE}{named}")).contains("cluster.listen must say"));
}

#[test]
fn a_cluster_needs_a_shared_store_an_isolated_engine_and_one_secret_for_all() {
    let member = cluster("https://10.0.0.5:8444");
    let url = STORAGE.lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
    for (text, words) in [
        (format!("{ENGINE}{member}"), "[cluster] needs storage.url"),
        (
            format!("{STORAGE}{member}"),
            "[cluster] needs engine.isolation",
        ),
        (
            format!("{url}{ENGINE}{member}"),
            "[cluster] needs storage.credential_secret",
        ),
        (
            format!("{STORAGE}{ENGINE}[cluster]\n"),
            "[cluster] needs advertise",
        ),
        (
            format!("{STORAGE}{ENGINE}{}", cluster("10.0.0.5:8444")),
            "a URL such as",
        ),
        (format!("{STORAGE}{ENGINE}"), "or need a [cluster]"),
        (
            format!("{ENGINE}{SHARED}"),
            "for the members of a [cluster]",
        ),
        (
            format!("{STORAGE}{ENGINE}{SHARED}directory = \"a\"\n{member}"),
            "kept in the database",
        ),
    ] {
        let error = bad(&text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn the_engine_of_a_shard_has_its_operations_listener() {
    let member = cluster("https://10.0.0.5:8444");
    let operations = |name: &str| {
        let lines =
            format!("place = {{ a = \"east\" }}\noperations = {{ {name} = \"127.0.0.1:9092\" }}\n");
        format!("{STORAGE}{ENGINE}{member}{lines}")
    };
    let config = good(&operations("east"));
    for (shard, expected) in [
        (None, "operations = \"off\""),
        (Some("east"), "operations = \"127.0.0.1:9092\""),
    ] {
        let text = serde_json::to_string(&config.handover(shard).unwrap()).unwrap();
        assert!(text.replace("\\\"", "\"").contains(expected), "{text}");
    }
    let error = bad(&operations("west"));
    assert!(
        error.contains("names of members in cluster.place"),
        "{error}"
    );
}

#[test]
fn the_process_of_a_member_gets_nothing_of_the_database() {
    let member = cluster("https://10.0.0.5:8444");
    let config = good(&format!("{STORAGE}{ENGINE}{SHARED}{member}"));
    let handover = config.handover(None).unwrap();
    let text = serde_json::to_string(&handover).unwrap();
    for secret in ["postgres", "member.key\\", "[cluster]"] {
        assert!(!text.contains(secret), "{text}");
    }
    let engine = handover.config().unwrap();
    let [store] = &*engine.engine.context else {
        panic!("one store");
    };
    let files = store.files.as_ref().unwrap();
    assert!(files.directory.ends_with("engine/shared-context/c"));
    assert_eq!(files.flush.as_millis(), 500);
    let key = &config.cluster.unwrap().certificate.key;
    assert!(engine.engine.inaccessible_paths.contains(key));
}
