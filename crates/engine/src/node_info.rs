//! The data about a running node: its ids, its type and name, what it is in, its environment
//! variables.

use crate::env::Env;
use flows::Node;
use smol_str::SmolStr;
use std::rc::Rc;
use std::sync::Arc;
use value::Value;

/// The data about a running node; the same for as long as it runs.
#[derive(Debug)]
pub struct NodeInfo {
    /// Id in the running graph (`<instance>-<template>` inside a subflow).
    pub id: SmolStr,
    /// Its element in the flow set with which it was started: a node that is only moved is not
    /// started again.
    pub node: Arc<Node>,
    /// `name`, if the node has that property; it may be empty.
    pub name: Option<SmolStr>,
    /// What it is in.
    pub container: Rc<Container>,
}

/// What a running node is in; all nodes of a flow that are in the same group share it.
#[derive(Debug, Default)]
pub struct Container {
    /// Id of the tab or subflow instance, whose `flow` context its nodes have; empty for global
    /// config nodes.
    pub z: SmolStr,
    /// Ids from the tab down, joined by `/`: `T1` or `T1/I`.
    pub path: SmolStr,
    /// The groups around its nodes, inner first.
    pub groups: Rc<[SmolStr]>,
    /// The environment variables of its nodes, inner scopes first.
    pub env: Rc<Env>,
}

impl NodeInfo {
    /// The data about something that no flow set has, as if it were a node.
    pub fn of(id: &str, kind: &str, container: Container) -> Self {
        let node = Node {
            id: id.into(),
            kind: kind.into(),
            ..Node::default()
        };
        Self {
            id: node.id.clone(),
            node: Arc::new(node),
            name: None,
            container: Rc::new(container),
        }
    }

    /// Id in the flow set; the same as `id` outside subflows.
    pub fn alias(&self) -> &SmolStr {
        &self.node.id
    }

    /// `type`.
    pub fn kind(&self) -> &SmolStr {
        &self.node.kind
    }

    /// A variable as this node sees it: its own `NR_NODE_*` first, then the scopes around it
    /// (docs/reference/node-red-engine.md §2.5).
    pub fn env(&self, name: &str) -> Value {
        match name {
            "NR_NODE_ID" => Value::String(self.id.clone()),
            "NR_NODE_NAME" => Value::from(self.name.clone()),
            "NR_NODE_PATH" => Value::from(format!("{}/{}", self.container.path, self.alias())),
            _ => self.container.env.lookup(name),
        }
    }
}
