//! `GET /settings`: the settings that the stock editor and CLI need first
//! (docs/reference/node-red-admin-api.md §2).

use super::node_sets::version;
use crate::auth::Caller;
use crate::config::{Config, ContextStore};
use crate::editor::Editor;
use crate::http::identify;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use engine::settings::MEMORY;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

pub(super) fn read(ctx: &RequestContext<'_>) -> Response<Body> {
    let config = &ctx.gateway.config;
    // Without authentication there is no user, and the editor then assumes every permission.
    let caller = ctx.caller.as_ref().filter(|_| ctx.gateway.auth.is_some());
    let editor = ctx.gateway.editor.as_deref();
    response::json(StatusCode::OK, settings(config, caller, editor).to_string())
}

fn settings(config: &Config, caller: Option<&Caller>, editor: Option<&Editor>) -> Json {
    let secret = &config.storage.credential_secret;
    let languages = editor.map_or(&[][..], Editor::languages);
    let mut settings = json!({
        "httpNodeRoot": config.engine.http_node_root,
        "version": version(editor),
        "context": contexts(&config.engine.context),
        "libraries": libraries(editor),
        "externalModules": {
            "palette": installs(config),
            "modules": { "allowInstall": false },
        },
        "flowEncryptionType": if secret.is_some() { "user" } else { "system" },
        "diagnostics": { "enabled": true, "ui": true },
        "telemetryEnabled": false,
        "runtimeState": { "enabled": true, "ui": true },
        "functionExternalModules": true,
        "functionTimeout": 0,
        "tlsConfigDisableLocalFiles": false,
        "editorTheme": { "projects": { "enabled": false }, "tours": false, "languages": languages },
    });
    let host = config.engine.node_host.as_ref();
    if let Some(host) = host.filter(|host| !host.installs.catalogues.is_empty()) {
        settings["editorTheme"]["palette"] = json!({ "catalogues": host.installs.catalogues });
    }
    if let Some(caller) = caller {
        settings["user"] = identify::shown(caller);
    }
    settings
}

/// The packages that may be installed, with the names of Node-RED's settings. Its editor hides
/// those that a pattern denies, so all are denied that none allows.
fn installs(config: &Config) -> Json {
    let host = config.engine.node_host.as_ref();
    match host.map(|host| &host.installs) {
        Some(installs) if installs.are_allowed() => {
            let mut deny = installs.deny.clone();
            if !installs.allow.iter().any(|pattern| pattern == "*") {
                deny.push("*".to_owned());
            }
            json!({
                "allowInstall": true, "allowUpload": false, "allowList": installs.allow, "denyList": deny,
            })
        }
        _ => json!({ "allowInstall": false, "allowUpload": false }),
    }
}

/// The libraries of `/library`, with the editor's labels.
fn libraries(editor: Option<&Editor>) -> Json {
    let local = json!({
        "id": "local", "label": "editor:library.types.local", "user": false, "icon": "font-awesome/fa-hdd-o",
    });
    let examples = json!({
        "id": "examples", "label": "editor:library.types.examples", "user": false,
        "icon": "font-awesome/fa-life-ring", "types": ["flows"], "readOnly": true,
    });
    match editor {
        Some(_) => json!([local, examples]),
        None => json!([local]),
    }
}

/// The context stores, the one for unnamed use as the default.
fn contexts(stores: &[ContextStore]) -> Json {
    let names: Vec<&str> = match stores {
        [] => vec![MEMORY],
        stores => stores.iter().map(|store| store.name.as_str()).collect(),
    };
    json!({ "default": names.first(), "stores": names })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::auth::Permissions;
    use smol_str::SmolStr;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn the_anonymous_user_is_shown_with_their_permissions() {
        let config = Config::parse(crate::config::DEFAULT, "gateway.toml", Path::new("")).unwrap();
        let caller = Caller {
            user: SmolStr::default(),
            permissions: Permissions::of(Arc::from([SmolStr::new("read")])),
            known: crate::auth::AuthMethod::Anonymous,
        };
        let shown = settings(&config, Some(&caller), None);
        assert_eq!(shown["user"]["anonymous"], true);
        assert_eq!(shown["user"]["permissions"], "read");
        assert!(shown["user"].get("username").is_none());
    }

    #[test]
    fn without_authentication_there_is_no_user() {
        let config = Config::parse(crate::config::DEFAULT, "gateway.toml", Path::new("")).unwrap();
        assert!(settings(&config, None, None).get("user").is_none());
    }
}
