//! Using the stock editor, in headless Chromium: each test plays a scenario of `tests/editor/`,
//! which lists a user's actions and what the page then shows, in front of a real Node-RED or on our
//! own engine.

use crate::client::{Client, PASSWORD};
use crate::harness::{Gateway, hash, public, restart_marker};
use crate::node_red::{NodeRed, PROTECTED, Release, TOKEN};
use crate::oidc_provider::OidcProvider;
use crate::proposals::approving;
use crate::scenario;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// The flow that is there when a scenario begins.
const GREETING: &str = include_str!("../editor/greeting.json");

/// Of Node-RED's settings: no tour of what is new lies over the page.
const NO_TOURS: &str = "editorTheme: { tours: false },";

/// A gateway in front of a Node-RED in which the greeting flow runs.
async fn in_front_of(red: &NodeRed) -> Gateway {
    in_front_of_with(red, "").await
}

/// The same with other lines about the upstream.
async fn in_front_of_with(red: &NodeRed, lines: &str) -> Gateway {
    let gateway = Gateway::with(&red.config_with(lines));
    let token = gateway.sign_in("admin").await;
    let flows = serde_json::from_str(GREETING).unwrap();
    gateway.deploy(&token, &flows).await;
    gateway
}

/// A gateway that serves the editor itself, from npm packages of the tests, and runs the greeting
/// flow.
async fn of_its_own(modules: &str) -> Gateway {
    let gateway = empty(modules);
    let token = gateway.sign_in("admin").await;
    let flows = serde_json::from_str(GREETING).unwrap();
    gateway.deploy(&token, &flows).await;
    gateway
}

/// The same without any flows.
fn empty(modules: &str) -> Gateway {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(modules);
    Gateway::with(&format!("[editor]\nmodules = \"{}\"", modules.display()))
}

/// Where the editor's packages are.
const FOUR: &str = "tests/node_modules";
const FIVE: &str = "tests/node_modules/node-red-5/node_modules";

/// Plays a scenario of `tests/editor/` that needs nothing but the gateway.
async fn play(scenario: &str, gateway: &Gateway) {
    play_with(scenario, gateway, |cue| panic!("unknown cue: {cue}")).await;
}

/// Plays a scenario to its end, and does what its cues ask for.
pub async fn play_with(scenario: &str, gateway: &Client, cue: impl FnMut(&str) + Send + 'static) {
    let script = format!("editor/{scenario}.mjs");
    let url = format!("https://{}/", gateway.address);
    scenario::play(&script, &url, cue).await;
}

#[tokio::test]
async fn a_user_signs_in_loads_the_palette_and_signs_out() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("sign_in", &in_front_of(&red).await).await;
}

#[tokio::test]
async fn flows_are_imported_deployed_in_each_way_and_run_in_a_node_red_that_requires_a_token() {
    let settings = NO_TOURS.to_owned() + PROTECTED;
    let red = NodeRed::start(Release::Four, &settings);
    let file = red.directory.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let lines = format!("token_file = \"{}\"", file.display());
    play("deploy", &Gateway::with(&red.config_with(&lines))).await;
}

#[tokio::test]
async fn two_users_do_not_overwrite_each_others_work() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("two_editors", &in_front_of(&red).await).await;
}

#[tokio::test]
async fn a_reader_sees_the_flows_and_cannot_deploy() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("read_only", &in_front_of(&red).await).await;
}

#[tokio::test]
async fn an_editor_whose_token_is_revoked_asks_for_the_password() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("revoked", &in_front_of(&red).await).await;
}

#[tokio::test]
async fn an_editor_waits_for_a_node_red_that_is_restarted() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    // An editor tells of a lost connection after six attempts; they begin when we give up to keep
    // its channel open.
    let impatient = "health = \"250ms\"\n[comms]\nupstream_away = \"500ms\"";
    let gateway = in_front_of_with(&red, impatient).await;
    let (mut running, mut stopped) = (Some(red), None);
    let cues = move |cue: &str| match cue {
        "stop the runtime" => stopped = running.take().map(NodeRed::stop),
        "start the runtime" => running = stopped.take().map(|start| start()),
        _ => panic!("unknown cue: {cue}"),
    };
    play_with("restart", &gateway, cues).await;
}

/// Plays the sign-in with a provider, at a gateway with these lines.
async fn play_single_sign_on(lines: &str) {
    let (mut provider, gateway) = OidcProvider::gateway(lines);
    provider.tell("groups ann editors");
    let cues = move |cue: &str| match cue {
        "take the group away" => provider.tell("groups ann"),
        "give the group back" => provider.tell("groups ann editors"),
        "log out at the provider" => provider.tell("logout ann"),
        _ => panic!("unknown cue: {cue}"),
    };
    play_with("single_sign_on", &gateway, cues).await;
}

