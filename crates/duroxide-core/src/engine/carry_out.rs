//! Carrying out what the program did: each command is recorded, and acted on if it is new.

use std::sync::Arc;

use super::commands::{Command, Issued, Schedule};
use super::execution::{Execution, Pass, Stop};
use super::mismatch::{unexpected_event, version_mismatch};
use super::patches;
use super::record_state::{clear_kv, set_custom_status};
use super::schedules::ScheduleKind;
use super::slot::{Failed, Resolution, Slot};
use super::subscriptions::Delivery;
use super::tape::Recorded;
use crate::model::limits::{MAX_INSTANCE_ID_BYTES, MAX_SCHEDULES_PER_TURN};
use crate::model::{
    EventKind, INITIAL_EXECUTION_ID, WorkItem, auto_child_id, build_child_instance_id, check_name,
    check_payload, check_root_instance_id, check_version,
};

/// The latest time that every store can keep: signed 64 bits of milliseconds.
const LATEST_MS: u64 = i64::MAX.cast_unsigned();

impl Execution {
    pub(super) fn carry_out(&mut self, commands: Vec<Issued>, pass: &mut Pass<'_>) -> Result<(), Stop> {
        for Issued { command, at } in commands {
            self.last_command = Some(at);
            self.carry_out_one(command, pass).map_err(|stop| stop.caused_at(at))?;
            self.check_history_length(pass)?;
        }
        Ok(())
    }

    fn carry_out_one(&mut self, command: Command, pass: &mut Pass<'_>) -> Result<(), Stop> {
        match command {
            Command::Schedule { slot, what } => self.schedule(slot, what, pass),
            Command::Drop { slot } => self.cancel(&slot, pass),
            Command::GiveUp { slot } => self.give_up(&slot, pass),
            Command::Detach { name, version, instance, input } => {
                self.detach(name, version, instance, input, pass)
            }
            Command::ContinueAsNew { input, version, custom_status } => {
                let stop = continue_as_new(input, version, custom_status, pass);
                Err(self.cancelled().filter(|_| !pass.tape.is_replaying()).unwrap_or(stop))
            }
            Command::SetCustomStatus { status } => set_custom_status(status, pass),
            Command::SetKv { key, entry, key_count } => self.set_kv(key, entry, key_count, pass),
            Command::ClearKv { key, was_set } => clear_kv(key, was_set, pass),
            Command::ClearAllKv => record(pass, None, EventKind::KeyValuesCleared).map(drop),
            Command::MarkPatch { id } => patches::mark(id, pass),
            Command::DeprecatePatch { id } => {
                patches::deprecate(&id, pass);
                Ok(())
            }
            Command::AwaitStops { slot } => self.await_stops(slot, pass),
            Command::Unnamed { text } => Err(Stop::Unnamed(text)),
            Command::Violate { message } => Err(Stop::violation(message)),
        }
    }

    fn schedule(&mut self, slot: Arc<Slot>, what: Schedule, pass: &mut Pass<'_>) -> Result<(), Stop> {
        match what {
            Schedule::Activity { name, input, session_id } => {
                let options = slot.take_call_options();
                let session_id = session_id.or_else(|| slot.session_id());
                self.schedule_activity(slot.clone(), name, input, session_id, pass)?;
                options.map_or(Ok(()), |options| self.record_call_options(&slot, *options, pass))
            }
            Schedule::Syscall(syscall) => self.call_system(slot, syscall, pass),
            Schedule::Timer { delay_ms } => self.schedule_timer(slot, delay_ms, pass),
            Schedule::Wait { name } => {
                check_new(pass, || check_name("event name", &name))?;
                let recorded = record(pass, None, EventKind::ExternalSubscribed { name: name.clone() })?;
                self.open(recorded, ScheduleKind::Wait, slot, name.clone(), pass)?;
                let delivery = self.events.subscribe(&name, recorded.event_id);
                self.deliver(ScheduleKind::Wait, delivery);
                Ok(())
            }
            Schedule::Dequeue { queue } => {
                check_new(pass, || check_name("queue name", &queue))?;
                let recorded = record(pass, None, EventKind::QueueSubscribed { name: queue.clone() })?;
                self.open(recorded, ScheduleKind::Dequeue, slot, queue.clone(), pass)?;
                let delivery = self.queues.subscribe(&queue, recorded.event_id);
                self.deliver(ScheduleKind::Dequeue, delivery);
                Ok(())
            }
            Schedule::Child { name, version, instance, input } => {
                let options = slot.take_call_options().unwrap_or_default();
                if let Some(cause) = options.refused {
                    slot.resolve(Resolution { value: Err(Failed::new(cause)), arrival: 0 });
                    return Ok(());
                }
                self.schedule_child(slot, name, version, instance.or(options.child_id), input, pass)
            }
            Schedule::KvOf { instance, key } => self.ask_for_kv(slot, instance, key, pass),
            Schedule::RetryPolicy { policy, first, timer } => {
                self.record_retry_policy(&slot, policy, &first, timer, pass)
            }
        }
    }

