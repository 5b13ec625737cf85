//! Letting failed instances go on after a fix.

use std::collections::{BTreeSet, VecDeque};

use duroxide_core::redrive::{RedriveOf, RedrivePlan, plan_redrive, start_anew};
use duroxide_core::{
    Event, ItemKind, OpenWork, OrchestrationStatus, RecordedFailure, WorkItem, columns_of, pinned_version_of,
    status,
};

use super::{Client, ClientError};
use crate::metric;
use crate::providers::{InstanceFilter, InstanceQuery, RedriveInstance};

/// How many instances a bulk redrive looks at when its filter names no limit.
const DEFAULT_BULK: u32 = 1_000;

/// What a redrive did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveResult {
    /// The execution with which the instance goes on.
    pub execution_id: u64,
    /// All instances that go on: the one asked for, then children that its failure had cancelled.
    pub redriven: Vec<String>,
}

/// What a bulk redrive did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedriveBulkResult {
    /// All instances that go on, children included.
    pub redriven: Vec<String>,
    /// Failed instances that stay as they are, each with the reason.
    pub skipped: Vec<(String, String)>,
}

impl Client {
    /// Lets an instance go on that was poisoned, was nondeterministic, or could be replayed by no node: after the
    /// cause was fixed.
    ///
    /// The failed execution stays as it is. The next one has its history up to the failure and a record of who asked
    /// for this and when ([`Client::with_identity`]); open activities and timers, the messages that were kept when it
    /// failed, and the events sent to it since are put back with no attempts counted. Children that the failure had cancelled go on with it. A
    /// parent that has been told of the failure is not told again.
    pub async fn redrive(&self, instance: &str) -> Result<RedriveResult, ClientError> {
        let status = self.get_orchestration_status(instance).await?;
        match status {
            OrchestrationStatus::NotFound => {
                return Err(ClientError::InstanceNotFound { instance_id: instance.to_string() });
            }
            OrchestrationStatus::Running { .. } | OrchestrationStatus::Completed { .. } => {
                return Err(refused(instance, "it has not failed"));
            }
            OrchestrationStatus::Failed { .. } => {}
        }
        if !self.provider.redrives() {
            return Err(ClientError::ManagementNotAvailable);
        }
        let tree = self.plan_tree(instance).await?;
        let execution_id = tree.first().map_or(0, |root| root.failed_execution_id + 1);
        let redriven: Vec<String> = tree.iter().map(|one| one.instance.clone()).collect();
        self.provider.redrive(tree).await?;
        metric::redriven().increment(u64::try_from(redriven.len()).unwrap_or(0));
        tracing::info!(
            target: "duroxide::runtime",
            instance_id = %instance,
            execution_id,
            by = %self.identity,
            children = redriven.len() - 1,
            "a failed instance goes on"
        );
        Ok(RedriveResult { execution_id, redriven })
    }

