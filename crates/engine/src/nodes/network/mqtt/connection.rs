//! The connection of an `mqtt-broker` node: connects, signs in, keeps alive, acknowledges, and
//! reconnects when it is lost.
//!
//! Messages that are not acknowledged when the connection is lost are sent again on the next one.
//!
//! While the flow of a subscription is full, nothing is read, so that the broker receives no
//! acknowledgement and keeps its messages. Pings are still sent; their responses count as late only
//! after reading has begun again.

use super::application_message::{Publish, SubscriptionOptions};
use super::broker::{Broker, BrokerEvent, Order, Phase, Ticket};
use super::packet;
use super::session::{Session, due};
use super::settings::Settings;
use super::ws_stream;
use crate::node::{Host, Task};
use crate::nodes::network::connect::{self, Stream};
use crate::nodes::network::http::http_proxy;
use crate::nodes::network::tls::Trust;
use mqtt_protocol_core::mqtt::common::Cursor;
use mqtt_protocol_core::mqtt::connection::{Event, TimerKind};
use mqtt_protocol_core::mqtt::packet::{Packet, Property};
use mqtt_protocol_core::mqtt::prelude::PropertyValueAccess;
use mqtt_protocol_core::mqtt::result_code::{ConnectReasonCode, ConnectReturnCode, MqttError};
use mqtt_protocol_core::mqtt::{Connection, Version, role};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use value::Failure;

/// The time-out for connecting, and for signing in (MQTT.js' `connectTimeout`).
const TIMEOUT: Duration = Duration::from_secs(30);

/// Read at once.
const BUFFER: usize = 16 * 1024;

/// Connects a broker, and reconnects until it is disconnected. The ticket is completed at the first
/// connection.
pub(super) fn open(broker: &Rc<Broker>, host: &Host<'_, BrokerEvent>, ticket: Option<Ticket>) {
    let by_itself = ticket.is_none();
    let settings = broker.settings();
    let trust = match host.lookup(&broker.tls) {
        Some(tls) => Trust::Own(tls),
        None => Trust::Default(Rc::default(), settings.verify),
    };
    let (orders, receive) = mpsc::unbounded_channel();
    let connection = BrokerConnection::new(Rc::clone(broker), settings, trust, receive);
    let task = Task::run(connection.run(broker.reconnect, by_itself));
    broker.attach(orders, task, ticket);
}

/// A message that the broker has not acknowledged.
struct Pending {
    publish: Publish,
    ticket: Option<Ticket>,
    /// Why the broker refuses it.
    refused: Option<String>,
}

/// Why a session ended.
#[derive(PartialEq)]
enum End {
    /// We disconnected.
    Closed,
    Lost,
}

/// The state that outlives connections.
struct BrokerConnection {
    broker: Rc<Broker>,
    settings: Rc<Settings>,
    trust: Trust,
    orders: mpsc::UnboundedReceiver<Order>,
    connection: Connection<role::Client>,
    pending: BTreeMap<u16, Pending>,
    /// Waits for a connection, or for room in the broker's receive window.
    backlog: VecDeque<(Publish, Option<Ticket>)>,
    closing: Option<oneshot::Sender<()>>,
    session: Session,
}

impl BrokerConnection {
    fn new(
        broker: Rc<Broker>,
        settings: Rc<Settings>,
        trust: Trust,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let version = if settings.version == 5 {
            Version::V5_0
        } else {
            Version::V3_1_1
        };
        let mut connection = Connection::new(version);
        connection.set_auto_pub_response(true);
        let seconds = u64::from(settings.keep_alive.max(1));
        connection.set_pingresp_recv_timeout(seconds * 1000);
        Self {
            broker,
            settings,
            trust,
            orders,
            connection,
            pending: BTreeMap::new(),
            backlog: VecDeque::new(),
            closing: None,
            session: Session::default(),
        }
    }

    /// Connects and reconnects until [`Order::Close`]. `by_itself`: no message asked for the
    /// connection.
    async fn run(mut self, reconnect: Duration, by_itself: bool) {
        // Nodes that start with the broker have registered by then; their status is to show it.
        tokio::time::sleep(Duration::from_millis(1)).await;
        if by_itself {
            self.broker.enter(Phase::Connecting);
        }
        loop {
            let connected = tokio::time::timeout(TIMEOUT, self.connect()).await;
            if let Ok(Ok(stream)) = connected
                && self.session(stream).await == End::Closed
            {
                return;
            }
            if self.session.signed_in {
                self.broker.log("Disconnected from broker");
                self.broker.enter(Phase::Disconnected);
            } else {
                self.broker.log("Connection failed to broker");
            }
            self.lost();
            tokio::time::sleep(reconnect).await;
            self.broker.enter(Phase::Connecting);
        }
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let address = &self.settings.address;
        // As in Node-RED, only a WebSocket goes through a proxy of the environment.
        let gate = match &address.websocket {
            Some(url) => http_proxy::gate(url, None).map_err(Failure::error)?,
            None => None,
        };
        let tls = address.secure.then(|| self.trust.tls());
        let stream = connect::open(gate.as_ref(), &address.host, address.port, tls).await?;
        match &address.websocket {
            None => Ok(stream),
            Some(url) => ws_stream::over(stream, url, "mqtt").await,
        }
    }

