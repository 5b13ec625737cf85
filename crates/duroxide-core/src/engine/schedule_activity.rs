//! Scheduling activities, and values that the engine itself provides.

use std::sync::Arc;

use super::carry_out::{check_new, record};
use super::commands::Syscall;
use super::execution::{Execution, Pass, Stop};
use super::guid::guid;
use super::schedules::ScheduleKind;
use super::slot::{CallOptions, Resolution, RetryRequest, Slot, TotalTimeout};
use crate::model::limits::MAX_TAG_NAME_BYTES;
use crate::model::{EventKind, WorkItem, check_name, check_payload, check_session_id};

impl Execution {
    /// Records what a call by function was given besides, right behind its schedule.
    pub(super) fn record_call_options(
        &mut self,
        slot: &Slot,
        options: CallOptions,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        if let Some(RetryRequest { policy, recorded, timer }) = options.retry {
            self.record_retry_policy(&recorded, policy, slot, Some(timer), pass)?;
        }
        if let Some(TotalTimeout { limit_ms, timer }) = options.total {
            self.schedule_timer(timer, limit_ms, pass)?;
        }
        Ok(())
    }

    pub(super) fn schedule_activity(
        &mut self,
        slot: Arc<Slot>,
        name: String,
        input: String,
        session_id: Option<String>,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let tag = slot.tag();
        check_new(pass, || {
            check_name("activity name", &name)?;
            check_payload(&format!("input of activity '{name}'"), &input)?;
            check_session_id(&name, session_id.as_deref().unwrap_or_default())?;
            check_tag(&name, tag.as_deref())
        })?;
        let kind = EventKind::ActivityScheduled {
            name: name.clone(),
            input: input.clone(),
            session_id: session_id.clone(),
            tag: tag.clone(),
        };
        let asked = slot.deadlines();
        let retried = slot.retry_of().map(|retry| self.retried_call(&retry));
        let named = retried.filter(|_| self.identity.behaviour.later_attempts_name_the_first());
        let recorded = record(pass, named.map(|retried| retried.first_id), kind)?;
        self.open(recorded, ScheduleKind::Activity, slot.clone(), String::new(), pass)?;
        let deadlines = self.record_deadlines(recorded, (&name, slot.at()), asked, pass)?;
        slot.record_deadlines(deadlines);
        if recorded.is_new {
            let instance = self.identity.instance.clone();
            let (execution_id, id) = (self.identity.execution_id, recorded.event_id);
            let reports_stop = self.cancelling.policy.is_some();
            let is_plain = deadlines.is_empty() && retried.is_none() && !reports_stop;
            pass.actions.worker_items.push(if is_plain {
                WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag }
            } else {
                WorkItem::ActivityExecuteWithin {
                    instance,
                    execution_id,
                    id,
                    name,
                    input,
                    session_id,
                    tag,
                    deadlines,
                    retried,
                    reports_stop,
                }
            });
        }
        Ok(())
    }

    /// A value that the engine provides: asked for and answered in the same turn.
    pub(super) fn call_system(
        &mut self,
        slot: Arc<Slot>,
        syscall: Syscall,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let kind = EventKind::ActivityScheduled {
            name: syscall.name().to_string(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let recorded = record(pass, None, kind)?;
        let id = recorded.event_id;
        self.open(recorded, ScheduleKind::Activity, slot, String::new(), pass)?;
        let result = match pass.tape.peek() {
            Some(next) => {
                let EventKind::ActivityCompleted { result } = &next.kind else { return Ok(()) };
                if next.source_event_id != Some(id) {
                    // A history written by hand may answer later; then the answer is admitted like any other.
                    return Ok(());
                }
                pass.tape.take();
                result.clone()
            }
            None => {
                let result = match syscall {
                    Syscall::NewGuid => guid(pass.tape.entropy, id),
                    Syscall::UtcNow => pass.tape.now_ms.to_string(),
                };
                pass.tape.append(Some(id), EventKind::ActivityCompleted { result: result.clone() });
                result
            }
        };
        self.resolve(id, ScheduleKind::Activity, Resolution { value: Ok(result), arrival: 0 });
        Ok(())
    }
}

fn check_tag(activity: &str, tag: Option<&str>) -> Result<(), String> {
    let tag = tag.unwrap_or_default();
    if tag.len() > MAX_TAG_NAME_BYTES {
        return Err(format!(
            "Activity '{activity}' tag size ({} bytes) exceeds limit ({MAX_TAG_NAME_BYTES} bytes)",
            tag.len()
        ));
    }
    if tag.contains('\0') {
        return Err(format!("the tag of activity '{activity}' contains a NUL character: remove it"));
    }
    Ok(())
}
