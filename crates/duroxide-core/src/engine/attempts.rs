//! Recording the attempts of a retried call.

use std::sync::Arc;

use super::carry_out::record;
use super::execution::{Execution, Pass, Stop};
use super::schedule_calls::duration_ms;
use super::slot::{Resolution, RetryOf, Slot};
use crate::model::{EventKind, RecordedPolicy, RetriedCall, RetryPolicy};

impl Execution {
    /// The call that a later attempt belongs to.
    pub(super) fn retried_call(&self, retry: &RetryOf) -> RetriedCall {
        let first_id = retry.first.event_id();
        let first_execution_id = self.scheduled_in(first_id);
        RetriedCall { first_execution_id, first_id, attempt: retry.attempt }
    }

    /// The policy that was recorded counts, whatever the code asks for now. If it has a timeout, `timer` bounds the
    /// first attempt.
    pub(super) fn record_retry_policy(
        &mut self,
        slot: &Slot,
        policy: RetryPolicy,
        first: &Slot,
        timer: Option<Arc<Slot>>,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let recorded = pass.tape.peek().and_then(|next| {
            if let EventKind::RetryPolicyRecorded { policy } = &next.kind {
                Some(policy.clone())
            } else {
                None
            }
        });
        let asked = RecordedPolicy { policy, retry_timeouts: first.retries_timeouts() };
        let text = recorded.unwrap_or_else(|| asked.to_json());
        record(pass, None, EventKind::RetryPolicyRecorded { policy: text.clone() })?;
        let timeout = RecordedPolicy::from_json(&text).and_then(|recorded| recorded.policy.timeout);
        if let (Some(timer), Some(timeout)) = (timer, timeout) {
            self.schedule_timer(timer, duration_ms(timeout), pass)?;
        }
        slot.resolve(Resolution { value: Ok(text), arrival: 0 });
        Ok(())
    }
}