    /// [`Client::redrive`] for every failed instance that the filter names and that can go on, latest first. One that
    /// cannot is skipped and named with the reason.
    pub async fn redrive_bulk(&self, filter: InstanceFilter) -> Result<RedriveBulkResult, ClientError> {
        let mut result = RedriveBulkResult::default();
        for instance in self.failed_instances(&filter).await? {
            if result.redriven.contains(&instance) {
                continue;
            }
            match self.redrive(&instance).await {
                Ok(done) => result.redriven.extend(done.redriven),
                Err(
                    error @ (ClientError::InvalidInput { .. }
                    | ClientError::InstanceNotFound { .. }
                    | ClientError::InstanceStillRunning { .. }),
                ) => result.skipped.push((instance, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(result)
    }

    /// The messages that a redrive puts back, in their order: those that were in the inbox of an instance when it
    /// failed, and the events sent to it since.
    pub async fn list_kept_messages(&self, instance: &str) -> Result<Vec<WorkItem>, ClientError> {
        Ok(self.provider.kept_messages(instance).await?)
    }

    async fn failed_instances(&self, filter: &InstanceFilter) -> Result<Vec<String>, ClientError> {
        let limit = usize::try_from(filter.limit.unwrap_or(DEFAULT_BULK)).unwrap_or(usize::MAX);
        let in_time = |ended: u64| filter.completed_before.is_none_or(|before| ended < before);
        let mut found = Vec::new();
        if let Some(ids) = &filter.instance_ids {
            for id in ids {
                let ended = match self.get_instance_info(id).await {
                    Ok(info) => info.updated_at,
                    // Named with the reason when it is its turn.
                    Err(ClientError::InstanceNotFound { .. }) => 0,
                    Err(error) => return Err(error),
                };
                if in_time(ended) && found.len() < limit && !found.contains(id) {
                    found.push(id.clone());
                }
            }
            return Ok(found);
        }
        let mut query =
            InstanceQuery { status: Some(status::FAILED.to_string()), ..InstanceQuery::default() };
        loop {
            let page = self.list_instances_page(&query).await?;
            for info in page.instances {
                if in_time(info.updated_at) && found.len() < limit {
                    found.push(info.instance_id);
                }
            }
            match page.next {
                Some(next) if found.len() < limit => query.after = Some(next),
                Some(_) | None => return Ok(found),
            }
        }
    }

    /// The instance and those of its descendants that its failure had cancelled.
    async fn plan_tree(&self, root: &str) -> Result<Vec<RedriveInstance>, ClientError> {
        let mut planned = Vec::new();
        let mut waiting = VecDeque::from([(root.to_string(), RedriveOf::Asked)]);
        while let Some((instance, why)) = waiting.pop_front() {
            let (one, children) = self.plan_one(&instance, why).await?;
            planned.push(one);
            waiting.extend(children.into_iter().map(|child| (child, RedriveOf::CancelledChild)));
        }
        Ok(planned)
    }

    /// One instance, and its children that go on with it.
    async fn plan_one(
        &self,
        instance: &str,
        why: RedriveOf,
    ) -> Result<(RedriveInstance, Vec<String>), ClientError> {
        let history = self.provider.read(instance).await?;
        let info = self.get_instance_info(instance).await?;
        let failed_execution_id = info.current_execution_id;
        let plan = plan_redrive(&history, why).map_err(|cause| refused(instance, &cause))?;
        let kept = self.provider.kept_messages(instance).await?;
        let RedrivePlan { events, open: OpenWork { mut activities, timers, mut children, .. } } = plan;
        // What has answered and was not read is kept: it need not run again.
        let answered: BTreeSet<(u64, u64)> = kept.iter().filter_map(answers).collect();
        activities.retain(|activity| !schedule(activity).is_some_and(|known| answered.contains(&known)));
        children.retain(|child| {
            let link = columns_of(child).parent;
            !link.is_some_and(|link| answered.contains(&(link.execution_id, link.event_id)))
        });
        let mut messages = Vec::new();
        if events.is_empty() {
            let start = start_anew(&history, &kept);
            messages.push(start.ok_or_else(|| refused(instance, "its start is unknown"))?);
        }
        messages.push(WorkItem::Redriven {
            instance: instance.to_string(),
            from_execution_id: failed_execution_id,
            by: self.identity.to_string(),
            at_ms: self.admin()?.now_ms().await?,
        });
        messages.extend(timers);
        let mut go_on = Vec::new();
        for child in children {
            match self.state_of_child(instance, child).await? {
                ChildState::GoesOn(id) => go_on.push(id),
                ChildState::Message(item) => messages.push(item),
            }
        }
        let kept_seen = kept.len();
        messages.extend(kept.into_iter().filter(|item| !begins(item)));
        let one = RedriveInstance {
            instance: instance.to_string(),
            failed_execution_id,
            last_event_id: history.last().map_or(0, Event::event_id),
            pinned: pinned_version_of(&events),
            events,
            activities,
            messages,
            kept_seen,
        };
        Ok((one, go_on))
    }

    /// What becomes of a child whose result its parent has not had.
    async fn state_of_child(&self, parent: &str, start: WorkItem) -> Result<ChildState, ClientError> {
        let child = start.instance().to_string();
        let link = columns_of(&start).parent;
        let is_own = match self.get_instance_info(&child).await {
            Ok(info) => info.parent_instance_id.as_deref() == Some(parent),
            Err(ClientError::InstanceNotFound { .. }) => false,
            Err(error) => return Err(error),
        };
        // One that is gone starts again; if the id is somebody else's, the store tells the parent so.
        let (true, Some(link)) = (is_own, link) else { return Ok(ChildState::Message(start)) };
        match self.get_orchestration_status(&child).await? {
            OrchestrationStatus::NotFound => Ok(ChildState::Message(start)),
            OrchestrationStatus::Running { .. } => {
                Err(ClientError::InstanceStillRunning { instance_id: child })
            }
            OrchestrationStatus::Completed { output, .. } => {
                Ok(ChildState::Message(WorkItem::SubOrchCompleted {
                    parent_instance: link.instance,
                    parent_execution_id: link.execution_id,
                    parent_id: link.event_id,
                    result: output,
                }))
            }
            OrchestrationStatus::Failed { details, .. } => {
                let history = self.provider.read(&child).await?;
                if plan_redrive(&history, RedriveOf::CancelledChild).is_ok() {
                    return Ok(ChildState::GoesOn(child));
                }
                let failure = RecordedFailure::at_end_of(&history);
                let failure = failure.unwrap_or(RecordedFailure { details, error: None });
                Ok(ChildState::Message(failure.told_to(&link)))
            }
        }
    }
}

/// What becomes of a child.
enum ChildState {
    /// It goes on with its parent.
    GoesOn(String),
    /// The parent's inbox gets its result, or its start is sent again.
    Message(WorkItem),
}

/// The execution and schedule that an activity belongs to.
fn schedule(item: &WorkItem) -> Option<(u64, u64)> {
    let columns = columns_of(item);
    columns.execution_id.zip(columns.event_id)
}

/// The execution and schedule that a message answers.
fn answers(item: &WorkItem) -> Option<(u64, u64)> {
    schedule(item).filter(|_| columns_of(item).kind == ItemKind::Completion)
}

/// Whether a message begins an execution.
fn begins(item: &WorkItem) -> bool {
    matches!(columns_of(item).kind, ItemKind::Start | ItemKind::ContinueAsNew)
}

fn refused(instance: &str, cause: &str) -> ClientError {
    ClientError::invalid(format!("instance '{instance}' cannot be redriven: {cause}"))
}
