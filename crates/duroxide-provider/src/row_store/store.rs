//! The store: its clock, one transaction at a time, and the calls that wait.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use duroxide_core::OrchestrationStatus;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fetch::Found;
use super::tables::Tables;
use crate::clock::{Clock, JumpListener};
use crate::plain_status::is_reached;
use crate::rules::values::{Ms, NEVER, from_column, to_column};
use crate::rules::{Answer, Call, Effects, Fault, Token};
use crate::waiters::Waiters;
use crate::{Provider, ProviderError, WaitUntil};

/// Longer than any process lives; stands for a timeout that the clock cannot express.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// A store that keeps rows in plain maps and leaves every change to the [rules](crate::rules).
pub struct RowStore {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
    queues: Arc<Queues>,
    instances: Arc<Waiters>,
    dropped: Mutex<Dropped>,
}

/// How many messages ended otherwise than by being admitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// For an unknown or finished instance.
    pub dropped: u64,
    /// Undecodable.
    pub set_aside: u64,
    /// Kept for an instance that did not start in time.
    pub expired: u64,
}

/// Fetches that wait.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) turns: Notify,
    pub(super) work: Notify,
}

impl JumpListener for Queues {
    fn clock_jumped(&self) {
        self.turns.notify_waiters();
        self.work.notify_waiters();
    }
}

impl std::fmt::Debug for RowStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowStore").finish_non_exhaustive()
    }
}

impl RowStore {
    /// An empty store whose tokens and incarnations follow from `seed` and the calls made.
    pub fn with_clock_and_seed(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let queues = Arc::new(Queues::default());
        let listener: Weak<Queues> = Arc::downgrade(&queues);
        clock.tell_of_jumps(listener);
        let tables = Tables { seed, now: Ms::MIN, ..Tables::default() };
        Self {
            clock,
            tables: Mutex::new(tables),
            queues,
            instances: Arc::default(),
            dropped: Mutex::default(),
        }
    }

    /// How many messages ended otherwise than by being admitted.
    pub fn dropped(&self) -> Dropped {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One transaction, then what follows it.
    pub(super) fn transact<T>(&self, transaction: impl FnOnce(&mut Tables, Ms) -> T) -> T {
        let (answer, effects) = {
            let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
            let now = to_column(self.clock.now_ms());
            tables.look_at_clock(now);
            (transaction(&mut tables, now), tables.take_effects())
        };
        effects.into_iter().for_each(|effects| self.act_on(&effects));
        answer
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        look(&self.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out a call of the rules.
    pub(super) fn call(&self, operation: &str, call: Result<Call, Fault>) -> Result<Answer, ProviderError> {
        let call = call.map_err(|fault| fault.into_error(operation))?;
        let mut answers = self.transact(|tables, now| tables.apply(now, &[call]));
        let answer = answers.pop().unwrap_or(Ok(Answer::Done));
        answer.map_err(|fault| fault.into_error(operation))
    }

    /// A call about a lock.
    pub(super) fn held(
        &self,
        operation: &str,
        token: &str,
        call: impl FnOnce(Token) -> Call,
    ) -> Result<(), ProviderError> {
        self.call(operation, Token::parse(token).map(call)).map(drop)
    }

    /// What follows a commit: waiting calls look again.
    fn act_on(&self, effects: &Effects) {
        if effects.turns_due < NEVER {
            self.queues.turns.notify_waiters();
        }
        if effects.work_due < NEVER {
            self.queues.work.notify_waiters();
        }
        self.instances.wake(&effects.changed);
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.dropped += effects.dropped_unknown + effects.dropped_finished;
        dropped.set_aside += effects.set_aside;
        dropped.expired += effects.expired;
    }

    /// Waiting calls look again after a change that no rule made.
    pub(super) fn wake_all(&self) {
        self.queues.clock_jumped();
        self.instances.wake_all();
    }

    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Looks until there is something or the timeout has passed; woken by changes and due times.
    pub(super) async fn fetch<T>(
        &self,
        changed: &Notify,
        poll_timeout: Duration,
        mut look: impl FnMut(&mut Tables, Ms) -> Found<T>,
    ) -> Vec<T> {
        let deadline = deadline_after(poll_timeout);
        loop {
            let mut woken = pin!(changed.notified());
            // From here on no wake-up is missed.
            woken.as_mut().enable();
            let (found, now) = self.transact(|tables, now| (look(tables, now), now));
            let next_due = match found {
                Found::Items(items) => return items,
                Found::NotBefore(next_due) => next_due,
            };
            if poll_timeout.is_zero() || Instant::now() >= deadline {
                return Vec::new();
            }
            let until_due = next_due.map(|due| Duration::from_millis(from_column(due.saturating_sub(now))));
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
        let registration = self.instances.register(instance);
        let deadline = deadline_after(timeout);
        loop {
            let mut changed = pin!(registration.next_change());
            changed.as_mut().enable();
            let seen = self.orchestration_status(instance).await?;
            if is_reached(self, instance, until, &seen).await? {
                return Ok(Some(seen));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }
}

fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + FOREVER)
}
