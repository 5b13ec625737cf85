//! What was promised: every answer that said `Ok`, to be compared with what the store holds.

use std::collections::{BTreeMap, BTreeSet};

use duroxide::providers::WorkItem;
use duroxide::{ErrorDetails, Event, EventKind};
use serde_json::Value;

use crate::generate::Send;
use crate::world::Actor;

/// An activity by instance, execution and schedule.
pub(crate) type ActivityKey = (String, u64, u64);

/// What was promised.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The histories, as far as their commits were answered with `Ok`.
    pub(crate) histories: BTreeMap<(String, u64), Vec<Event>>,
    /// The result of each activity whose ack was answered with `Ok`.
    pub(crate) completions: BTreeMap<ActivityKey, WorkItem>,
    /// What clients sent and got an `Ok` for.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// The reasons of all cancels that clients sent, acknowledged or not.
    pub(crate) cancels: BTreeMap<String, Vec<String>>,
    /// The ends that clients saw.
    pub(crate) seen_ends: BTreeMap<String, Value>,
    /// Who fetched an instance or activity last.
    pub(crate) holders: BTreeMap<String, Actor>,
    /// The schedules of each activity, in the order in which they were first run.
    schedules: BTreeMap<String, Vec<ActivityKey>>,
    /// The process in which an activity ran to its end.
    ran_to_end: BTreeMap<ActivityKey, String>,
    /// Processes that have ended or are about to.
    ended_lives: BTreeSet<String>,
    /// Root instances that clients delete: what belongs to them may be gone.
    deletable: BTreeSet<String>,
    /// Instances whose old executions clients remove.
    pub(crate) prunable: BTreeSet<String>,
    /// Turns committed since a cancel was put into the inbox of an instance that ran then.
    cancelling: BTreeMap<String, u32>,
    /// The idempotency key of each activity of an instance, by its tag.
    idempotency_keys: BTreeMap<(String, String), String>,
    /// The executions with which failed instances went on.
    pub(crate) redriven: BTreeSet<(String, u64)>,
}

/// A call of a client that returned `Ok`.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) instance: String,
    pub(crate) what: Send,
}

impl Ledger {
    /// Remembers who holds the lock now; who held it before.
    pub(crate) fn takes(&mut self, item: String, actor: Actor) -> Option<Actor> {
        self.holders.insert(item, actor)
    }

    /// Which schedule of the activity this is, counted from 0.
    pub(crate) fn nth_schedule(&mut self, tag: &str, key: ActivityKey) -> u32 {
        let schedules = self.schedules.entry(tag.to_string()).or_default();
        let known = schedules.iter().position(|known| *known == key);
        let nth = known.unwrap_or_else(|| {
            schedules.push(key);
            schedules.len() - 1
        });
        u32::try_from(nth).unwrap_or(u32::MAX)
    }

    pub(crate) fn ran(&mut self, key: ActivityKey, life: &str) {
        self.ran_to_end.insert(key, life.to_string());
    }

    /// The store does not want this process's result.
    pub(crate) fn result_refused(&mut self, key: &ActivityKey, life: &str) {
        if self.ran_to_end.get(key).is_some_and(|ran| ran == life) {
            self.ran_to_end.remove(key);
        }
    }

    pub(crate) fn life_ends(&mut self, life: &str) {
        self.ended_lives.insert(life.to_string());
    }

    /// The process that has the result of this activity and lives.
    pub(crate) fn has_result(&self, key: &ActivityKey) -> Option<&str> {
        // An activity of a deleted instance may end after another has got its id.
        let ran = self.ran_to_end.get(key).filter(|_| !self.is_deletable(&key.0));
        ran.map(String::as_str).filter(|life| !self.ended_lives.contains(*life))
    }

    /// A cancel lies in the inbox of an instance that runs.
    pub(crate) fn cancel_arrived(&mut self, instance: &str) {
        self.cancelling.entry(instance.to_string()).or_default();
    }

    /// A turn of the instance was committed. Whether a cancel that lies in its inbox came too late for it: not if the
    /// turn ends the instance, and not for the one turn that may have been fetched before the cancel came.
    pub(crate) fn outran_cancel(&mut self, instance: &str, last: Option<&Event>) -> bool {
        let ends = last.is_some_and(|event| {
            event.is_terminal() && !matches!(event.kind, EventKind::OrchestrationContinuedAsNew { .. })
        });
        if ends {
            self.cancelling.remove(instance);
            return false;
        }
        let Some(turns) = self.cancelling.get_mut(instance) else { return false };
        *turns += 1;
        *turns > 1
    }