#[tokio::test]
async fn editors_4_and_5_sign_in_with_a_provider_on_the_engine() {
    for modules in [FOUR, FIVE] {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(modules);
        play_single_sign_on(&format!("[editor]\nmodules = \"{}\"\n", modules.display())).await;
    }
}

#[tokio::test]
async fn editors_4_and_5_sign_in_with_a_provider_in_front_of_node_red() {
    for release in [Release::Four, Release::Five] {
        let red = NodeRed::start(release, NO_TOURS);
        play_single_sign_on(&red.config_with("")).await;
    }
}

#[tokio::test]
async fn settings_context_palette_help_and_search_work() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("sidebars", &in_front_of(&red).await).await;
}

#[tokio::test]
async fn on_the_engine_a_user_signs_in_loads_the_palette_and_signs_out() {
    play("sign_in", &of_its_own(FOUR).await).await;
    play("sign_in", &of_its_own(FIVE).await).await;
}

#[tokio::test]
async fn on_the_engine_flows_are_imported_deployed_in_each_way_and_run() {
    play("deploy", &empty(FOUR)).await;
    play("deploy", &empty(FIVE)).await;
}

#[tokio::test]
async fn on_the_engine_two_users_do_not_overwrite_each_others_work() {
    play("two_editors", &of_its_own(FOUR).await).await;
    play("two_editors", &of_its_own(FIVE).await).await;
}

#[tokio::test]
async fn on_the_engine_a_reader_sees_the_flows_and_cannot_deploy() {
    play("read_only", &of_its_own(FOUR).await).await;
}

#[tokio::test]
async fn a_user_of_one_flow_deploys_it_and_is_shown_why_others_are_refused() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOUR);
    let engine = format!("[editor]\nmodules = \"{}\"", modules.display());
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "\n[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}"
        )
    };
    let users = user("admin", r#"["*"]"#)
        + &user(
            "ann",
            r#"["read", "settings.write", "flows.write:Greeting"]"#,
        );
    let mut flows: Vec<serde_json::Value> = serde_json::from_str(GREETING).unwrap();
    flows.push(json!({ "id": "other", "type": "tab", "label": "Other" }));
    let note = json!({ "id": "other-note", "type": "comment", "z": "other", "name": "note", "x": 200, "y": 100, "wires": [] });
    flows.push(note);
    for lines in [engine, red.config_with("")] {
        let gateway = Gateway::with(&(lines + &users));
        let token = gateway.sign_in("admin").await;
        gateway.deploy(&token, &flows.clone().into()).await;
        play("rights", &gateway).await;
    }
}

/// The other flow of a scenario: its endpoint shows when it was started, and shows something in
/// every editor.
const OTHER: &str = "/other";

fn other_flow() -> Vec<serde_json::Value> {
    let mut other = restart_marker("other", OTHER);
    let code = "node.status({ text: 'of the other flow' }); node.warn('of the other flow'); msg.payload = \
                context.get('started'); return msg";
    other[0]["label"] = "Other".into();
    other[2]["func"] = code.into();
    other
}

#[tokio::test]
async fn a_user_who_sees_one_flow_deploys_it_and_the_other_goes_on() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOUR);
    let engine = format!("[editor]\nmodules = \"{}\"\n", modules.display());
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &str| {
        format!(
            "\n[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = [{permissions}]\n"
        )
    };
    let ann = r#""flows.write:Greeting", "settings.read", "settings.write", "nodes.read", "plugins.read", "status.read",
        "inject.write", "debug.write", "context.read", "library.read", "projects.read""#;
    let users = user("admin", r#""*""#) + &user("ann", ann) + &public(&[OTHER]);
    let mut flows: Vec<serde_json::Value> = serde_json::from_str(GREETING).unwrap();
    flows.extend(other_flow());
    for lines in [engine, red.config_with("")] {
        let gateway = Gateway::with(&(lines + &users));
        let token = gateway.sign_in("admin").await;
        gateway.deploy(&token, &flows.clone().into()).await;
        let (client, handle) = ((*gateway).clone(), tokio::runtime::Handle::current());
        let flows = flows.clone();
        let mut started = String::new();
        let cues = move |cue: &str| {
            handle.block_on(async {
                let now = client.get(OTHER).send().await.text();
                let token = client.sign_in("admin").await;
                let active = client.flows(&token).await["flows"].clone();
                let of_other = |all: &serde_json::Value| -> Vec<serde_json::Value> {
                    let all = all.as_array().unwrap().iter();
                    all.filter(|node| node["id"].as_str().unwrap().starts_with("other"))
                        .cloned()
                        .collect()
                };
                let mut changed = other_flow();
                changed[1]["name"] = "changed".into();
                match cue {
                    "the other flow runs" => started = now,
                    "the other flow has not restarted" => {
                        assert_eq!(now, started);
                        assert_eq!(of_other(&active), of_other(&flows.clone().into()));
                    }
                    "the other flow changes" => {
                        let mut all = active.as_array().unwrap().clone();
                        all.retain(|node| !node["id"].as_str().unwrap().starts_with("other"));
                        all.extend(changed);
                        client.deploy_as("nodes", &token, &all.into()).await;
                    }
                    "the other flow is as changed" => assert_eq!(of_other(&active), changed),
                    _ => panic!("unknown cue: {cue}"),
                }
            });
        };
        play_with("sight", &gateway, cues).await;
    }
}