    /// Queues what was not acknowledged for the next connection, unless the library does.
    fn lost(&mut self) {
        self.session = Session::default();
        for event in self.connection.notify_closed() {
            if let Event::NotifyPacketIdReleased(id) = event {
                self.requeue(id);
            }
        }
    }

    fn requeue(&mut self, id: u16) {
        if let Some(pending) = self.pending.remove(&id) {
            self.backlog.push_back((pending.publish, pending.ticket));
        }
    }

    async fn session(&mut self, stream: Stream) -> End {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let Ok(connect) = packet::connect(&self.settings) else {
            return End::Lost;
        };
        let events = self.connection.send(connect);
        self.take(events);
        let mut buffer = vec![0; BUFFER];
        let late = tokio::time::sleep(TIMEOUT);
        tokio::pin!(late);
        loop {
            if !self.session.out.is_empty() {
                let out = std::mem::take(&mut self.session.out);
                if writer.write_all(&out).await.is_err() || writer.flush().await.is_err() {
                    return End::Lost;
                }
            }
            if self.session.over {
                return End::Lost;
            }
            if self.pending.is_empty()
                && self.backlog.is_empty()
                && let Some(done) = self.closing.take()
            {
                self.disconnect(&mut writer).await;
                // The caller may have stopped waiting.
                let _ = done.send(());
                return End::Closed;
            }
            let signed_in = self.session.signed_in;
            let paused = signed_in && self.broker.is_full();
            tokio::select! {
                read = reader.read(&mut buffer), if !paused => match read {
                    Ok(count) if count > 0 => self.read(&buffer[..count]).await,
                    _ => return End::Lost,
                },
                () = self.broker.full(), if !paused => {}
                () = self.broker.room(), if paused => self.session.extend_pong(&self.settings),
                Some(order) = self.orders.recv(), if signed_in => self.execute(order),
                () = due(&mut self.session.ping) => self.fired(TimerKind::PingreqSend),
                () = due(&mut self.session.pong), if !paused => self.fired(TimerKind::PingrespRecv),
                () = &mut late, if !signed_in => return End::Lost,
            }
        }
    }

    async fn disconnect(&mut self, writer: &mut (impl AsyncWriteExt + Unpin)) {
        if let Ok(packet) = packet::disconnect(self.settings.version) {
            let bytes = packet::encode(&packet, self.settings.version);
            // The other end may be gone already, which is where this leads.
            let _ = writer.write_all(&bytes).await;
        }
        let _ = writer.shutdown().await;
    }

    fn fired(&mut self, kind: TimerKind) {
        match kind {
            TimerKind::PingreqSend => self.session.ping = None,
            _ => self.session.pong = None,
        }
        let events = self.connection.notify_timer_fired(kind);
        self.take(events);
    }

    async fn read(&mut self, bytes: &[u8]) {
        let mut cursor = Cursor::new(bytes);
        while cursor.position() < bytes.len() as u64 && !self.session.over {
            let events = self.connection.recv(&mut cursor);
            self.take(events);
        }
        self.catch_up();
        // The engine delivers the messages before more is read.
        tokio::task::yield_now().await;
    }

    /// Does what the library asks for.
    fn take(&mut self, events: Vec<Event>) {
        let signs_in = events.iter().any(|event| {
            matches!(
                event,
                Event::NotifyPacketReceived(Packet::V3_1_1Connack(_) | Packet::V5_0Connack(_))
            )
        });
        for event in events {
            match event {
                Event::RequestSendPacket { packet, .. } => {
                    let bytes = packet::encode(&packet, self.settings.version);
                    self.session.out.extend_from_slice(&bytes);
                }
                Event::NotifyPacketReceived(packet) => self.received(&packet),
                // The broker has dropped the session: messages that it had not acknowledged are
                // sent again.
                Event::NotifyPacketIdReleased(id) if signs_in => self.requeue(id),
                Event::NotifyPacketIdReleased(id) => self.acknowledged(id),
                Event::RequestTimerReset { kind, duration_ms } => {
                    let sleep = tokio::time::sleep(Duration::from_millis(duration_ms));
                    *self.timer(kind) = Some(Box::pin(sleep));
                }
                Event::RequestTimerCancel(kind) => *self.timer(kind) = None,
                Event::NotifyError(error) => {
                    tracing::debug!(target: "flow", "mqtt: {error:?}");
                }
                Event::RequestClose => self.session.over = true,
            }
        }
    }

    fn timer(&mut self, kind: TimerKind) -> &mut Option<Pin<Box<Sleep>>> {
        match kind {
            TimerKind::PingreqSend => &mut self.session.ping,
            _ => &mut self.session.pong,
        }
    }

