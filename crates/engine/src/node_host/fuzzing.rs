//! Properties that hold for all bytes that a process may send, and for what is sent to it.

use super::authority::{Authority, Role};
use super::frame::{self, Frame};
use super::handles::Handles;
use super::received::Received;
use super::values::{Encoded, decode};
use flows::FlowSet;
use futures_util::FutureExt;
use value::Value;

/// The tab `t` with a foreign node, the tab `u` without one, and an instance on a third.
const FLOWS: &str = r#"[
    {"id":"t","type":"tab"},{"id":"u","type":"tab"},{"id":"f","type":"foreign","z":"t","x":1,"y":1,"wires":[]},
    {"id":"e","type":"exec","z":"u","x":1,"y":1,"wires":[]},{"id":"S","type":"subflow"},
    {"id":"g","type":"foreign","z":"S","x":1,"y":1,"wires":[]},
    {"id":"i","type":"subflow:S","z":"v","x":1,"y":1,"wires":[]}
]"#;

/// Reads bytes as the frames of a process. Checks that a value is not larger than its frame, that
/// it goes to the process and comes back as it was, and that a frame names nothing of others.
pub(crate) fn frames(data: &[u8]) {
    let authority = authority();
    let mut reader = data;
    while let Some(Ok(Some(frame))) = frame::read(&mut reader).now_or_never() {
        check(&frame, &authority);
    }
}

fn authority() -> Authority {
    let flows = FlowSet::parse(FLOWS.as_bytes()).unwrap_or_default();
    Authority::over(&flows, &|node| match node.kind.as_str() {
        "foreign" => Some(Role::Foreign),
        "subflow:S" => Some(Role::Instance),
        _ => None,
    })
}

fn check(frame: &Frame, authority: &Authority) {
    let Ok(received) = serde_json::from_str::<Received<'_>>(&frame.json) else {
        return;
    };
    let handles = Handles::default();
    for text in [received.message, received.content, received.value] {
        let text = text.map_or("null", |text| text.get());
        if let Ok(value) = decode(text, received.escaped, &frame.attachments, &handles) {
            assert!(value.extent().parts() as usize <= frame.size(), "{text}");
            returned(&value, &handles);
        }
    }
    let names = received.to.iter().chain(&received.node);
    for name in names.chain([&received.scope]) {
        if authority.role(name).is_some() {
            assert!(["f", "i", "i-g"].contains(&name.as_str()), "{name}");
        }
        if authority.context(name).is_some() {
            let flow = name.rsplit(':').next().unwrap_or_default();
            let of_packaged = flow.starts_with("f-") || flow.starts_with("i-g");
            let is_own = ["global", "t", "v", "i", "f"].contains(&flow) || of_packaged;
            assert!(is_own, "{name}");
        }
        assert!(!authority.covers_debug(name, "u", "u"), "{name}");
    }
}

/// Sends a value to the process and takes it back.
fn returned(value: &Value, handles: &Handles) {
    let mut encoded = Encoded::new(handles);
    if value.extent().is_too_deep() || encoded.value(value).is_err() {
        return;
    }
    let Ok(bytes) = frame::encode(&encoded.json, &encoded.attachments) else {
        return;
    };
    let read = frame::read(&mut &*bytes).now_or_never();
    let Some(Ok(Some(frame))) = read else {
        panic!("a frame that was written cannot be read");
    };
    let again = decode(&frame.json, encoded.escaped, &frame.attachments, handles);
    let Ok(again) = again else {
        panic!("a value that was sent cannot be read: {}", frame.json);
    };
    let mut second = Encoded::new(handles);
    assert!(second.value(&again).is_ok());
    assert_eq!(second.json, frame.json);
    assert_eq!(second.attachments, *frame.attachments);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_hold_for_frames_of_both_directions() {
        for json in [
            r#"{"t":"message","node":"f","to":["e","i-g"],"escaped":true,"message":{"a":{"$":"buffer","at":0,"length":3},"b":[1,{"$":"host","id":1}]}}"#,
            r#"{"t":"context","act":"get","scope":"e:u","key":"a"}"#,
            r#"{"t":"context","act":"set","scope":"g:i","key":"a","value":{"$":"number","value":"NaN"},"escaped":true}"#,
            r#"{"t":"status","node":"e","content":{"value":{"text":"x"}}}"#,
            "{",
        ] {
            let frame = frame::encode(json, b"abc").unwrap_or_default();
            frames(&[&frame[..], &frame[..7]].concat());
        }
    }
}
