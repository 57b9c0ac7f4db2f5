use super::*;
use crate::RunState;
use crate::context::Contexts;
use crate::http::Answer;
use crate::node::{BoxedNode, Closing, Node, boxed};
use crate::node_info::{Container, NodeInfo};
use crate::settings::Settings;
use crate::targets::Targets;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

struct Panics;

impl Node for Panics {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {
        panic!("boom");
    }
}

struct Counts(Rc<Cell<u32>>);

impl Node for Counts {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {
        self.0.set(self.0.get() + 1);
    }
}

struct NeverCloses;

impl Node for NeverCloses {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}

    fn close(&mut self, _removed: bool, _host: &mut Host<'_>) -> Option<Closing> {
        Some(Box::pin(std::future::pending()))
    }
}

fn thread(nodes: Vec<BoxedNode>) -> (Thread, mpsc::UnboundedReceiver<()>) {
    let config = Settings {
        close_timeout: Duration::from_millis(20),
        ..Settings::default()
    };
    let metrics: Arc<dyn Metrics> = Arc::new(crate::metrics::Uncounted);
    let mut shared = Shared::new(&config).0;
    shared.calls = limits::quota::Quota::new(1000, 1000);
    let shared = Arc::new(shared);
    let (node_events, _) = mpsc::unbounded_channel();
    let contexts = Contexts::default();
    let state = EngineState::new(
        config,
        &shared,
        0,
        contexts,
        node_events,
        Arc::clone(&metrics),
    );
    let (closed, closings) = mpsc::unbounded_channel();
    let mut thread = Thread::new(state, shared, 0, metrics, closed);
    thread.kinds.push((thread.metrics.node_type("test"), 0));
    for (node, number) in nodes.into_iter().zip(0u32..) {
        let container = Container {
            z: "t".into(),
            path: "t".into(),
            ..Container::default()
        };
        let info = Rc::new(NodeInfo::of(&format!("n{number}"), "test", container));
        thread.state.directory.insert(number, Rc::clone(&info));
        thread.slots.push(Some(Slot {
            node: Some(node),
            info,
            wires: Targets::default(),
            epoch: number,
            watched: false,
            config: false,
            kind: 0,
        }));
    }
    (thread, closings)
}

#[test]
fn a_panicking_node_is_removed_and_the_others_continue() {
    let count = Rc::new(Cell::new(0));
    let (mut thread, _closings) = thread(vec![boxed(Panics), boxed(Counts(Rc::clone(&count)))]);
    for slot in [0, 1, 0, 1] {
        thread.state.push(slot, Message::default());
    }
    thread.deliver();
    assert_eq!(count.get(), 2);
    assert_eq!(thread.running("n0"), None);
    assert_eq!(thread.running("n1"), Some(1));
}

#[test]
fn a_node_that_never_closes_delays_a_change_up_to_the_limit() {
    let (mut thread, mut closings) = thread(vec![boxed(NeverCloses)]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (request, changed) = ChangeRequest::alone(Change::Run(RunState::Stop));
        thread.begin_change(request);
        assert_eq!(thread.running("n0"), None, "nothing reaches a closing node");
        closings.recv().await.unwrap();
        let _ = thread.finish_change();
        changed.await.unwrap();
    });
    assert!(thread.slots.iter().all(Option::is_none));
}

/// Makes one message of each request, for the node beside it.
struct Endpoint;

impl Node for Endpoint {
    fn receive(&mut self, _message: Message, _host: &mut Host<'_>) {}

    fn wake(&mut self, _wake: Wake, host: &mut Host<'_>) {
        host.state.push(1, Message::default());
    }
}

/// The call of a client that waits for as long as the receiver is kept.
fn call(thread: &Thread) -> (Command, oneshot::Receiver<Result<Answer, Error>>) {
    let request = crate::http::Request {
        method: hyper::Method::GET,
        path: "/".to_owned(),
        url: "/".to_owned(),
        query: String::new(),
        params: Vec::new(),
        headers: hyper::HeaderMap::new(),
        body: bytes::Bytes::new(),
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        secure: false,
        user: None,
    };
    let (responder, answer) = crate::http::Responder::new(None);
    let mut permit = thread.shared.calls.grant(request.address);
    permit.try_grow(1).unwrap();
    let call = Command::Call {
        instance: Instance { slot: 0, epoch: 0 },
        exchange: Box::new(Exchange { request, responder }),
        permit,
    };
    (call, answer)
}

#[test]
fn requests_queue_while_messages_of_earlier_ones_are_pending() {
    let count = Rc::new(Cell::new(0));
    let (mut thread, _closings) = thread(vec![boxed(Endpoint), boxed(Counts(Rc::clone(&count)))]);
    let mut clients = Vec::new();
    for _ in 0..100 {
        let (call, client) = call(&thread);
        thread.command(call);
        clients.push(client);
    }
    thread.admit_calls(CALLS_AHEAD);
    assert_eq!(thread.state.queue.len(0), CALLS_AHEAD);
    assert_eq!(thread.calls.len(), 100 - CALLS_AHEAD);
    // A queue that never gets shorter does not keep the next request out.
    thread.admit_calls(CALLS_AHEAD);
    assert_eq!(thread.calls.len(), 99 - CALLS_AHEAD);
    while !thread.calls.is_empty() || !thread.state.queue.is_empty() {
        thread.admit_calls(CALLS_AHEAD);
        thread.deliver();
    }
    assert_eq!(count.get(), 100);
}

#[test]
fn requests_of_disconnected_clients_reach_no_node_and_hold_no_quota() {
    let count = Rc::new(Cell::new(0));
    let (mut thread, _closings) = thread(vec![boxed(Endpoint), boxed(Counts(Rc::clone(&count)))]);
    let places = Arc::clone(&thread.shared.calls);
    let free = |places: &Arc<limits::quota::Quota>, units: usize| {
        let mut grant = places.grant(std::net::Ipv4Addr::LOCALHOST.into());
        grant.try_grow(units).is_ok()
    };
    let mut clients = Vec::new();
    for n in 0..300 {
        let (call, client) = call(&thread);
        thread.command(call);
        clients.extend((n % 3 == 0).then_some(client));
    }
    assert!(!free(&places, 701));
    // Those that are gone give their places back wherever they wait.
    thread.calls.sweep(Instant::now());
    assert_eq!(thread.calls.len(), 100);
    assert!(free(&places, 900) && !free(&places, 901));
    clients.truncate(40);
    while !thread.calls.is_empty() || !thread.state.queue.is_empty() {
        thread.admit_calls(CALLS_AHEAD);
        thread.deliver();
    }
    assert_eq!(count.get(), 40);
    assert!(free(&places, 1000));
}

struct Repeats;

impl Node for Repeats {
    fn receive(&mut self, message: Message, host: &mut Host<'_>) {
        let slot = host.instance.slot;
        host.state.push(slot, message);
    }
}

#[test]
fn a_flow_with_many_messages_delays_others_by_one_round_at_most() {
    let count = Rc::new(Cell::new(0));
    let (mut thread, _closings) = thread(vec![boxed(Repeats), boxed(Counts(Rc::clone(&count)))]);
    thread.state.queue.regroup(vec![0, 1]);
    for _ in 0..20_000 {
        thread.state.push(0, Message::default());
    }
    thread.deliver();
    for expected in 1..4 {
        thread.state.push(1, Message::default());
        thread.deliver();
        thread.deliver();
        assert_eq!(count.get(), expected);
    }
}
