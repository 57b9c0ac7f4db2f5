//! Tasks that are woken together.

use super::Wakers;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn all_wakers_are_woken_once_and_slots_are_reused() {
    let (wakers, count) = (Wakers::default(), Arc::<Count>::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut slots = [None; 100];
    for slot in &mut slots {
        wakers.register(slot, &waker);
        wakers.register(slot, &waker);
    }
    wakers.remove(slots[7].take().unwrap());
    wakers.wake();
    wakers.wake();
    assert_eq!(count.0.load(Ordering::Relaxed), 99);
    wakers.register(&mut slots[7], &waker);
    assert_eq!(slots[7], Some(7));
    slots
        .into_iter()
        .flatten()
        .for_each(|slot| wakers.remove(slot));
    assert_eq!(Arc::strong_count(&count), 2, "the list keeps no waker");
}
