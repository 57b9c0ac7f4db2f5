//! A watch: what it notices, when, and whom it wakes.

use super::*;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

/// What the clock of these watches says, for each test another one.
fn now() -> Duration {
    thread_local!(static CLOCK: AtomicU64 = const { AtomicU64::new(NOW) });
    CLOCK.with(|clock| Duration::from_secs(clock.load(Ordering::Relaxed)))
}

/// Something that needs `flows.write`.
#[derive(Clone)]
pub(super) struct Writing(Auth);

impl Grant for Writing {
    fn registry(&self) -> Option<&Registry> {
        Some(self.0.registry())
    }

    fn narrowed(&self, caller: Option<Caller>) -> Result<Option<Caller>, Lapsed> {
        let writes = |caller: &Caller| caller.permissions.cover("flows.write");
        let may = caller.as_ref().is_some_and(writes);
        may.then_some(caller).ok_or(Lapsed::Permission)
    }
}

pub(super) fn watch(auth: &Auth, caller: Caller) -> AuthWatch<Writing> {
    AuthWatch::new(Some(caller), Writing(auth.clone()), auth.generation(), now)
}

fn poll(watch: &mut AuthWatch<Writing>) -> Poll<Lapsed> {
    watch.poll_lapsed(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_watch_notices_what_ends_a_session_and_what_takes_the_permission() {
    let with = |users: &[(&str, &str)]| House::with(users).config;
    let both = with(&[("ann", "*"), ("bob", "*")]);
    for (reload, lapsed) in [
        (
            with(&[("ann", "flows.read"), ("bob", "*")]),
            Lapsed::Permission,
        ),
        (with(&[("bob", "*")]), Lapsed::Session),
    ] {
        let house = House::with(&[("ann", "*"), ("bob", "*")]);
        let auth = house.open().await;
        let (anns, bobs) = (token(&auth, "ann", "").await, token(&auth, "bob", "").await);
        let (mut anns, mut bobs) = (
            watch(&auth, caller(&auth, &anns)),
            watch(&auth, caller(&auth, &bobs)),
        );
        let mut detached = anns.detached();
        assert!(poll(&mut anns).is_pending() && poll(&mut bobs).is_pending());
        auth.reload(&reload).await.unwrap();
        assert_eq!(poll(&mut anns), Poll::Ready(lapsed));
        assert_eq!(anns.check(), Err(lapsed));
        assert_eq!(detached.check(), Err(lapsed));
        assert!(poll(&mut bobs).is_pending());
        assert_eq!(bobs.check(), Ok(()));
        auth.reload(&both).await.unwrap();
        assert_eq!(anns.check().is_ok(), lapsed == Lapsed::Permission);
    }
}

#[tokio::test]
async fn a_check_tells_what_the_caller_has_now() {
    let mut house = House::with(&[("ann", "*")]);
    let auth = house.open().await;
    let anns = token(&auth, "ann", "").await;
    let mut watch = watch(&auth, caller(&auth, &anns));
    house.config.users = vec![user("ann", "flows.write")];
    auth.reload(&house.config).await.unwrap();
    watch.check().unwrap();
    assert!(!watch.caller().unwrap().permissions.cover("flows.read"));
}

#[tokio::test]
async fn a_tick_ends_what_is_over_for_those_who_watch_it() {
    let mut house = House::with(&[("ann", "*")]);
    house.config.idle = Some(Duration::from_secs(100));
    let auth = house.open().await;
    let (used, unused) = (token(&auth, "ann", "").await, token(&auth, "ann", "").await);
    let (mut used_watch, mut unused_watch) = (
        watch(&auth, caller(&auth, &used)),
        watch(&auth, caller(&auth, &unused)),
    );
    auth.tick(NOW + 99);
    assert!(is_alive(&auth, &used, NOW + 99));
    assert!(poll(&mut unused_watch).is_pending());
    auth.tick(NOW + 100);
    assert_eq!(poll(&mut unused_watch), Poll::Ready(Lapsed::Session));
    for second in 101..199 {
        auth.tick(NOW + second);
        assert!(poll(&mut used_watch).is_pending(), "{second}");
    }
    auth.tick(NOW + 199);
    assert_eq!(poll(&mut used_watch), Poll::Ready(Lapsed::Session));
}

#[tokio::test]
async fn work_is_dropped_when_the_caller_may_not_go_on_and_done_otherwise() {
    let auth = House::with(&[("ann", "*")]).open().await;
    let anns = token(&auth, "ann", "").await;
    let ann = caller(&auth, &anns);
    let mut watching = watch(&auth, ann.clone());
    assert_eq!(watching.during(pin!(std::future::ready(1))).await, Ok(1));
    {
        let pending = pin!(std::future::pending::<()>());
        let mut never = pin!(watching.during(pending));
        let mut context = Context::from_waker(Waker::noop());
        assert!(never.as_mut().poll(&mut context).is_pending());
        auth.revoke(&ann, anns.reveal()).await.unwrap();
        assert_eq!(never.await, Err(Lapsed::Session));
    }
    assert_eq!(
        watching.during(pin!(std::future::ready(1))).await,
        Err(Lapsed::Session)
    );
}

#[tokio::test]
async fn where_the_api_is_open_nobody_loses_anything() {
    let mut watch = AuthWatch::unlimited();
    assert_eq!((watch.check(), watch.glance()), (Ok(()), Ok(())));
    let mut context = Context::from_waker(Waker::noop());
    assert!(watch.poll_lapsed(&mut context).is_pending());
}
