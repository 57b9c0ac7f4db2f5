//! Changes of the palette: `POST /nodes` and `DELETE /nodes/:module` install and remove npm
//! packages for the node host, `PUT /nodes/:module` and `PUT /nodes/:module/:set` enable and
//! disable their node sets.
//!
//! The node sets of the core are built in: enabling one changes nothing, and disabling one is
//! refused.

use super::node_sets::NodeSets;
use super::nodes::{module_and_set, ok_json};
use crate::audit::{Actor, Event as Audited};
use crate::editor::CORE;
use crate::gateway::{Backend, Gateway, Runtime};
use crate::http::admin_error::AdminError;
use crate::http::error::Error;
use crate::http::path::Path;
use crate::http::request_context::RequestContext;
use crate::http::response;
use crate::http::response_body::Body;
use crate::palette::{self, PackageName, PackageVersion, Palette};
use engine::Engine;
use events::Event;
use hyper::{Response, StatusCode};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// `POST /nodes` with `{"module": …, "version": …}`
pub(super) async fn install(ctx: &mut RequestContext<'_>) -> Result<Response<Body>, Error> {
    let change = Change::of(ctx)?;
    change.palette.permitted()?;
    let body = ctx.read_json_value().await?.unwrap_or_default();
    let (name, version) = requested(&body)?;
    let asked = json!({
        "change": "install", "module": name.as_str(), "version": version.as_ref().map(PackageVersion::as_str),
    });
    let task = async move {
        let installed = change
            .palette
            .install(&change.engine, &name, version.as_ref())
            .await;
        let installed = installed.map_err(|error| change.failed(asked, error))?;
        let version = &installed.version;
        let facts = json!({
            "module": name.as_str(), "version": version, "integrity": installed.integrity, "before": installed.before,
        });
        change.record(Audited::PackageInstall, facts);
        let module = change.sets().module(name.as_str())?;
        if installed.before.is_some() {
            change.publish(
                "upgraded",
                json!({ "module": name.as_str(), "version": version }),
            );
        } else {
            change.publish("added", module["nodes"].clone());
        }
        Ok(ok_json(&module))
    };
    ctx.control(task).await?
}

/// `DELETE /nodes/:module`
pub(super) async fn remove(
    ctx: &RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let (module, _) = module_and_set(path);
    let change = Change::of(ctx)?;
    change.palette.permitted()?;
    let name = PackageName::parse(&module).ok_or(palette::Error::Name)?;
    let task = async move {
        let asked = json!({ "change": "remove", "module": module });
        let sets = change.sets().module(&module).ok();
        let is_used = |kind: &str| change.uses(kind);
        let removed = change.palette.remove(&change.engine, &name, is_used).await;
        let version = removed.map_err(|error| change.failed(asked, error))?;
        let facts = json!({ "module": module, "version": version });
        change.record(Audited::PackageRemove, facts);
        let removed = sets.map(|mut sets| sets["nodes"].take());
        change.publish("removed", removed.unwrap_or_default());
        Ok(response::empty(StatusCode::NO_CONTENT))
    };
    ctx.control(task).await?
}

/// `PUT /nodes/:module`
pub(super) async fn switch_module(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let is_enabled = enabled(ctx.read_json_value().await?.as_ref())?;
    let (module, _) = module_and_set(path);
    let found = NodeSets::of(ctx.gateway, &ctx.backend.runtime).module(&module);
    let found = found.map_err(|_| AdminError::NoSuchNodes)?;
    if module == CORE {
        return built_in(&found, is_enabled);
    }
    let change = Change::of(ctx)?;
    let task = async move {
        let sets = found["nodes"].as_array().map(Vec::as_slice);
        change.switch(sets.unwrap_or_default(), is_enabled).await?;
        Ok(ok_json(&change.sets().module(&module)?))
    };
    ctx.control(task).await?
}

/// `PUT /nodes/:module/:set`
pub(super) async fn switch_set(
    ctx: &mut RequestContext<'_>,
    path: &Path<'_>,
) -> Result<Response<Body>, Error> {
    let is_enabled = enabled(ctx.read_json_value().await?.as_ref())?;
    let (module, name) = module_and_set(path);
    let found = NodeSets::of(ctx.gateway, &ctx.backend.runtime).one(&module, &name);
    let found = found.map_err(|_| AdminError::NoSuchNodes)?;
    if module == CORE {
        return built_in(&found, is_enabled);
    }
    let change = Change::of(ctx)?;
    let task = async move {
        change.switch(&[found], is_enabled).await?;
        Ok(ok_json(&change.sets().one(&module, &name)?))
    };
    ctx.control(task).await?
}

/// What a change needs that goes on when its client has disconnected.
struct Change {
    gateway: Arc<Gateway>,
    backend: Arc<Backend>,
    palette: Arc<Palette>,
    engine: Engine,
    actor: Actor,
    now: u64,
}

