//! Who waits for the end of an instance. The commit that ends it tells them, so that they need not look for it.
//!
//! Told are those who waited before that commit was sent: to them it is what they waited for, whatever becomes of
//! the instance afterwards. Everybody else looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide_core::OrchestrationStatus;
use duroxide_provider::rules::{ExecutionRow, InstanceRow};
use duroxide_provider::support::Status;
use tokio::sync::oneshot;

use crate::rows::write_group::CustomStatus;
use crate::values::from_json;

/// Who waits for the end of which instance.
#[derive(Default)]
pub(crate) struct Endings {
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<OrchestrationStatus>>>>,
}

/// One that waits. Dropping it ends the wait.
pub(crate) struct Expectation {
    endings: Arc<Endings>,
    instance: String,
    told: oneshot::Receiver<OrchestrationStatus>,
}

/// Those whom a commit tells. Dropped when it does not come about: they look.
#[derive(Default)]
pub(crate) struct Audience(Vec<oneshot::Sender<OrchestrationStatus>>);

impl Endings {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<oneshot::Sender<OrchestrationStatus>>>> {
        // Whole after every operation, so a panic elsewhere does not spoil it.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait.
    pub(crate) fn expect(self: &Arc<Self>, instance: &str) -> Expectation {
        let (tell, told) = oneshot::channel();
        self.lock().entry(instance.to_string()).or_default().push(tell);
        Expectation { endings: Arc::clone(self), instance: instance.to_string(), told }
    }

    /// Those who wait now.
    pub(crate) fn audience(&self, instance: &str) -> Audience {
        Audience(self.lock().remove(instance).unwrap_or_default())
    }
}

impl Expectation {
    /// The end; `None` when somebody must look for it.
    pub(crate) async fn end(&mut self) -> Option<OrchestrationStatus> {
        (&mut self.told).await.ok()
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        self.told.close();
        let mut waiting = self.endings.lock();
        if let Some(all) = waiting.get_mut(&self.instance) {
            all.retain(|one| !one.is_closed());
            if all.is_empty() {
                waiting.remove(&self.instance);
            }
        }
    }
}

impl Audience {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells all, after the commit.
    pub(crate) fn tell(self, end: &OrchestrationStatus) {
        // Who has gone meanwhile need not know.
        self.0.into_iter().for_each(|one| drop(one.send(end.clone())));
    }
}

/// What a look would find after the turn that ended an instance; `None` if that is not known for sure.
pub(crate) fn shown_end(
    row: &InstanceRow,
    execution: &ExecutionRow,
    custom: CustomStatus,
) -> Option<OrchestrationStatus> {
    let CustomStatus { status: custom_status, version: custom_status_version } = custom;
    match row.pending.end? {
        Status::Completed => {
            let output = execution.new_output.clone()?;
            Some(OrchestrationStatus::Completed { output, custom_status, custom_status_version })
        }
        Status::Failed => {
            let details = from_json(execution.new_failure.as_deref()?).ok()?;
            Some(OrchestrationStatus::Failed { details, custom_status, custom_status_version })
        }
        Status::Running | Status::ContinuedAsNew => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end() -> OrchestrationStatus {
        OrchestrationStatus::Completed {
            output: "out".to_string(),
            custom_status: None,
            custom_status_version: 0,
        }
    }

    #[tokio::test]
    async fn told_are_those_who_waited_when_the_commit_was_sent() {
        let endings = Arc::new(Endings::default());
        let mut before = endings.expect("i");
        let mut other = endings.expect("j");
        let audience = endings.audience("i");
        let mut after = endings.expect("i");
        audience.tell(&end());
        assert_eq!(before.end().await, Some(end()));
        assert!(after.told.try_recv().is_err() && other.told.try_recv().is_err());
    }

    #[tokio::test]
    async fn who_is_told_nothing_looks_and_who_has_gone_is_forgotten() {
        let endings = Arc::new(Endings::default());
        let mut waits = endings.expect("i");
        drop(endings.audience("i"));
        assert_eq!(waits.end().await, None);
        let (gone, stays) = (endings.expect("i"), endings.expect("i"));
        drop(gone);
        assert_eq!(endings.lock().get("i").map(Vec::len), Some(1));
        drop(stays);
        assert!(endings.lock().is_empty());
        assert!(endings.audience("i").is_empty());
    }
}
