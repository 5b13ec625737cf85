//! The future that an orchestration awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::commands::Command;
use super::desk::Desk;
use super::slot::{Failed, Resolution, Slot, for_activities_only};
use crate::model::deadline_ms;

type Finish<T> = Box<dyn FnOnce(Result<String, Failed>) -> T + Send>;

/// Something that was scheduled and is recorded in the history.
///
/// Dropping it before its result was taken cancels what it scheduled.
#[must_use = "a durable future that is dropped is cancelled; await it, or keep it"]
pub struct DurableFuture<T> {
    origin: Option<Origin>,
    finish: Option<Finish<T>>,
}

enum Origin {
    Scheduled {
        slot: Arc<Slot>,
        desk: Arc<Desk>,
    },
    /// The call itself was wrong: there is nothing to wait for.
    Immediate {
        value: Result<String, Failed>,
        is_activity: bool,
    },
}

impl<T> DurableFuture<T> {
    pub(super) fn scheduled(
        slot: Arc<Slot>,
        desk: Arc<Desk>,
        finish: impl FnOnce(Result<String, Failed>) -> T + Send + 'static,
    ) -> Self {
        Self { origin: Some(Origin::Scheduled { slot, desk }), finish: Some(Box::new(finish)) }
    }

    /// A call that was refused; `is_activity` as for the slot that it would have had.
    pub(super) fn refused(
        cause: String,
        is_activity: bool,
        finish: impl FnOnce(Result<String, String>) -> T + Send + 'static,
    ) -> Self {
        let origin = Origin::Immediate { value: Err(Failed::new(cause)), is_activity };
        let finish = move |value: Result<String, Failed>| finish(value.map_err(|failed| failed.text));
        Self { origin: Some(origin), finish: Some(Box::new(finish)) }
    }

    /// The same future with its output changed by `f`.
    pub fn map<U>(mut self, f: impl FnOnce(T) -> U + Send + 'static) -> DurableFuture<U>
    where
        T: 'static,
    {
        let origin = self.origin.take();
        let finish = self.finish.take();
        DurableFuture {
            origin,
            finish: finish.map(|finish| Box::new(move |value| f(finish(value))) as Finish<U>),
        }
    }

    /// Lets only workers that accept `tag` run the activity. Must directly follow `schedule_activity`.
    ///
    /// # Panics
    /// On anything but an activity, and after something was awaited in between.
    pub fn with_tag(self, tag: impl Into<String>) -> Self {
        self.with_option("with_tag", |slot| slot.set_tag(tag.into()))
    }

    /// Bounds how long the activity may wait until a worker begins it for the first time. After that the future
    /// gets `timeout: activity '..' was not started within .. ms`, and the activity will not run. Must directly
    /// follow `schedule_activity`.
    ///
    /// # Panics
    /// On anything but an activity, after something was awaited in between, and for a time of zero.
    pub fn with_schedule_to_start(self, limit: Duration) -> Self {
        let method = "with_schedule_to_start";
        let limit_ms = limit_ms(method, limit);
        let set = |slot: &Slot| slot.set_deadline(method, |all| all.schedule_to_start_ms = Some(limit_ms));
        self.with_option(method, set)
    }

    /// Bounds how long one attempt of the activity may run. After that the worker cancels it, and the future gets
    /// `timeout: activity '..' ran longer than .. ms`. Must directly follow `schedule_activity`.
    ///
    /// # Panics
    /// On anything but an activity, after something was awaited in between, and for a time of zero.
    pub fn with_start_to_close(self, limit: Duration) -> Self {
        let method = "with_start_to_close";
        let limit_ms = limit_ms(method, limit);
        let set = |slot: &Slot| slot.set_deadline(method, |all| all.start_to_close_ms = Some(limit_ms));
        self.with_option(method, set)
    }

    fn with_option(self, method: &str, set: impl FnOnce(&Slot) -> Result<(), String>) -> Self {
        let outcome = match &self.origin {
            Some(Origin::Scheduled { slot, .. }) => set(slot),
            Some(Origin::Immediate { is_activity: false, .. }) => Err(for_activities_only(method)),
            Some(Origin::Immediate { is_activity: true, .. }) | None => Ok(()),
        };
        if let Err(cause) = outcome {
            panic!("{cause}");
        }
        self
    }

    /// The future itself, for programs in the older form.
    pub fn into_activity(self) -> Self {
        self
    }

    /// The future itself, for programs in the older form.
    pub fn into_timer(self) -> Self {
        self
    }

    /// The future itself, for programs in the older form.
    pub fn into_event(self) -> Self {
        self
    }

    /// The future itself, for programs in the older form.
    pub fn into_sub_orchestration(self) -> Self {
        self
    }
}

pub(super) fn limit_ms(method: &str, limit: Duration) -> u64 {
    let Some(limit_ms) = deadline_ms(limit) else { panic!("{method} needs a time longer than zero") };
    limit_ms
}

impl<T> Future for DurableFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let value = match self.origin.take() {
            Some(Origin::Immediate { value, .. }) => value,
            Some(Origin::Scheduled { slot, desk }) => match slot.take_or_wait(cx.waker()) {
                Some(Resolution { value, .. }) => value,
                None => {
                    self.origin = Some(Origin::Scheduled { slot, desk });
                    return Poll::Pending;
                }
            },
            None => panic!("a durable future was polled after it had completed"),
        };
        let finish = self.finish.take().expect("the origin and the finish are taken together");
        Poll::Ready(finish(value))
    }
}

// What is inside is never pinned: the slot is shared and the closure is boxed.
impl<T> Unpin for DurableFuture<T> {}

impl<T> Drop for DurableFuture<T> {
    fn drop(&mut self) {
        if let Some(Origin::Scheduled { slot, desk }) = self.origin.take()
            && !slot.is_taken()
        {
            desk.push(Command::Drop { slot });
        }
    }
}

impl<T> std::fmt::Debug for DurableFuture<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let event_id = match &self.origin {
            Some(Origin::Scheduled { slot, .. }) => Some(slot.event_id()),
            Some(Origin::Immediate { .. }) | None => None,
        };
        f.debug_struct("DurableFuture").field("event_id", &event_id).finish_non_exhaustive()
    }
}
