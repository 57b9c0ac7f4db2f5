//! `mqtt in`, `mqtt out` and `mqtt-broker`.

mod application_message;
mod broker;
mod client;
mod connection;
pub(in crate::nodes) mod mqtt_broker;
pub(in crate::nodes) mod mqtt_in;
pub(in crate::nodes) mod mqtt_out;
mod packet;
mod payload;
mod session;
mod settings;
mod topic;
mod ws_stream;