    fn received(&mut self, packet: &Packet) {
        match packet {
            Packet::V3_1_1Connack(connack) => {
                if connack.return_code() == ConnectReturnCode::Accepted {
                    self.signed_in(&[]);
                } else {
                    self.session.over = true;
                }
            }
            Packet::V5_0Connack(connack) => {
                if connack.reason_code() == ConnectReasonCode::Success {
                    self.signed_in(connack.props());
                } else {
                    self.session.over = true;
                }
            }
            Packet::V5_0Puback(ack) => {
                let reason = ack.reason_code().map(|r| (r as u8, format!("{r:?}")));
                self.refused(ack.packet_id(), reason);
            }
            Packet::V5_0Pubrec(ack) => {
                let reason = ack.reason_code().map(|r| (r as u8, format!("{r:?}")));
                self.refused(ack.packet_id(), reason);
            }
            Packet::V5_0Disconnect(_) => self.session.over = true,
            other => {
                if let Some(received) = packet::received(other) {
                    self.broker.deliver(received);
                }
            }
        }
    }

    fn refused(&mut self, id: u16, reason: Option<(u8, String)>) {
        // Codes from 128 are failures (OASIS MQTT 5.0 §2.4).
        if let Some((_, words)) = reason.filter(|(code, _)| *code >= 128)
            && let Some(pending) = self.pending.get_mut(&id)
        {
            pending.refused = Some(words);
        }
    }

    fn acknowledged(&mut self, id: u16) {
        let Some(Pending {
            ticket, refused, ..
        }) = self.pending.remove(&id)
        else {
            return;
        };
        if let Some(ticket) = ticket {
            ticket.complete(match refused {
                Some(words) => Err(Failure::error(format!("Publish error: {words}"))),
                None => Ok(()),
            });
        }
    }

    fn signed_in(&mut self, properties: &[Property]) {
        self.session.signed_in = true;
        self.session.numbers = self.settings.version == 5;
        for property in properties {
            match property {
                Property::TopicAliasMaximum(_) => {
                    self.session.most_aliases = property.as_u16().unwrap_or(0);
                }
                Property::SubscriptionIdentifierAvailable(_) => {
                    self.session.numbers &= property.as_u8() != Some(0);
                }
                _ => {}
            }
        }
        self.broker.log("Connected to broker");
        self.broker.enter(Phase::Connected);
        for (topic, options) in self.broker.subscriptions() {
            self.subscribe(&topic, &options);
        }
        if let Some(birth) = self.settings.birth.clone() {
            self.backlog.push_back((birth, None));
        }
    }

    fn execute(&mut self, order: Order) {
        match order {
            Order::Publish(publish, ticket) => {
                self.backlog.push_back((publish, ticket));
                self.catch_up();
            }
            Order::Subscribe(topic, options) => self.subscribe(&topic, &options),
            Order::Unsubscribe(topic) => {
                if let Ok(id) = self.connection.acquire_packet_id()
                    && let Ok(packet) = packet::unsubscribe(&topic, self.settings.version, id)
                {
                    let events = self.connection.send(packet);
                    self.take(events);
                }
            }
            Order::Close(done) => self.closing = Some(done),
        }
    }

    fn subscribe(&mut self, topic: &str, options: &SubscriptionOptions) {
        let subscription = packet::Subscription {
            topic,
            options,
            number: self.session.numbers.then(|| self.broker.number(topic)),
        };
        let version = self.settings.version;
        if let Ok(id) = self.connection.acquire_packet_id()
            && let Ok(packet) = packet::subscribe(subscription, version, id)
        {
            let events = self.connection.send(packet);
            self.take(events);
        }
    }

    /// Publishes what waits, as far as the broker has room for it.
    fn catch_up(&mut self) {
        while self.session.signed_in && !self.session.over {
            let full = self.connection.get_receive_maximum_vacancy_for_send() == Some(0);
            match self.backlog.front() {
                Some((publish, _)) if publish.qos == 0 || !full => {}
                _ => return,
            }
            if let Some((publish, ticket)) = self.backlog.pop_front() {
                self.publish(publish, ticket);
            }
        }
    }

    fn publish(&mut self, publish: Publish, ticket: Option<Ticket>) {
        let id = if publish.qos == 0 {
            None
        } else {
            let Ok(id) = self.connection.acquire_packet_id() else {
                return self.backlog.push_front((publish, ticket));
            };
            Some(id)
        };
        let mut wire = publish.clone();
        self.session.shorten(&mut wire);
        let events = packet::publish(&wire, self.settings.version, id, false)
            .map(|packet| self.connection.send(packet));
        let wrong = match &events {
            Ok(events) => events.iter().find_map(|event| match event {
                Event::NotifyError(error) => Some(words(*error)),
                _ => None,
            }),
            Err(error) => Some(words(*error)),
        };
        match (id, wrong) {
            (Some(id), None) => {
                let refused = None;
                let pending = Pending {
                    publish,
                    ticket,
                    refused,
                };
                self.pending.insert(id, pending);
            }
            (_, wrong) => {
                if let Some(ticket) = ticket {
                    ticket.complete(wrong.map_or(Ok(()), |w| Err(Failure::error(w))));
                }
            }
        }
        self.take(events.unwrap_or_default());
    }
}

fn words(error: MqttError) -> String {
    format!("Publish error: {error:?}")
}
