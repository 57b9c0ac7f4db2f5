//! The memory of JavaScript: the program's allocator, and a count of what `QuickJS` has of it.
//!
//! `QuickJS` counts as well, but tells only together with a walk over all objects. It asks for
//! pieces of some kilobytes, from which it takes small objects itself, and for each large one, so
//! that counting costs nothing.

#![allow(unsafe_code, reason = "rquickjs takes an allocator by an unsafe trait")]

use rquickjs::allocator::{Allocator, RustAllocator};
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

    fn add(&self, piece: *mut u8) -> *mut u8 {
        self.0.set(self.0.get() + size(piece));
        piece
    }

    fn subtract(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes));
    }
}

/// The size of a piece that `RustAllocator` has made; of none, zero.
fn size(piece: *mut u8) -> usize {
    if piece.is_null() {
        return 0;
    }
    // Safety: all pieces here are those of `RustAllocator`.
    unsafe { RustAllocator::usable_size(piece) }
}

// Safety: all is that of `RustAllocator`, which keeps what the trait asks for; counting changes no
// pointer. `QuickJS` gives back only what it got here, as the trait's callers promise.
unsafe impl Allocator for ScriptMemory {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.add(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        self.add(RustAllocator.calloc(count, size))
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.subtract(size(ptr));
        unsafe { RustAllocator.dealloc(ptr) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let before = size(ptr);
        let piece = unsafe { RustAllocator.realloc(ptr, new_size) };
        if !piece.is_null() {
            self.subtract(before);
        }
        self.add(piece)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        size(ptr)
    }
}
