//! Paths that widely used node packages add to Node-RED's admin API (`RED.httpAdmin`).
//!
//! If the admin API has a root of its own (`httpAdminRoot`), every path below it belongs to the
//! admin API, and this table is not needed. Otherwise an admin path looks like an endpoint of a
//! flow; these are the ones that can be distinguished. The table cannot be complete: a separate
//! `httpAdminRoot` is the safe set-up.

/// First segments, in lower case; a `*` at the end matches any rest of the segment. With a second
/// segment only paths that have that too are meant.
const PACKAGES: [(&str, &str); 22] = [
    // @flowfuse/node-red-dashboard: `PATCH /dashboard/api/v1/:id/flows` deploys. Its pages stand
    // beside, at /dashboard.
    ("dashboard", "api"),
    // node-red-dashboard
    ("ui_base", ""),
    ("uisettings", ""),
    // FlowFuse's plugins
    ("flowforge-*", ""),
    ("flowfuse-*", ""),
    ("nr-assistant", ""),
    // node-red-node-serialport
    ("serialports", ""),
    // node-red-contrib-modbus
    ("modbus", ""),
    // node-red-contrib-home-assistant-websocket
    ("homeassistant", ""),
    // node-red-contrib-homekit-bridged
    ("nrchkb", ""),
    // node-red-contrib-huemagic
    ("hue", ""),
    // node-red-contrib-knx-ultimate
    ("knxultimate*", ""),
    // node-red-contrib-opcua and node-red-contrib-iiot-opcua
    ("opcua*", ""),
    // node-red-contrib-openzwave and node-red-contrib-zwave-js
    ("openzwave*", ""),
    ("zwave*", ""),
    // node-red-contrib-zigbee2mqtt
    ("zigbee2mqtt", ""),
    // node-red-contrib-deconz
    ("deconz", ""),
    // node-red-contrib-s7
    ("s7-*", ""),
    // node-red-node-sqlite and its kin, brokers of MQTT
    ("sqlite*", ""),
    ("mqtt-*", ""),
    // node-red-contrib-alexa-remote2
    ("alexa-remote*", ""),
    // node-red-contrib-flow-manager
    ("flow-manager", ""),
];

/// Returns whether a package adds this path of the admin API, given in lower case from its root.
pub(super) fn is_package_path(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    let first = segments.next().unwrap_or_default();
    let second = segments.next().unwrap_or_default();
    let named = |(name, below): &(&str, &str)| {
        let same = match name.strip_suffix('*') {
            Some(begin) => first.starts_with(begin),
            None => first == *name,
        };
        same && (below.is_empty() || second == *below)
    };
    // Most paths begin as few entries do or none.
    let byte = first.bytes().next();
    let mut entries = PACKAGES.iter();
    entries.any(|entry| entry.0.bytes().next() == byte && named(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_paths_are_recognized_by_their_first_segments() {
        for path in [
            "/serialports",
            "/serialports/x",
            "/dashboard/api",
            "/dashboard/api/v1/d1/flows",
            "/uisettings",
            "/knxultimatedpts",
            "/zwave-js/fetch-driver-status",
        ] {
            assert!(is_package_path(path), "{path}");
        }
        for path in [
            "/",
            "/dashboard",
            "/dashboard/page1",
            "/serialport",
            "/my/serialports",
            "/hues",
            "/x",
        ] {
            assert!(!is_package_path(path), "{path}");
        }
    }

    #[test]
    fn the_table_is_in_lower_case_and_names_no_path_twice() {
        for (n, (name, below)) in PACKAGES.iter().enumerate() {
            assert_eq!(name.to_ascii_lowercase(), *name);
            assert!(!name.trim_end_matches('*').is_empty());
            assert!(!PACKAGES[..n].contains(&(name, below)), "{name}");
        }
    }
}
