//! Failed instances that go on: the call, and what was kept for it.

use duroxide::providers::{Provider, ProviderAdmin, RedriveInstance, WorkItem};
use duroxide_core::EventKind;
use duroxide_core::redrive::start_anew;
use semver::Version;

use super::items::{instance_name, work_item};
use super::operations::{INSTANCES, Redrive, RedriveOf, Seen};
use super::pair::Pair;

impl Pair {
    /// Lets instances go on, or what a caller takes for failed instances.
    pub(crate) async fn redrive(&mut self, calls: &[Redrive]) -> Result<(), String> {
        let mut all = Vec::new();
        for call in calls {
            all.push(self.planned(call).await);
        }
        let put_back = all.iter().any(|one| one.messages.len() > 2);
        let mut unseen = false;
        for one in &all {
            let kept = self.memory.kept_messages(&one.instance).await.unwrap_or_default();
            unseen |= kept.len() > one.kept_seen;
        }
        let anew = all.iter().any(|one| one.events.is_empty());
        let memory = self.memory.redrive(all.clone()).await;
        let other = self.other.redrive(all).await;
        if self.agree("redrive", &memory, &other)? {
            if put_back {
                self.count("redrive with kept messages");
            }
            if unseen {
                self.count("redrive with messages kept since");
            }
            self.count(if anew { "redrive anew" } else { "redrive with a history" });
        }
        Ok(())
    }

    /// The instance that a call is about.
    async fn meant(&self, of: RedriveOf) -> String {
        let n = match of {
            RedriveOf::Named(n) => return instance_name(n),
            RedriveOf::Failed(n) => usize::from(n),
        };
        let mut failed = Vec::new();
        for instance in (0..INSTANCES).map(instance_name) {
            let history = self.memory.read(&instance).await.unwrap_or_default();
            let last = history.last().map(|event| &event.kind);
            if matches!(last, Some(EventKind::OrchestrationFailed { .. })) {
                failed.push(instance);
            }
        }
        if failed.is_empty() { instance_name(0) } else { failed.swap_remove(n % failed.len()) }
    }

    /// What a caller makes of what it has seen.
    async fn planned(&self, call: &Redrive) -> RedriveInstance {
        let instance = self.meant(call.of).await;
        let failed_execution_id = self.memory.latest_execution_id(&instance).await.unwrap_or(1);
        let history = self.memory.read(&instance).await.unwrap_or_default();
        let last_event_id = history.last().map_or(0, |event| event.event_id);
        let kept = self.memory.kept_messages(&instance).await.unwrap_or_default();
        let mut messages = Vec::new();
        let mut events: Vec<_> = history.iter().filter(|event| !event.is_terminal()).cloned().collect();
        if call.anew || events.is_empty() {
            events.clear();
            messages.extend(start_anew(&history, &kept));
        }
        messages.push(WorkItem::Redriven {
            instance: instance.clone(),
            from_execution_id: failed_execution_id,
            by: "somebody".to_string(),
            at_ms: self.now(),
        });
        let kept_seen = kept.len().saturating_sub(call.unseen);
        messages.extend(kept.into_iter().take(kept_seen));
        RedriveInstance {
            instance,
            failed_execution_id,
            last_event_id: match call.seen {
                Seen::AsItIs => last_event_id,
                Seen::Otherwise => last_event_id + 1,
            },
            events,
            pinned: call.pinned.then(|| Version::new(1, 5, 9)),
            activities: call.work.iter().map(work_item).collect(),
            messages,
            kept_seen,
        }
    }
}
