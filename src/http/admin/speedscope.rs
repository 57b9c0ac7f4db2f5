//! A profile in the file format of speedscope: a sample for each node, as heavy as its time, on the
//! subflow instances around it, its tab and the engine.
//! <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>

use engine::profile::Profile;
use serde_json::{Value as Json, json};

/// The frames of all stacks, each once.
#[derive(Default)]
struct Frames(Vec<String>);

impl Frames {
    fn number(&mut self, name: String) -> usize {
        let known = self.0.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        })
    }
}

/// The file.
pub(super) fn file(profile: &Profile) -> Json {
    let mut frames = Frames::default();
    let engine = frames.number("engine".to_owned());
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for node in &profile.nodes {
        let tab = match node.flow.as_str() {
            "" => "global".to_owned(),
            _ => node.flow_label.clone(),
        };
        let name = if node.name.is_empty() {
            &node.id
        } else {
            &node.name
        };
        let node_name = format!("{name} ({})", node.kind);
        let above = [tab].into_iter().chain(node.path.iter().cloned());
        let numbers = above.chain([node_name]).map(|name| frames.number(name));
        samples.push([engine].into_iter().chain(numbers).collect::<Vec<_>>());
        weights.push(node.seconds);
    }
    if profile.others.nodes > 0 {
        let others = frames.number(format!("{} other nodes", profile.others.nodes));
        samples.push(vec![engine, others]);
        weights.push(profile.others.seconds);
    }
    let of_nodes: f64 = weights.iter().sum();
    samples.push(vec![engine]);
    weights.push((profile.busy_seconds - of_nodes).max(0.0));
    let frames: Vec<Json> = frames
        .0
        .into_iter()
        .map(|name| json!({ "name": name }))
        .collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("flowgate ", env!("CARGO_PKG_VERSION")),
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": format!("{:.1} s, {} messages", profile.seconds, profile.messages()),
            "unit": "seconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<f64>(),
            "samples": samples,
            "weights": weights,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::profile::{NodeUsage, Others};

    fn node(id: &str, name: &str, path: &[&str], seconds: f64) -> NodeUsage {
        NodeUsage {
            id: id.to_owned(),
            kind: "function".to_owned(),
            name: name.to_owned(),
            flow: "t".to_owned(),
            flow_label: "Orders".to_owned(),
            path: path.iter().map(|&name| name.to_owned()).collect(),
            messages: 10,
            outputs: vec![10],
            errors: 0,
            seconds,
        }
    }

    #[test]
    fn samples_are_nodes_on_their_instances_and_tab_as_heavy_as_their_time() {
        let profile = Profile {
            seconds: 10.0,
            busy_seconds: 4.0,
            waiting_messages: 0,
            nodes: vec![node("a", "Parse", &[], 2.0), node("b", "", &["Retry"], 1.0)],
            others: Others {
                nodes: 3,
                messages: 5,
                seconds: 0.5,
            },
        };
        let file = file(&profile);
        let names = [
            "engine",
            "Orders",
            "Parse (function)",
            "Retry",
            "b (function)",
        ];
        let frames = file["shared"]["frames"].as_array().into_iter().flatten();
        let found: Vec<&Json> = frames.map(|frame| &frame["name"]).collect();
        assert_eq!(found[..5], names);
        assert_eq!(found[5], "3 other nodes");
        let shown = &file["profiles"][0];
        assert_eq!(
            shown["samples"],
            json!([[0, 1, 2], [0, 1, 3, 4], [0, 5], [0]])
        );
        assert_eq!(shown["weights"], json!([2.0, 1.0, 0.5, 0.5]));
        assert_eq!(shown["endValue"], 4.0);
    }
}
