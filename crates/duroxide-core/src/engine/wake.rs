//! The waker of a program, and which wakes come from elsewhere.
//!
//! A program is woken by the engine, which resolves a durable future, or by its own code while it is polled. Both happen
//! on the thread of the turn. A wake on another thread, or between two turns, comes from something that no history holds.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

thread_local! {
    /// The program whose turn this thread runs, by the address of its waker; 0 if it runs none.
    static TURN_OF: Cell<usize> = const { Cell::new(0) };
}

/// The waker of a program.
#[derive(Default)]
pub(super) struct RootWake {
    woken: AtomicBool,
    foreign: AtomicBool,
}

impl RootWake {
    /// This thread runs a part of a turn until the guard is dropped.
    pub(super) fn in_turn(&self) -> InTurn {
        InTurn { before: TURN_OF.replace(self.address()) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn reset(&self) {
        self.woken.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }

    /// Whether there was a wake from elsewhere.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Relaxed)
    }

    fn note(&self) {
        self.woken.store(true, Ordering::Relaxed);
        // A thread that is ending runs no turn.
        let turn_of = TURN_OF.try_with(Cell::get).unwrap_or(0);
        if turn_of != self.address() {
            self.foreign.store(true, Ordering::Relaxed);
        }
    }
}

impl Wake for RootWake {
    fn wake(self: Arc<Self>) {
        self.note();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.note();
    }
}

/// A part of a turn runs on this thread.
pub(super) struct InTurn {
    before: usize,
}

impl Drop for InTurn {
    fn drop(&mut self) {
        TURN_OF.set(self.before);
    }
}
