//! Passes on the messages about flows that an editor's caller sees, where the caller reads some
//! flows only.
//!
//! A message names a node, a flow or nothing of flows. What a node belongs to is looked up in the
//! active flow set; unknown nodes and unknown topics are not shown. The flow set is asked for again
//! when a deployment is announced.

use super::topic_filter::Pattern;
use crate::auth::{AuthWatch, Lapsed, Permissions};
use crate::policy::Sight;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::pin::Pin;
use std::sync::Arc;

/// Finds what a caller with these permissions sees of the active flow set, which is that of the
/// revision if one was announced; `None`: it cannot be had.
pub type FindSight = Arc<
    dyn Fn(Permissions, Option<String>) -> Pin<Box<dyn Future<Output = Option<Seen>> + Send>>
        + Send
        + Sync,
>;

/// What a caller sees of a revision.
#[derive(Clone)]
pub struct Seen {
    /// The revision.
    pub rev: String,
    /// What the caller sees of it.
    pub sight: Arc<Sight>,
}

/// Chooses the messages for one editor.
pub(super) struct VisibleEvents {
    watch: AuthWatch,
    find: FindSight,
    /// What was seen last, and the permissions by which.
    seen: Option<(Permissions, Seen)>,
}

/// Why a frame cannot be passed on.
pub(super) enum Unseen {
    /// The authorization has lapsed.
    Lapsed(Lapsed),
    /// The active flow set cannot be had.
    Unavailable,
}

/// A frame with the messages that the caller sees.
pub(super) struct Chosen {
    /// `None`: nothing is left.
    pub(super) frame: Option<Bytes>,
    /// These are to be repeated: nodes that a deployment has started were unknown until it was
    /// announced.
    pub(super) repeat: Option<Pattern>,
}

impl VisibleEvents {
    pub(super) fn new(watch: AuthWatch, find: FindSight) -> Self {
        let seen = None;
        Self { watch, find, seen }
    }

    /// Whether the caller reads some flows only.
    pub(super) fn are_limited(&mut self) -> Result<bool, Lapsed> {
        self.watch.check()?;
        let caller = self.watch.caller();
        Ok(caller.is_some_and(|caller| caller.permissions.reads_some_flows()))
    }

    /// Leaves out what the caller does not see.
    pub(super) async fn choose(&mut self, frame: Bytes) -> Result<Chosen, Unseen> {
        let whole = |frame| Chosen {
            frame,
            repeat: None,
        };
        if !self.are_limited().map_err(Unseen::Lapsed)? {
            return Ok(whole(Some(frame)));
        }
        let Ok(messages) = serde_json::from_slice::<Vec<Json>>(&frame) else {
            return Ok(whole(None));
        };
        let mut chosen = Vec::new();
        let mut repeat = None;
        for message in messages {
            if message["topic"] == DEPLOYED {
                let rev = message["data"]["revision"].as_str();
                if self.is_other(rev) {
                    self.seen = None;
                    self.find(rev).await?;
                    repeat = Pattern::parse(STATUSES.to_owned());
                }
            }
            let sight = self.find(None).await?;
            chosen.extend(shown(message, &sight));
        }
        let frame = (!chosen.is_empty()).then(|| Json::from(chosen).to_string().into());
        Ok(Chosen { frame, repeat })
    }

    fn is_other(&self, rev: Option<&str>) -> bool {
        let seen = self.seen.as_ref();
        seen.is_none_or(|(_, seen)| rev != Some(&seen.rev))
    }

    /// What the caller sees, by the permissions of now.
    async fn find(&mut self, announced: Option<&str>) -> Result<Arc<Sight>, Unseen> {
        let caller = self.watch.caller().ok_or(Unseen::Unavailable)?;
        if let Some((by, seen)) = &self.seen
            && *by == caller.permissions
        {
            return Ok(Arc::clone(&seen.sight));
        }
        let permissions = caller.permissions.clone();
        let found = (self.find)(permissions.clone(), announced.map(str::to_owned)).await;
        let seen = found.ok_or(Unseen::Unavailable)?;
        let sight = Arc::clone(&seen.sight);
        self.seen = Some((permissions, seen));
        Ok(sight)
    }
}

const DEPLOYED: &str = "notification/runtime-deploy";
const STATUSES: &str = "status/#";

