//! Who waits for what, and how long.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide_core::OrchestrationStatus;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::MemoryProvider;
use super::rows::Ms;
use super::state::{State, Wakes};
use super::turns::Fetched;
use crate::clock::JumpListener;
use crate::plain_status::is_reached;
use crate::{Provider, ProviderError, WaitUntil};

/// Longer than any process lives; stands for a timeout that the clock cannot express.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Those who wait for a change.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    pub(super) turns: Notify,
    pub(super) work: Notify,
    instances: Mutex<BTreeMap<String, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    changed: Arc<Notify>,
}

impl Waiters {
    pub(super) fn wake(&self, wakes: Wakes) {
        if wakes.turns {
            self.turns.notify_waiters();
        }
        if wakes.work {
            self.work.notify_waiters();
        }
        if wakes.instances.is_empty() {
            return;
        }
        let watched = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.is_empty() {
            return;
        }
        for instance in &wakes.instances {
            if let Some(entry) = watched.get(instance) {
                entry.changed.notify_waiters();
            }
        }
    }

    fn watch(&self, instance: &str) -> Watch<'_> {
        let mut watched = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = watched.entry(instance.to_string()).or_default();
        entry.watchers += 1;
        Watch { waiters: self, instance: instance.to_string(), changed: Arc::clone(&entry.changed) }
    }
}

/// Locks may have expired and delays ended. What an instance shows does not depend on the time.
impl JumpListener for Waiters {
    fn clock_jumped(&self) {
        self.turns.notify_waiters();
        self.work.notify_waiters();
    }
}

/// One watcher of an instance; gone when dropped.
struct Watch<'a> {
    waiters: &'a Waiters,
    instance: String,
    changed: Arc<Notify>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut watched = self.waiters.instances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = watched.get_mut(&self.instance) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                watched.remove(&self.instance);
            }
        }
    }
}

fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + FOREVER)
}

impl MemoryProvider {
    /// Tries until there is something or the timeout has passed; woken by changes and due times.
    pub(super) async fn fetch<T>(
        &self,
        changed: &Notify,
        poll_timeout: Duration,
        mut attempt: impl FnMut(&mut State, Ms) -> Fetched<T>,
    ) -> Vec<T> {
        let mut deadline = None;
        loop {
            let mut woken = pin!(changed.notified());
            // From here on no wake-up is missed.
            woken.as_mut().enable();
            let (fetched, now) = self.with_state(|state, now| (attempt(state, now), now));
            let next_due = match fetched {
                Fetched::Items(items) => return items,
                Fetched::NotBefore(next_due) => next_due,
            };
            if poll_timeout.is_zero() {
                return Vec::new();
            }
            let deadline = *deadline.get_or_insert_with(|| deadline_after(poll_timeout));
            if Instant::now() >= deadline {
                return Vec::new();
            }
            let until_due = next_due.map(|due| Duration::from_millis(u64::try_from(due - now).unwrap_or(0)));
            let until = until_due.map_or(deadline, |left| deadline_after(left).min(deadline));
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    pub(super) async fn wait(
        &self,
        instance: &str,
        until: WaitUntil<'_>,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>, ProviderError> {
        let watch = self.waiters.watch(instance);
        let deadline = deadline_after(timeout);
        loop {
            let mut woken = pin!(watch.changed.notified());
            woken.as_mut().enable();
            let seen = self.orchestration_status(instance).await?;
            if is_reached(self, instance, until, &seen).await? {
                return Ok(Some(seen));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}
