//! A profile as a flame graph: the engine, its tabs, the subflow instances in them, their nodes, each as wide as its time.
//!
//! The crate `inferno` draws flame graphs too, under a licence (CDDL) that `deny.toml` does not allow, and with a script
//! in each, which a response of the gateway must not have.

use engine::profile::{NodeUsage, Profile};
use std::fmt::Write;

/// Pixels of the drawing's width, of a frame's height, and of a character of its label.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 20.0;
const CHARACTER: f64 = 7.3;
/// Frames narrower than this are left out: they cannot be seen.
const MIN_WIDTH: f64 = 0.2;

/// A box of the graph.
struct Frame {
    /// What distinguishes it from those beside it.
    key: String,
    label: String,
    /// What decides its colour: nodes of a type are alike.
    kind: String,
    seconds: f64,
    messages: u64,
    /// Those on top of it.
    children: Vec<Frame>,
}

impl Frame {
    fn new(key: &str, label: &str, kind: &str) -> Self {
        Self {
            key: key.to_owned(),
            label: label.to_owned(),
            kind: kind.to_owned(),
            seconds: 0.0,
            messages: 0,
            children: Vec::new(),
        }
    }

    /// The frame with this key on top of this one.
    fn child(&mut self, key: &str, label: &str, kind: &str) -> &mut Self {
        let known = self.children.iter().position(|child| child.key == key);
        let at = known.unwrap_or(self.children.len());
        if known.is_none() {
            self.children.push(Self::new(key, label, kind));
        }
        &mut self.children[at]
    }

    fn add(&mut self, seconds: f64, messages: u64) {
        self.seconds += seconds;
        self.messages += messages;
    }

    /// The number of frames above one another.
    fn height(&self) -> f64 {
        1.0 + self.children.iter().map(Self::height).fold(0.0, f64::max)
    }
}

/// Draws a profile as SVG, without scripts and styles.
pub(super) fn draw(profile: &Profile) -> String {
    let root = tree(profile);
    let mut drawing = Drawing {
        svg: String::new(),
        height: (root.height() + 1.0) * ROW,
        scale: if root.seconds > 0.0 {
            WIDTH / root.seconds
        } else {
            0.0
        },
        total: root.seconds,
    };
    let height = drawing.height;
    drawing.line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"4\" y=\"14\">{:.1} s, engine busy {:.1} s, {} messages</text>",
        profile.seconds, profile.busy_seconds, profile.messages(),
    ));
    drawing.frame(&root, 0.0, 1.0);
    drawing.svg.push_str("</svg>\n");
    drawing.svg
}

/// The frames, with the engine at the bottom; the part of it that has nothing on top is no node's.
fn tree(profile: &Profile) -> Frame {
    let mut root = Frame::new("", "engine", "");
    root.add(profile.busy_seconds, profile.messages());
    for node in &profile.nodes {
        let mut at = match node.flow.as_str() {
            "" => root.child("", "global", "tab"),
            flow => root.child(flow, &node.flow_label, "tab"),
        };
        at.add(node.seconds, node.messages);
        for instance in &node.path {
            at = at.child(instance, instance, "subflow");
            at.add(node.seconds, node.messages);
        }
        // A node may have the name of an instance.
        let key = format!("node {}", node.id);
        at.child(&key, &label(node), &node.kind)
            .add(node.seconds, node.messages);
    }
    if profile.others.nodes > 0 {
        let label = format!("{} other nodes", profile.others.nodes);
        let others = root.child("others", &label, "");
        others.add(profile.others.seconds, profile.others.messages);
    }
    root
}

fn label(node: &NodeUsage) -> String {
    let name = if node.name.is_empty() {
        &node.id
    } else {
        &node.name
    };
    format!("{name} ({})", node.kind)
}

struct Drawing {
    svg: String,
    height: f64,
    /// Pixels of a second.
    scale: f64,
    /// Seconds of the whole.
    total: f64,
}

impl Drawing {
    /// A frame from `x` on, in a row counted from the bottom, and those on top of it.
    fn frame(&mut self, frame: &Frame, x: f64, row: f64) {
        let width = frame.seconds * self.scale;
        if width < MIN_WIDTH {
            return;
        }
        let (label, fill) = (escaped(&frame.label), colour(&frame.kind));
        let (y, share) = (self.height - row * ROW, 100.0 * frame.seconds / self.total);
        let (seconds, messages) = (frame.seconds, frame.messages);
        self.line(format_args!(
            "<g><title>{label}: {seconds:.3} s, {share:.1} %, {messages} messages</title>\
             <rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{fill}\" stroke=\"white\"/>"
        ));
        let shown = shortened(&frame.label, width);
        let (left, baseline, shown) = (x + 4.0, y + 14.0, escaped(&shown));
        self.line(format_args!(
            "<text x=\"{left:.1}\" y=\"{baseline}\">{shown}</text></g>"
        ));
        let mut left = x;
        for child in &frame.children {
            self.frame(child, left, row + 1.0);
            left += child.seconds * self.scale;
        }
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let _ = writeln!(self.svg, "{text}");
    }
}

