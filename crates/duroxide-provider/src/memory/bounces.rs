//! What of an instance was given back, and when it is tried again.

use super::rows::{KeptCause, Ms, WorkRow};
use super::state::State;
use crate::{ActivityBounce, Bounce, Bounces, ProviderError};

impl State {
    pub(super) fn bounces(&self, now: Ms, instance: &str) -> Result<Bounces, ProviderError> {
        let row = self.known("bounces", instance)?;
        if row.status.ends_instance() {
            return Ok(Bounces::default());
        }
        let locked_until = row.lock.as_ref().map(|lock| lock.until);
        let ready_at = row.entry().map(|entry| entry.ready_at);
        let attempts = row.inbox().values().map(|message| message.attempts).max().unwrap_or(0);
        let turn = row.bounce.as_ref().map(|kept| {
            let next = if is_live(locked_until, now) { None } else { ready_at };
            bounce(kept, attempts, next)
        });
        let of_instance = self.work_by_key.iter().filter(|(key, _)| key.instance == instance);
        let rows = of_instance.filter_map(|(_, seq)| self.work.get(seq));
        Ok(Bounces { turn, activities: rows.filter_map(|row| activity(row, now)).collect() })
    }
}

fn activity(row: &WorkRow, now: Ms) -> Option<ActivityBounce> {
    let kept = row.bounce.as_ref()?;
    let locked_until = row.lock.as_ref().map(|lock| lock.until);
    let next = (!is_live(locked_until, now)).then(|| row.entry().ready_at);
    Some(ActivityBounce {
        execution_id: row.key.execution_id,
        activity_id: row.key.event_id,
        name: row.route.name.clone(),
        bounce: bounce(kept, row.attempts, next),
    })
}

fn is_live(locked_until: Option<Ms>, now: Ms) -> bool {
    locked_until.is_some_and(|until| now < until)
}

fn bounce(kept: &KeptCause, attempts: u32, next: Option<Ms>) -> Bounce {
    let time = |at: Ms| u64::try_from(at).unwrap_or(0);
    Bounce { cause: kept.cause.clone(), at_ms: time(kept.at), attempts, next_try_ms: next.map(time) }
}
