//! A watch: which changes it detects, when, and which tasks it wakes.

use super::*;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

/// The clock of these watches, one for each test.
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
async fn a_watch_detects_session_end_and_permission_loss() {
    let with = |users: &[(&str, &str)]| Fixture::with(users).config;
    let both = with(&[("ann", "*"), ("bob", "*")]);
    for (reload, lapsed) in [
        (
            with(&[("ann", "flows.read"), ("bob", "*")]),
            Lapsed::Permission,
        ),
        (with(&[("bob", "*")]), Lapsed::Session),
    ] {
        let fixture = Fixture::with(&[("ann", "*"), ("bob", "*")]);
        let auth = fixture.open().await;
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
async fn a_check_refreshes_the_callers_permissions() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    let auth = fixture.open().await;
    let anns = token(&auth, "ann", "").await;
    let mut watch = watch(&auth, caller(&auth, &anns));
    fixture.config.users = vec![user("ann", "flows.write")];
    auth.reload(&fixture.config).await.unwrap();
    watch.check().unwrap();
    assert!(!watch.caller().unwrap().permissions.cover("flows.read"));
}

#[tokio::test]
async fn a_tick_ends_expired_sessions_and_wakes_their_watches() {
    let mut fixture = Fixture::with(&[("ann", "*")]);
    fixture.config.idle = Some(Duration::from_secs(100));
    let auth = fixture.open().await;
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
async fn work_is_cancelled_when_authorization_lapses_and_completed_otherwise() {
    let auth = Fixture::with(&[("ann", "*")]).open().await;
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
async fn an_unlimited_watch_never_lapses() {
    let mut watch = AuthWatch::unlimited();
    assert_eq!((watch.check(), watch.glance()), (Ok(()), Ok(())));
    let mut context = Context::from_waker(Waker::noop());
    assert!(watch.poll_lapsed(&mut context).is_pending());
}
