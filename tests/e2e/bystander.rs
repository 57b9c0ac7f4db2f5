//! What a well-behaved client has to wait while others misbehave, beside what it waits at a gateway
//! that has nothing else to do: machines that run tests are busy with other tests, too.

use crate::harness::Gateway;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What it may have to wait, of a hundred requests the slowest but one. 50 ms is what is promised
/// of a machine that does nothing else.
const BEARABLE: Duration = Duration::from_millis(250);

/// Or so many times what it waits at the other gateway in the meantime.
const BESIDE: u32 = 5;

/// As many requests at least.
const ENOUGH: usize = 20;

/// The waiting times at the gateway, and at the other one.
#[derive(Default)]
pub struct Waits {
    here: Vec<Duration>,
    beside: Vec<Duration>,
}

impl Waits {
    /// Asserts that the client was served.
    pub fn assert_bearable(mut self, meanwhile: &str) {
        let [here, beside] = [&mut self.here, &mut self.beside].map(|times| {
            times.sort_unstable();
            assert!(
                times.len() > 10,
                "only {} requests {meanwhile}",
                times.len()
            );
            times[times.len() * 99 / 100]
        });
        assert!(
            here < BEARABLE.max(beside * BESIDE),
            "{here:?} {meanwhile}, {beside:?} at an idle gateway"
        );
    }
}

/// `GET path` at the gateway, which answers 200, and a request to an idle gateway, by turns while
/// something goes on.
pub async fn waits(gateway: &Gateway, path: &str, going_on: impl Future) -> Waits {
    let idle = Gateway::start();
    let mut here = gateway.connect(false).await.unwrap();
    let mut beside = idle.connect(false).await.unwrap();
    let mut waits = Waits::default();
    let is_over = Cell::new(false);
    let going_on = async {
        going_on.await;
        is_over.set(true);
    };
    let asking = async {
        while !is_over.get() || waits.here.len() < ENOUGH {
            let began = Instant::now();
            let answer = here.send(gateway.get(path)).await.unwrap();
            assert_eq!(answer.status, 200);
            waits.here.push(began.elapsed());
            let began = Instant::now();
            beside.send(idle.get("/auth/login")).await.unwrap();
            waits.beside.push(began.elapsed());
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(going_on, asking);
    waits
}