    /// The key that an earlier attempt of the same activity had, if it is another one.
    pub(crate) fn other_key(&mut self, instance: &str, tag: &str, key: &str) -> Option<String> {
        let name = (instance.to_string(), tag.to_string());
        let known = self.idempotency_keys.entry(name).or_insert_with(|| key.to_string());
        (known != key).then(|| known.clone())
    }

    /// From now on this root and its tree may vanish.
    pub(crate) fn may_vanish(&mut self, root: &str) {
        self.deletable.insert(root.to_string());
    }

    pub(crate) fn is_deletable(&self, instance: &str) -> bool {
        self.deletable.contains(root_of(instance))
    }

    /// Whether a start of the instance was acknowledged, and it has not been deleted since.
    pub(crate) fn is_started(&self, instance: &str) -> bool {
        let mut of_instance =
            self.acknowledged.iter().filter(|acknowledged| acknowledged.instance == instance);
        of_instance.any(|acknowledged| matches!(acknowledged.what, Send::Start { .. }))
    }

    /// Whether what was acknowledged for the instance says that it has ended.
    pub(crate) fn has_ended(&self, instance: &str) -> bool {
        let last = self.histories.iter().rfind(|((id, _), _)| id == instance);
        last.and_then(|(_, events)| events.last()).is_some_and(|event| {
            event.is_terminal() && !matches!(event.kind, EventKind::OrchestrationContinuedAsNew { .. })
        })
    }

    /// The root and its tree are gone.
    pub(crate) fn forget(&mut self, root: &str) {
        self.histories.retain(|(id, _), _| root_of(id) != root);
        self.completions.retain(|(id, _, _), _| root_of(id) != root);
        self.ran_to_end.retain(|(id, _, _), _| root_of(id) != root);
        self.acknowledged.retain(|acknowledged| acknowledged.instance != root);
        self.cancelling.retain(|id, _| root_of(id) != root);
        self.idempotency_keys.retain(|(id, _), _| root_of(id) != root);
        for schedules in self.schedules.values_mut() {
            schedules.retain(|(id, _, _)| root_of(id) != root);
        }
    }

    pub(crate) fn append(&mut self, execution_id: u64, events: &[Event]) {
        let Some(first) = events.first() else { return };
        let key = (first.instance_id.clone(), execution_id);
        if !self.histories.contains_key(&key) && self.redriven.contains(&key) {
            // It begins with what the failed execution had, unchanged.
            let failed = self.histories.get(&(key.0.clone(), execution_id - 1));
            let before = failed.into_iter().flatten().take_while(|event| event.event_id < first.event_id);
            let before = before.cloned().collect();
            self.histories.insert(key.clone(), before);
        }
        self.histories.entry(key).or_default().extend_from_slice(events);
    }

    /// A failed instance goes on with this execution. What it had not finished may be done again, and what it was
    /// poisoned of; nothing else.
    pub(crate) fn goes_on(&mut self, instance: &str, execution_id: u64) {
        self.redriven.insert((instance.to_string(), execution_id));
        let is_poison = |completion: &WorkItem| {
            matches!(completion, WorkItem::ActivityFailed { details: ErrorDetails::Poison { .. }, .. })
        };
        self.completions.retain(|(id, _, _), completion| id != instance || !is_poison(completion));
        self.ran_to_end.retain(|(id, _, _), _| id != instance);
    }

    pub(crate) fn is_redriven(&self, instance: &str, execution_id: u64) -> bool {
        self.redriven.contains(&(instance.to_string(), execution_id))
    }

    /// Whether a committed turn of the instance has scheduled this activity.
    pub(crate) fn is_scheduled(&self, instance: &str, tag: &str) -> bool {
        let named = format!("\"tag\":\"{tag}\"");
        let mut events =
            self.histories.iter().filter(|((id, _), _)| id == instance).flat_map(|(_, events)| events);
        events.any(|event| {
            matches!(&event.kind, EventKind::ActivityScheduled { input, .. } if input.contains(&named))
        })
    }
}

/// The root of the tree that an instance with generated ids belongs to.
fn root_of(instance: &str) -> &str {
    instance.split("::sub::").next().unwrap_or(instance)
}