/// As much of a label as a frame has room for.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most some hundred characters"
)]
fn shortened(label: &str, width: f64) -> String {
    let room = ((width - 8.0) / CHARACTER).max(0.0) as usize;
    if label.chars().count() <= room {
        return label.to_owned();
    }
    match room {
        0..3 => String::new(),
        _ => label.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// A warm colour; the same for the same kind.
fn colour(kind: &str) -> String {
    let sum = kind
        .bytes()
        .fold(7u32, |sum, byte| (sum * 31 + u32::from(byte)) % 997);
    format!("hsl({},{}%,{}%)", sum % 60, 70 + sum % 20, 62 + sum % 12)
}

/// A text as XML (1.0, §2.2): a name is what its author wrote.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::profile::Others;

    fn node(id: &str, name: &str, path: &[&str], seconds: f64) -> NodeUsage {
        NodeUsage {
            id: id.to_owned(),
            kind: "function".to_owned(),
            name: name.to_owned(),
            flow: "t".to_owned(),
            flow_label: "Orders & more".to_owned(),
            path: path.iter().map(|&name| name.to_owned()).collect(),
            messages: 10,
            outputs: vec![10],
            errors: 0,
            seconds,
        }
    }

    fn profile(nodes: Vec<NodeUsage>) -> Profile {
        Profile {
            seconds: 10.0,
            busy_seconds: 4.0,
            waiting_messages: 0,
            nodes,
            others: Others {
                nodes: 3,
                messages: 5,
                seconds: 0.5,
            },
        }
    }

    #[test]
    fn frames_are_as_wide_as_their_time_and_stand_on_their_flow() {
        let nodes = vec![node("a", "Parse", &[], 2.0), node("b", "", &["Retry"], 1.0)];
        let root = tree(&profile(nodes));
        let [tab, others] = root.children.as_slice() else {
            panic!("a tab and the others")
        };
        assert_eq!(
            (tab.label.as_str(), tab.seconds, tab.messages),
            ("Orders & more", 3.0, 20)
        );
        assert_eq!(
            (others.label.as_str(), others.seconds),
            ("3 other nodes", 0.5)
        );
        let [parse, retry] = tab.children.as_slice() else {
            panic!("a node and an instance")
        };
        assert_eq!(
            (parse.label.as_str(), parse.seconds),
            ("Parse (function)", 2.0)
        );
        assert_eq!((retry.label.as_str(), retry.seconds), ("Retry", 1.0));
        assert_eq!(retry.children[0].label, "b (function)");

        let nodes = vec![node("a", "Parse", &[], 2.0), node("b", "", &["Retry"], 1.0)];
        let svg = draw(&profile(nodes));
        assert!(svg.contains("<title>engine: 4.000 s, 100.0 %, 25 messages</title><rect x=\"0.0\" y=\"80\" width=\"1200.0\""), "{svg}");
        assert!(
            svg.contains("<title>Orders &amp; more: 3.000 s, 75.0 %"),
            "{svg}"
        );
        assert!(
            svg.contains("<rect x=\"600.0\" y=\"40\" width=\"300.0\""),
            "{svg}"
        );
    }

    #[test]
    fn names_cannot_add_markup() {
        let name = "</title><script>alert('1')</script>&\"\u{0}\u{1b}";
        let svg = draw(&profile(vec![node(name, name, &[name], 2.0)]));
        assert!(
            !svg.contains("<script") && !svg.contains(['\u{0}', '\u{1b}']),
            "{svg}"
        );
        assert!(svg.contains("&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\u{fffd}\u{fffd}"));
    }

    #[test]
    fn an_idle_engine_is_a_drawing_too() {
        let mut idle = profile(Vec::new());
        (idle.busy_seconds, idle.others) = (0.0, Others::default());
        let svg = draw(&idle);
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"),
            "{svg}"
        );
    }

    #[test]
    fn a_label_is_shortened_to_its_frame() {
        assert_eq!(shortened("Parse (function)", 200.0), "Parse (function)");
        assert_eq!(shortened("Parse (function)", 60.0), "Parse …");
        assert_eq!(shortened("Parse", 20.0), "");
    }
}
