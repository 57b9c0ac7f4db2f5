//! The memory of JavaScript: the system's allocator, as `QuickJS` uses it anyway, and a count of what it has given.
//!
//! `QuickJS` counts as well, but tells only together with a walk over all objects. It asks for pieces of some kilobytes,
//! from which it takes small objects itself, and for each large one, so that counting costs nothing.

#![allow(unsafe_code, reason = "rquickjs takes an allocator by an unsafe trait")]

use rquickjs::allocator::Allocator;
use std::cell::Cell;
use std::rc::Rc;

/// The allocator of a runtime, with the number of bytes that the runtime has.
#[derive(Default)]
pub(super) struct ScriptMemory(Rc<Cell<usize>>);

impl ScriptMemory {
    /// The number of bytes, now and later.
    pub(super) fn bytes(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.0)
    }

    fn add(&self, piece: *mut libc::c_void) -> *mut u8 {
        self.0.set(self.0.get() + size(piece.cast()));
        piece.cast()
    }

    fn subtract(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes));
    }
}

/// The size of a piece; of none, zero.
fn size(piece: *mut u8) -> usize {
    // Safety: all pieces here are those of the system's allocator.
    unsafe { libc::malloc_usable_size(piece.cast()) }
}

// Safety: the system's allocator keeps what the trait asks for (POSIX `malloc`), and counting changes no pointer. `QuickJS`
// gives back only what it got here, as the trait's callers promise.
unsafe impl Allocator for ScriptMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.add(unsafe { libc::malloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        self.add(unsafe { libc::calloc(count, size) })
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.subtract(size(ptr));
        unsafe { libc::free(ptr.cast()) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let before = size(ptr);
        let piece = unsafe { libc::realloc(ptr.cast(), new_size) };
        if !piece.is_null() {
            self.subtract(before);
        }
        self.add(piece)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        size(ptr)
    }
}