    pub(super) fn schedule_timer(
        &mut self,
        slot: Arc<Slot>,
        delay_ms: u64,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let fire_at_ms = pass.tape.now_ms.saturating_add(delay_ms).min(LATEST_MS);
        let recorded = record(pass, None, EventKind::TimerCreated { fire_at_ms })?;
        self.open(recorded, ScheduleKind::Timer, slot, String::new(), pass)?;
        if recorded.is_new {
            pass.actions.orchestrator_items.push(WorkItem::TimerFired {
                instance: self.identity.instance.clone(),
                execution_id: self.identity.execution_id,
                id: recorded.event_id,
                fire_at_ms,
            });
        }
        Ok(())
    }

    fn schedule_child(
        &mut self,
        slot: Arc<Slot>,
        name: String,
        version: Option<String>,
        instance: Option<String>,
        input: String,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let identity = self.identity.clone();
        let child_id = instance.unwrap_or_else(|| {
            let execution_id = self.desk.view(|view| view.execution_id);
            auto_child_id(execution_id, pass.tape.next_event_id())
        });
        let instance = build_child_instance_id(&identity.instance, &child_id);
        let recorded_id =
            if identity.behaviour.generated_child_ids_are_short() { child_id } else { instance.clone() };
        check_new(pass, || {
            check_name("orchestration name", &name)?;
            check_payload(&format!("input of sub-orchestration '{name}'"), &input)?;
            check_child_id_length(&instance)
        })?;
        let kind = EventKind::SubOrchestrationScheduled {
            name: name.clone(),
            instance: recorded_id,
            input: input.clone(),
        };
        let recorded = record(pass, None, kind)?;
        record_version(pass, recorded, version.as_deref())?;
        self.open(recorded, ScheduleKind::Child, slot, instance.clone(), pass)?;
        if recorded.is_new {
            pass.actions.orchestrator_items.push(WorkItem::StartOrchestration {
                instance,
                orchestration: name,
                input,
                version,
                parent_instance: Some(identity.instance.clone()),
                parent_id: Some(recorded.event_id),
                parent_execution_id: Some(identity.execution_id),
                execution_id: INITIAL_EXECUTION_ID,
            });
        }
        Ok(())
    }

    fn detach(
        &mut self,
        name: String,
        version: Option<String>,
        instance: String,
        input: String,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        check_new(pass, || {
            check_name("orchestration name", &name)?;
            check_root_instance_id(&instance)?;
            check_payload(&format!("input of orchestration '{name}'"), &input)?;
            version.as_deref().map_or(Ok(()), |version| check_version(version).map(drop))
        })?;
        let kind = EventKind::OrchestrationChained {
            name: name.clone(),
            instance: instance.clone(),
            input: input.clone(),
        };
        let recorded = record(pass, None, kind)?;
        record_version(pass, recorded, version.as_deref())?;
        count_schedule(recorded, pass)?;
        if recorded.is_new {
            pass.actions.orchestrator_items.push(WorkItem::StartOrchestration {
                instance,
                orchestration: name,
                input,
                version,
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                execution_id: INITIAL_EXECUTION_ID,
            });
        }
        Ok(())
    }

