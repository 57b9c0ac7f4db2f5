//! `GET /gateway/settings`: what `gateway.toml` says, what of it differs from the defaults, and
//! what a reload would change. No secret is in it.

use super::error::Error;
use super::request_context::RequestContext;
use super::response;
use super::response_body::Body;
use crate::config::{Config, DEFAULT, SettingChange, WrittenSetting, setting_changes, written};
use crate::gateway::{ConfigCheck, Gateway, is_reloaded};
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};

/// `GET /gateway/settings`
pub(super) async fn read(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let gateway = ctx.gateway;
    let running = gateway.settings();
    let file = gateway.config.file.clone();
    let check = gateway.config_check.get().copied();
    let on_disk = ctx.blocking(move || OnDisk::read(file.as_deref(), check));
    let on_disk = on_disk.await?;
    ctx.check()?;
    let defaults = written(DEFAULT);
    let shown = running.iter().map(|setting| shown(setting, &defaults));
    let body = json!({
        "file": name(&gateway.config),
        "settings": shown.collect::<Vec<_>>(),
        "reload": on_disk.shown(gateway, &running),
    });
    let answer = response::json(StatusCode::OK, body.to_string());
    Ok(response::uncached(answer))
}

/// The file's name; `null`: there is none, and the defaults count.
fn name(config: &Config) -> Option<String> {
    let name = config.file.as_ref()?.file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// A setting that counts now.
fn shown(setting: &WrittenSetting, defaults: &[WrittenSetting]) -> Json {
    let default = defaults.iter().find(|default| default.key == setting.key);
    json!({
        "key": setting.key,
        "line": setting.line,
        "value": setting.value,
        "secret": setting.value.is_none(),
        "default": default.and_then(|default| default.value.clone()),
        "differs": default.is_none_or(|default| !default.has_value_of(setting)),
    })
}

/// The file as a reload would find it.
struct OnDisk {
    read: Result<Config, String>,
    warnings: Vec<String>,
}

impl OnDisk {
    fn read(file: Option<&std::path::Path>, check: Option<ConfigCheck>) -> Self {
        let found = Config::load(file).map_err(|error| error.to_string());
        let found = found.and_then(|config| match check {
            Some(check) => check(&config).map(|()| config),
            None => Ok(config),
        });
        // Its folder is not the client's business.
        let folder = file
            .and_then(|file| file.parent())
            .map(|folder| format!("{}/", folder.display()));
        let folder = folder.filter(|folder| folder.len() > 1);
        let named = |error: String| match &folder {
            Some(folder) => error.replace(folder.as_str(), ""),
            None => error,
        };
        Self {
            warnings: found.iter().flat_map(Config::warnings).collect(),
            read: found.map_err(named),
        }
    }

    fn shown(&self, gateway: &Gateway, running: &[WrittenSetting]) -> Json {
        let config = match &self.read {
            Ok(config) => config,
            Err(error) => return json!({ "error": error, "changes": [], "warnings": [] }),
        };
        // Users are enabled and disabled by a restart only.
        let keeps_auth = config.auth.is_some() == gateway.config.auth.is_some();
        let takes_effect = |setting: &WrittenSetting| {
            let is_auth = setting.kind == "auth" || setting.kind.starts_with("auth.");
            is_reloaded(&setting.kind) && (keeps_auth || !is_auth)
        };
        let changes = setting_changes(running, &config.written);
        let changes = changes.iter().map(|change| changed(change, takes_effect));
        json!({
            "error": null,
            "changes": changes.collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
    }
}

fn changed(change: &SettingChange<'_>, takes_effect: impl Fn(&WrittenSetting) -> bool) -> Json {
    let value = |setting: Option<&WrittenSetting>| setting.and_then(|one| one.value.clone());
    let one = change.after.or(change.before);
    let what = match (change.before, change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    json!({
        "key": one.map(|one| one.key.as_str()),
        "what": what,
        "before": value(change.before),
        "after": value(change.after),
        "secret": one.is_some_and(|one| one.value.is_none()),
        "takes": if one.is_some_and(takes_effect) { "reload" } else { "restart" },
    })
}
