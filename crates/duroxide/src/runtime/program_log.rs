//! Lines that orchestrations write with the macros of `tracing` themselves: muted where the program repeats what it did,
//! and otherwise inside a span that names the execution.
//!
//! The subscriber is the user's, so nothing is asked of it. A repeated part runs under a subscriber of ours that discards
//! everything.

use std::cell::RefCell;
use std::sync::LazyLock;

use duroxide_core::{Phase, ProgramOf, ProgramScope};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Dispatch, Event, Metadata, dispatcher};

/// Surrounds programs so that their lines are written once.
pub(super) struct ProgramLog;

impl ProgramScope for ProgramLog {
    fn run(&self, of: &ProgramOf<'_>, code: &mut dyn FnMut()) {
        match of.phase {
            Phase::Repeated => muted(code),
            Phase::Live => {
                // At the highest level, so that a filter for levels that lets a line through lets its fields through.
                let span = tracing::error_span!(
                    target: "duroxide::orchestration",
                    "orchestration",
                    instance_id = %of.instance,
                    execution_id = of.execution_id,
                    orchestration_name = %of.name,
                    orchestration_version = %of.version,
                );
                span.in_scope(code);
            }
        }
    }
}

/// Runs code whose lines are discarded.
pub(crate) fn muted<T>(code: impl FnOnce() -> T) -> T {
    // Where there is no subscriber there is nothing to mute, and the first one that is set, even for a moment, ends what
    // `tracing` writes to `log` instead.
    if !dispatcher::has_been_set() {
        return code();
    }
    let _heard = Heard::keep();
    dispatcher::with_default(&MUTED, code)
}

/// One for the process: `tracing` asks every subscriber about every place that writes.
static MUTED: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Muted));

thread_local! {
    /// The subscriber that would hear this thread if it was not muted.
    static HEARD: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

/// Remembers the thread's subscriber while it is muted.
struct Heard {
    before: Option<Dispatch>,
}

impl Heard {
    fn keep() -> Self {
        let now = dispatcher::get_default(Dispatch::clone);
        // Muted inside muted: the one outside knows it.
        let now = if now.is::<Muted>() { HEARD.with_borrow(Clone::clone) } else { Some(now) };
        Self { before: HEARD.replace(now) }
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        HEARD.set(self.before.take());
    }
}

/// Discards everything.
///
/// `tracing` remembers for each place that writes whether any subscriber wants it, and asks when the place is reached for
/// the first time, which may be in a replay. `NoSubscriber` would answer for all of them that nobody ever does.
struct Muted;

impl Subscriber for Muted {
    /// The answer of the other subscriber: any answer is right here, and this one makes no line of the process dearer.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // A thread that is ending is not muted.
        let heard = HEARD.try_with(|heard| heard.borrow().clone()).ok().flatten();
        if let Some(heard) = heard {
            return heard.register_callsite(metadata);
        }
        dispatcher::get_default(|other| {
            if other.is::<Self>() { Interest::sometimes() } else { other.register_callsite(metadata) }
        })
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
