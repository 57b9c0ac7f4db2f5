//! Watched operations while a session ends, in every order: they end too, and nothing is done after
//! the end has returned.

use super::auth_watch::{AuthWatch, Grant, Lapsed};
use super::*;
use shuttle::future::block_on;
use shuttle::sync::{Mutex, RwLock};
use std::cell::Cell;
use std::task::{Context, Poll, Waker};

thread_local!(static CLOCK: Cell<u64> = const { Cell::new(NOW) });

/// All threads of shuttle are one of the system's.
fn clock() -> Duration {
    Duration::from_secs(CLOCK.get())
}

/// A resource whose route may need something else after a reload.
#[derive(Clone)]
struct Resource {
    registry: Arc<Registry>,
    needs: Arc<RwLock<&'static str>>,
}

impl Grant for Resource {
    fn registry(&self) -> Option<&Registry> {
        Some(&self.registry)
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        let needs = *self.needs.read().unwrap();
        let may = caller
            .as_ref()
            .is_some_and(|caller| caller.permissions.cover(needs));
        may.then_some(caller).ok_or(Lapsed::Permission)
    }
}

impl Resource {
    fn with(users: &[UserSpec]) -> Self {
        CLOCK.set(NOW);
        let registry = registry(users);
        registry.admit(session(1, ANN)).unwrap();
        Self {
            registry,
            needs: Arc::new(RwLock::new("flows.write")),
        }
    }

    /// *Identify* and *authorize*, in the order of a request.
    fn enter(&self) -> Option<AuthWatch<Resource>> {
        let generation = self.registry.generation();
        let caller = self.registry.identify(&[1; 32], CLOCK.get());
        let caller = self.narrowed(caller).ok()?;
        Some(AuthWatch::new(caller, self.clone(), generation, clock))
    }
}

/// The ways to lose an authorization; `lapse` gives the error of each.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    Revocation,
    Removal,
    Password,
    Permission,
    Route,
    Expiry,
}

const LOSSES: [Loss; 6] = [
    Loss::Revocation,
    Loss::Removal,
    Loss::Password,
    Loss::Permission,
    Loss::Route,
    Loss::Expiry,
];

impl Loss {
    fn happens(self, resource: &Resource) {
        match self {
            Self::Revocation => revoke(&resource.registry, 1),
            Self::Removal => drop(resource.registry.reload(users(&[BOB]))),
            Self::Password => drop(resource.registry.reload(users(&[("ann", "*", "other")]))),
            Self::Permission => drop(resource.registry.reload(users(&[(
                "ann",
                "flows.read",
                "a",
            )]))),
            Self::Route => {
                resource
                    .registry
                    .reload(users(&[("ann", "flows.write", "a")]));
                *resource.needs.write().unwrap() = "other.write";
                resource.registry.changed();
            }
            Self::Expiry => {
                CLOCK.set(END);
                resource.registry.tick(END);
            }
        }
    }

    fn lapse(self) -> Lapsed {
        match self {
            Self::Permission | Self::Route => Lapsed::Permission,
            Self::Revocation | Self::Removal | Self::Password | Self::Expiry => Lapsed::Session,
        }
    }
}

/// In every order, for each loss.
fn for_each_loss(story: impl Fn(Loss) + Send + Sync + Copy + 'static) {
    for loss in LOSSES {
        shuttle::check_random(move || story(loss), ORDERS / 2);
    }
}

#[test]
fn an_idle_stream_and_a_tunnel_are_woken_by_every_authorization_loss() {
    for_each_loss(|loss| {
        let resource = Resource::with(&[ANN, BOB]);
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let mut watch = resource.enter().unwrap();
                // Shuttle reports a wait without end as a deadlock.
                thread::spawn(move || block_on(watch.lapsed()))
            })
            .collect();
        let other = resource.clone();
        let losing = thread::spawn(move || loss.happens(&other));
        for waiting in waiting {
            assert_eq!(waiting.join().unwrap(), loss.lapse(), "{loss:?}");
        }
        losing.join().unwrap();
    });
}

#[test]
fn no_chunk_of_a_stream_passes_after_an_authorization_loss() {
    for_each_loss(|loss| {
        let resource = Resource::with(&[ANN, BOB]);
        let returned = Arc::new(AtomicBool::new(false));
        let mut watch = resource.enter().unwrap();
        let is_late = Arc::clone(&returned);
        let streaming = thread::spawn(move || {
            for _ in 0..4 {
                let late = is_late.load(Ordering::SeqCst);
                let passes = watch.glance().is_ok();
                assert!(!(late && passes), "{loss:?}: a piece passes");
                if !passes {
                    return;
                }
            }
        });
        loss.happens(&resource);
        returned.store(true, Ordering::SeqCst);
        streaming.join().unwrap();
    });
}

#[test]
fn no_deployment_begins_after_an_authorization_loss_despite_lock_contention() {
    for_each_loss(|loss| {
        let resource = Resource::with(&[ANN, BOB]);
        let lock = Arc::new(Mutex::new(()));
        let returned = Arc::new(AtomicBool::new(false));
        let deploying: Vec<_> = (0..2)
            .map(|_| {
                let (resource, lock) = (resource.clone(), Arc::clone(&lock));
                let returned = Arc::clone(&returned);
                thread::spawn(move || {
                    // The request; one that comes too late is refused.
                    let late = returned.load(Ordering::SeqCst);
                    let watch = resource.enter();
                    assert!(!late || watch.is_none(), "{loss:?}: he is let in");
                    let Some(watch) = watch else { return };
                    let mut watch = watch.detached();
                    // The deployment, in a task of its own.
                    let _turn = lock.lock().unwrap();
                    let late = returned.load(Ordering::SeqCst);
                    let deploys = watch.check();
                    assert!(
                        !late || deploys == Err(loss.lapse()),
                        "{loss:?}: he deploys"
                    );
                })
            })
            .collect();
        loss.happens(&resource);
        returned.store(true, Ordering::SeqCst);
        for deploying in deploying {
            deploying.join().unwrap();
        }
    });
}

#[test]
fn a_watch_may_change_tasks_or_be_dropped_while_it_is_woken() {
    for_each_loss(|loss| {
        let resource = Resource::with(&[ANN, BOB]);
        let mut moves = resource.enter().unwrap();
        let mut goes = resource.enter().unwrap();
        let other = resource.clone();
        let losing = thread::spawn(move || loss.happens(&other));
        // Registered by a task that is not there any more, then by the one that waits.
        let mut gone = Context::from_waker(Waker::noop());
        let first = moves.poll_lapsed(&mut gone);
        let _ = goes.poll_lapsed(&mut gone);
        drop(goes);
        assert!(first.is_pending() || first == Poll::Ready(loss.lapse()));
        assert_eq!(block_on(moves.lapsed()), loss.lapse());
        losing.join().unwrap();
    });
}