/// The message as the caller sees it, if at all.
fn shown(mut message: Json, sight: &Sight) -> Option<Json> {
    let topic = message["topic"].as_str()?;
    if let Some(id) = topic.strip_prefix("status/") {
        return sight.sees(id).then_some(message);
    }
    match topic {
        // The last five are about the palette.
        "hb"
        | DEPLOYED
        | "notification/node/added"
        | "notification/node/removed"
        | "notification/node/enabled"
        | "notification/node/disabled"
        | "notification/node/upgraded" => Some(message),
        "debug" => {
            let text = |key: &str| message["data"][key].as_str().unwrap_or_default();
            let sees = sight.sees_running(text("id"), text("path"));
            sees.then_some(message)
        }
        // Its other fields name types and modules of all flows.
        "notification/runtime-state" => {
            let state = message["data"]["state"].as_str()?;
            Some(json!({ "topic": topic, "data": { "state": state } }))
        }
        "notification/stopped-flows" => {
            let Some(flows) = message["data"]["flows"].as_array_mut() else {
                // They start again.
                return Some(json!({ "topic": "notification/stopped-flows", "data": {} }));
            };
            flows.retain(|flow| flow["id"].as_str().is_some_and(|id| sight.sees(id)));
            let any = !flows.is_empty();
            any.then_some(message)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flows::FlowSet;
    use smol_str::SmolStr;

    /// What a reader of tab `a` is shown of a message, of two tabs with a node and an instance
    /// each.
    fn shown_of_a(topic: &str, data: &Json) -> Option<Json> {
        let flows = json!([
            { "id": "a", "type": "tab" }, { "id": "a1", "type": "debug", "z": "a", "x": 1, "y": 1 },
            { "id": "b", "type": "tab" }, { "id": "b1", "type": "debug", "z": "b", "x": 1, "y": 1 },
        ]);
        let flows = FlowSet::parse(flows.to_string().as_bytes()).expect("flows");
        let permissions = Permissions::of([SmolStr::new("flows.read:a")].into());
        let sight = Sight::of(&permissions, &Arc::new(flows));
        let message = shown(json!({ "topic": topic, "data": data }), &sight)?;
        Some(message["data"].clone())
    }

    #[test]
    fn messages_of_nodes_are_shown_if_their_flow_is_seen() {
        let debug = |id: &str, path: &str| json!({ "id": id, "path": path, "msg": "m" });
        for (topic, data, is_shown) in [
            ("status/a1", json!({}), true),
            ("status/b1", json!({}), false),
            ("status/unknown", json!({}), false),
            ("status/", json!({}), false),
            ("debug", debug("a1", "a"), true),
            ("debug", debug("b1", "b"), false),
            // A node that is known belongs to its flow, whatever the path.
            ("debug", debug("b1", "a"), false),
            // Inside an instance of a subflow.
            ("debug", debug("made-1", "a/instance"), true),
            ("debug", debug("made-1", "b/instance"), false),
            ("debug", debug("made-1", "global"), false),
            ("debug", json!({ "msg": "of no node" }), false),
            ("hb", json!(1), true),
            (
                "notification/runtime-deploy",
                json!({ "revision": "r" }),
                true,
            ),
            ("notification/node/added", json!([]), true),
            (
                "notification/project-update",
                json!({ "action": "x" }),
                false,
            ),
            ("multiplayer/location", json!({ "workspace": "b" }), false),
            ("of-a-node-package", json!({ "id": "a1" }), false),
        ] {
            let shown = shown_of_a(topic, &data);
            assert_eq!(shown, is_shown.then_some(data), "{topic}");
        }
    }

    #[test]
    fn notices_about_all_flows_name_only_those_that_are_seen() {
        let missing = json!({ "state": "stop", "error": "missing-types", "types": ["secret"] });
        assert_eq!(
            shown_of_a("notification/runtime-state", &missing),
            Some(json!({ "state": "stop" }))
        );
        let stopped = |ids: &[&str]| {
            let flows: Vec<Json> = ids.iter().map(|id| json!({ "id": id })).collect();
            json!({ "text": "stopped", "flows": flows })
        };
        let shown = |data: &Json| shown_of_a("notification/stopped-flows", data);
        assert_eq!(shown(&stopped(&["a", "b"])), Some(stopped(&["a"])));
        assert_eq!(shown(&stopped(&["b"])), None);
        assert_eq!(shown(&json!({})), Some(json!({})));
    }
}