impl Change {
    fn of(ctx: &RequestContext<'_>) -> Result<Self, Error> {
        let Runtime::Own(engine) = &ctx.backend.runtime else {
            return Err(Error::NotFound);
        };
        let palette = ctx.gateway.palette.clone().ok_or(palette::Error::Off)?;
        Ok(Self {
            gateway: Arc::clone(ctx.gateway),
            backend: Arc::clone(ctx.backend),
            palette,
            engine: engine.clone(),
            actor: ctx.actor(),
            now: ctx.now,
        })
    }

    async fn switch(&self, sets: &[Json], is_enabled: bool) -> Result<(), Error> {
        let ids = sets.iter().filter_map(|set| set["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let change = if is_enabled { "enabled" } else { "disabled" };
        let facts = json!({ "sets": ids, "enabled": is_enabled });
        let is_used = |kind: &str| self.uses(kind);
        let switched = self.palette.switch(&self.engine, &ids, is_enabled, is_used);
        if let Err(error) = switched.await {
            let asked = json!({ "change": change, "sets": ids });
            return Err(self.failed(asked, error));
        }
        self.record(Audited::PackageSwitch, facts);
        let shown = self.sets();
        for set in sets {
            let name = |key: &str| set[key].as_str().unwrap_or_default();
            self.publish(change, shown.one(name("module"), name("name"))?);
        }
        Ok(())
    }

    fn sets(&self) -> NodeSets<'_> {
        NodeSets::of(&self.gateway, &self.backend.runtime)
    }

    /// Returns whether the active flow set has nodes of a type.
    fn uses(&self, kind: &str) -> bool {
        let active = self.backend.deployments.active();
        active.flows.nodes().iter().any(|node| node.kind == kind)
    }

    fn publish(&self, change: &'static str, data: Json) {
        let event = Event::NodeSets { change, data };
        self.engine.events().publish(event);
    }

    fn record(&self, event: Audited, facts: Json) {
        let audit = &self.gateway.audit;
        audit.record(event, &self.actor, self.now, facts);
    }

    fn failed(&self, mut facts: Json, error: palette::Error) -> Error {
        facts["error"] = error.to_string().into();
        self.record(Audited::PackageFail, facts);
        error.into()
    }
}

/// The package and the version that a client asks for.
fn requested(body: &Json) -> Result<(PackageName, Option<PackageVersion>), Error> {
    let asked = body.as_object().filter(|asked| !asked.contains_key("url"));
    let asked = asked.ok_or(palette::Error::Name)?;
    let name = asked.get("module").and_then(Json::as_str);
    let name = name
        .and_then(PackageName::parse)
        .ok_or(palette::Error::Name)?;
    let version = match asked.get("version") {
        None | Some(Json::Null) => None,
        Some(version) => {
            let version = version.as_str().and_then(PackageVersion::parse);
            Some(version.ok_or(palette::Error::Version)?)
        }
    };
    Ok((name, version))
}

fn enabled(body: Option<&Json>) -> Result<bool, Error> {
    let enabled = body.and_then(|body| body.get("enabled")?.as_bool());
    enabled.ok_or_else(|| Error::Body("enabled must be true or false".into()))
}

fn built_in(found: &Json, is_enabled: bool) -> Result<Response<Body>, Error> {
    if is_enabled {
        Ok(ok_json(found))
    } else {
        Err(AdminError::BuiltIn.into())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_asked_for_by_name_and_version_and_in_no_other_way() {
        let (name, version) = requested(&json!({ "module": "@s/a", "version": "1.0.0" })).unwrap();
        assert_eq!(
            (name.as_str(), version.unwrap().as_str()),
            ("@s/a", "1.0.0")
        );
        assert!(requested(&json!({ "module": "a" })).unwrap().1.is_none());
        for body in [
            json!({}),
            json!([]),
            json!({ "module": 1 }),
            json!({ "module": "a", "url": "https://evil.example/a.tgz" }),
            json!({ "module": "git+https://evil.example/a" }),
        ] {
            let refused = requested(&body);
            assert!(
                matches!(
                    refused,
                    Err(Error::Admin(AdminError::Palette(palette::Error::Name)))
                ),
                "{body}"
            );
        }
        for version in [json!(1), json!("file:../x"), json!("^1.0.0")] {
            let refused = requested(&json!({ "module": "a", "version": version }));
            assert!(
                matches!(
                    refused,
                    Err(Error::Admin(AdminError::Palette(palette::Error::Version)))
                ),
                "{version}"
            );
        }
    }

    #[test]
    fn built_in_nodes_can_be_enabled_but_not_disabled() {
        let set = json!({ "id": "node-red/inject" });
        assert!(built_in(&set, true).is_ok());
        assert!(matches!(
            built_in(&set, false),
            Err(Error::Admin(AdminError::BuiltIn))
        ));
        assert!(matches!(
            enabled(Some(&json!({ "enabled": false }))),
            Ok(false)
        ));
        for body in [json!({}), json!({ "enabled": "true" }), json!([])] {
            assert!(
                matches!(enabled(Some(&body)), Err(Error::Body(_))),
                "{body}"
            );
        }
    }
}