#[tokio::test]
async fn a_user_is_told_that_a_change_waits_for_the_approval_of_another() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    let editor = |modules: &str| {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(modules);
        format!("[editor]\nmodules = \"{}\"\n", modules.display())
    };
    for lines in [editor(FOUR), editor(FIVE), red.config_with("")] {
        let gateway = Gateway::with(&(lines + &approving("approve = [\"Greeting\"]")));
        let token = gateway.sign_in("admin").await;
        let flows = serde_json::from_str(GREETING).unwrap();
        gateway.deploy(&token, &flows).await;
        play("approval", &gateway).await;
        let name = gateway.flows(&token).await.to_string();
        assert!(name.contains("of ann"), "{name}");
    }
}

/// The lines of users and rules for the scenario about policies, by what its cue asks for.
fn rules(cue: &str) -> String {
    let changes: serde_json::Value = serde_json::from_str(cue).unwrap();
    let hash = hash(PASSWORD);
    let user = |name: &str, permissions: &serde_json::Value| {
        format!(
            "\n[[auth.user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\npermissions = {permissions}"
        )
    };
    let ann = match &changes["permissions"] {
        serde_json::Value::Null => json!(["read", "settings.write", "flows.write"]),
        permissions => permissions.clone(),
    };
    let policy = changes["policy"].as_str().unwrap_or_default();
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOUR);
    let editor = format!("[editor]\nmodules = \"{}\"", modules.display());
    let users = user("admin", &json!(["*"])) + &user("ann", &ann);
    format!("{editor}\n[policy]\n{policy}\n{users}\n")
}

#[tokio::test]
async fn a_user_is_shown_why_each_policy_refuses_a_deployment() {
    let gateway = Arc::new(Gateway::with(&rules("{}")));
    let mut flows: Vec<serde_json::Value> = serde_json::from_str(GREETING).unwrap();
    flows.push(json!({ "id": "other", "type": "tab", "label": "Other" }));
    flows.push(json!({ "id": "locked", "type": "tab", "label": "Locked", "locked": true }));
    let token = gateway.sign_in("admin").await;
    gateway.deploy(&token, &flows.clone().into()).await;
    let (served, handle) = (Arc::clone(&gateway), tokio::runtime::Handle::current());
    let cues = move |cue: &str| {
        handle.block_on(async {
            if cue == "another user deploys" {
                flows[4]["name"] = "of admin".into();
                served.deploy(&token, &flows.clone().into()).await;
            } else {
                assert!(served.reload(&rules(cue)).await, "{cue}");
            }
        });
    };
    play_with("policies", &gateway, cues).await;
}

#[tokio::test]
async fn on_the_engine_an_editor_whose_token_is_revoked_asks_for_the_password() {
    play("revoked", &of_its_own(FOUR).await).await;
}

#[tokio::test]
async fn a_flow_is_built_from_the_palette_and_runs() {
    play("build", &empty(FOUR)).await;
    play("build", &empty(FIVE)).await;
}

#[tokio::test]
async fn the_context_sidebar_shows_reads_again_and_deletes() {
    let red = NodeRed::start(Release::Four, NO_TOURS);
    play("context", &in_front_of(&red).await).await;
    play("context", &of_its_own(FOUR).await).await;
    play("context", &of_its_own(FIVE).await).await;
}

#[tokio::test]
async fn subflows_links_groups_config_nodes_export_and_search_work() {
    play("workspace", &of_its_own(FOUR).await).await;
    play("workspace", &of_its_own(FIVE).await).await;
}

#[tokio::test]
async fn flows_and_functions_are_kept_in_the_library_and_examples_are_there() {
    let gateway = of_its_own(FOUR).await;
    play("library", &gateway).await;
    let kept = std::fs::read_to_string(gateway.data("lib/functions/greet.js")).unwrap();
    assert!(kept.starts_with("// name: greet\n"), "{kept}");
}
