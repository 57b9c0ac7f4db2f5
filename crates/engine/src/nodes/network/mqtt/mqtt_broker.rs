//! `mqtt-broker`: one connection to a broker, shared by the mqtt nodes that refer to it.

use super::broker::{Broker, LogLine};
use super::settings::Options;
use crate::node::{BoxedNode, Build, Closing, Host, Level, Node, boxed};
use serde_json::{Map, Value as Json};
use smol_str::SmolStr;
use std::rc::Rc;
use value::{Failure, Message};

struct MqttBroker(Rc<Broker>);

pub(in crate::nodes) fn build(
    build: &Build<'_>,
    host: &mut Host<'_>,
) -> Result<BoxedNode, Failure> {
    let properties: Map<String, Json> = build.properties()?;
    let tls = properties.get("tls").and_then(Json::as_str).unwrap_or("");
    let uses_tls = properties.get("usetls") == Some(&Json::Bool(true));
    let tls = SmolStr::new(if uses_tls { tls } else { "" });
    let options = Options::new(
        properties,
        build.credentials.as_ref(),
        host.fresh_id().to_string(),
    );
    if options.lacks_client_id() {
        host.log(Level::Warn, "No client ID set, using clean session");
    }
    let broker = Broker::new(options, tls, host.config().mqtt_reconnect);
    Ok(boxed(MqttBroker(Rc::new(broker))))
}

impl Node<LogLine> for MqttBroker {
    fn start(&mut self, host: &mut Host<'_, LogLine>) {
        self.0.log_to(host.mailbox());
        host.publish(Rc::clone(&self.0));
    }

    fn receive(&mut self, _message: Message, _host: &mut Host<'_, LogLine>) {}

    fn event(&mut self, LogLine(line): LogLine, host: &mut Host<'_, LogLine>) {
        host.log(Level::Info, line);
    }

    fn close(&mut self, _removed: bool, _host: &mut Host<'_, LogLine>) -> Option<Closing> {
        Some(self.0.disconnect())
    }
}

impl Drop for MqttBroker {
    fn drop(&mut self) {
        self.0.abort();
    }
}
