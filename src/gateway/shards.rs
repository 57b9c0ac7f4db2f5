//! The engines of a cluster beside the main one, each of which runs a shard of the flows, and which
//! requests are for which of them.

use super::Error;
use crate::config::{self, Config};
use crate::metrics::Metrics;
use crate::upstream::{Leader, Upstream};
use arc_swap::ArcSwap;
use engine::shards::{ShardEndpoints, Shards as Placed};
use flows::{FlowSet, Malformed, Places};
use futures_util::future::join_all;
use hyper::Method;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The engines of all shards but the main one.
pub struct Shards {
    places: Places,
    /// The root path of all endpoints (`http_node_root`).
    root: String,
    upstreams: BTreeMap<String, Upstream>,
    placed: ArcSwap<(Placed, ShardEndpoints)>,
}

impl Shards {
    /// Those of a cluster; `None`: no flow has a place. `engine`: the main engine as an upstream.
    pub(super) fn open(
        config: &Config,
        engine: &config::Upstream,
        metrics: &Metrics,
    ) -> Result<Option<Self>, Error> {
        let Some(cluster) = config
            .cluster
            .as_ref()
            .filter(|cluster| !cluster.shards.is_empty())
        else {
            return Ok(None);
        };
        let upstream = |(name, process): (&String, &config::EngineProcess)| {
            let mut engine = engine.clone();
            engine.mount.name = format!("{}-{name}", engine.mount.name);
            engine.socket = Some(process.socket.clone());
            let upstream = Upstream::open_in_cluster(engine, cluster, Some(name), metrics)?;
            Ok((name.clone(), upstream))
        };
        let upstreams = cluster.shards.iter().map(upstream);
        Ok(Some(Self {
            places: cluster.places.clone(),
            root: config.engine.http_node_root.clone(),
            upstreams: upstreams.collect::<Result<_, Error>>()?,
            placed: ArcSwap::default(),
        }))
    }

    /// Takes over the flows that are active now: the content of `flows.json`.
    pub fn take_over(&self, flows: &str) -> Result<(), Malformed> {
        let flows = Arc::new(FlowSet::parse(flows.as_bytes())?);
        let placed = Placed::of(&flows, &self.places);
        let endpoints = placed.endpoints(&self.root);
        self.placed.store(Arc::new((placed, endpoints)));
        Ok(())
    }

    /// The engine that has the endpoint of a request; `None`: the main one, or none.
    pub fn of_endpoint(&self, method: &Method, path: &str) -> Option<&Upstream> {
        self.of(self.placed.load().1.find(method, path))
    }

    /// The engine that runs a tab or node; `None`: the main one.
    pub fn of_element(&self, id: &str) -> Option<&Upstream> {
        self.of(self.placed.load().0.of_element(id))
    }

    /// The engine of the shard of this name; `None`: the main one.
    pub fn of(&self, name: &str) -> Option<&Upstream> {
        self.upstreams.get(name)
    }

    /// Which member runs each of them.
    pub fn leaders(&self) -> BTreeMap<String, String> {
        let leader = |(name, upstream): (&str, &Upstream)| {
            let leader = upstream.leader().unwrap_or(Leader::Nobody);
            (name.to_owned(), leader.to_string())
        };
        self.all().map(leader).collect()
    }

    /// The flows that they have stopped by themselves; one that does not answer has none.
    pub async fn stopped_flows(&self) -> Vec<Json> {
        let asked = self.upstreams.values().map(Upstream::flows_state);
        let states = join_all(asked).await;
        states
            .into_iter()
            .flatten()
            .flat_map(|state| state.stopped)
            .collect()
    }

    /// All of them, by the names of their shards.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Upstream)> {
        self.upstreams
            .iter()
            .map(|(name, upstream)| (name.as_str(), upstream))
    }
}
