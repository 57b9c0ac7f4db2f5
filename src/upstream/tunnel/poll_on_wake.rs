//! Waits for something rare beside something busy: it is asked only when it has rung.
//!
//! The events that end a tunnel wait on locks that all tunnels share; polled with every frame, they
//! would take the locks with every frame.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The same future, polled once and then whenever it wakes. To be awaited in one task only.
pub(super) async fn on_ring<F: Future>(mut rare: Pin<&mut F>) -> F::Output {
    let mut flag: Option<(Arc<WakeFlag>, Waker)> = None;
    poll_fn(|cx| {
        let (flag, waker) = flag.get_or_insert_with(|| WakeFlag::of(cx.waker()));
        if flag.woken.swap(false, Ordering::AcqRel) {
            return rare.as_mut().poll(&mut Context::from_waker(waker));
        }
        Poll::Pending
    })
    .await
}

struct WakeFlag {
    woken: AtomicBool,
    task: Waker,
}

impl WakeFlag {
    fn of(task: &Waker) -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self {
            woken: AtomicBool::new(true),
            task: task.clone(),
        });
        (Arc::clone(&flag), Waker::from(flag))
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn a_future_is_polled_only_when_woken_in_a_busy_task() {
        let (notify, asked) = (Notify::new(), AtomicUsize::new(0));
        let mut notified = pin!(notify.notified());
        let rare = pin!(poll_fn(|cx| {
            asked.fetch_add(1, Ordering::Relaxed);
            notified.as_mut().poll(cx)
        }));
        let busy = async {
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            notify.notify_waiters();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = on_ring(rare) => {}
            () = busy => {}
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