    pub(super) fn open(
        &mut self,
        recorded: Recorded,
        kind: ScheduleKind,
        slot: Arc<Slot>,
        subject: String,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        self.note_execution(recorded);
        slot.record(recorded.event_id, subject);
        self.schedules.open(recorded.event_id, kind, slot);
        count_schedule(recorded, pass)
    }

    pub(super) fn deliver(&mut self, kind: ScheduleKind, delivery: Option<Delivery>) {
        let Some(Delivery { wait, arrival, data }) = delivery else { return };
        if let Some(slot) = self.schedules.slot(wait) {
            let channels = if kind == ScheduleKind::Wait { &mut self.events } else { &mut self.queues };
            channels.delivered(slot);
        }
        self.resolve(wait, kind, Resolution { value: Ok(data), arrival });
    }

    pub(super) fn resolve(&mut self, id: u64, kind: ScheduleKind, resolution: Resolution) {
        if let Some(slot) = self.schedules.slot(id) {
            self.schedules.complete(id, kind);
            slot.resolve(resolution);
        }
    }
}

fn continue_as_new(
    input: String,
    version: Option<String>,
    custom_status: Option<String>,
    pass: &Pass<'_>,
) -> Stop {
    if let Some(next) = pass.tape.peek() {
        return Stop::Nondeterministic(format!("{}: it continues as new", unexpected_event(next)));
    }
    let checked = check_payload("input of continue_as_new", &input)
        .and_then(|()| version.as_deref().map_or(Ok(()), |version| check_version(version).map(drop)));
    match checked {
        Ok(()) => Stop::ContinuedAsNew { input, version, custom_status },
        Err(cause) => Stop::violation(cause),
    }
}

pub(super) fn record(pass: &mut Pass<'_>, source: Option<u64>, kind: EventKind) -> Result<Recorded, Stop> {
    pass.tape.record(source, kind).map_err(Stop::Nondeterministic)
}

/// A version that the program asked for stands right behind its schedule.
fn record_version(pass: &mut Pass<'_>, schedule: Recorded, version: Option<&str>) -> Result<(), Stop> {
    let id = schedule.event_id;
    if schedule.is_new {
        if let Some(version) = version {
            pass.tape.append(Some(id), EventKind::VersionRequested { version: version.to_string() });
        }
        return Ok(());
    }
    let recorded = pass.tape.peek().filter(|next| next.source_event_id == Some(id)).and_then(|next| {
        if let EventKind::VersionRequested { version } = &next.kind { Some(version.as_str()) } else { None }
    });
    if recorded != version {
        return Err(Stop::Nondeterministic(version_mismatch(id, recorded, version)));
    }
    if recorded.is_some() {
        pass.tape.take();
    }
    Ok(())
}

fn count_schedule(recorded: Recorded, pass: &mut Pass<'_>) -> Result<(), Stop> {
    if recorded.is_new {
        pass.actions.scheduled += 1;
    }
    if pass.actions.scheduled > MAX_SCHEDULES_PER_TURN {
        return Err(Stop::violation(format!(
            "things scheduled in one turn ({}) exceeds limit ({MAX_SCHEDULES_PER_TURN}): schedule them in parts",
            pass.actions.scheduled
        )));
    }
    Ok(())
}

/// Refuses what is over a limit when it is asked for. What is recorded was within the limits of its time and
/// must not be refused by today's.
pub(super) fn check_new(pass: &Pass<'_>, check: impl FnOnce() -> Result<(), String>) -> Result<(), Stop> {
    if pass.tape.is_replaying() { Ok(()) } else { check().map_err(Stop::violation) }
}

fn check_child_id_length(instance: &str) -> Result<(), String> {
    if instance.len() > MAX_INSTANCE_ID_BYTES {
        return Err(format!(
            "sub-orchestration instance id ({} bytes) exceeds limit ({MAX_INSTANCE_ID_BYTES} bytes): \
             nest less deeply or give ids",
            instance.len()
        ));
    }
    Ok(())
}
