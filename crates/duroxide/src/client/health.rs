//! Whether everything that was scheduled is on its way, and putting back what is not.

use std::time::Duration;

use duroxide_core::health::{Diagnosis, diagnose};
use duroxide_core::{Event, OrchestrationStatus, RecordedFailure, WorkItem, columns_of, status};

use super::{Client, ClientError};
use crate::clock::millis;
use crate::metric;
use crate::providers::{Cursor, HealthFacts, InstanceQuery, Overdue, ProviderErrorKind, RepairInstance};

/// What a health check looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthOptions {
    /// From which age on something that is ready and not taken, or an instance that does nothing, is looked at. 60 s.
    pub overdue_after: Duration,
    /// How many running instances are compared with their queues. 1,000.
    pub max_instances: usize,
    /// Where to go on: [`HealthReport::next`] of the check before.
    pub after: Option<Cursor>,
}

impl Default for HealthOptions {
    fn default() -> Self {
        Self { overdue_after: Duration::from_secs(60), max_instances: 1_000, after: None }
    }
}

/// What a health check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// What is wrong, or may be.
    pub findings: Vec<Finding>,
    /// How many running instances were compared with their queues.
    pub instances_examined: usize,
    /// Where the next check goes on; `None` when all have been looked at.
    pub next: Option<Cursor>,
    /// How long the instance that is ready longest has been, whoever may take it.
    pub oldest_ready_turn: Option<Duration>,
    /// The same for activities.
    pub oldest_ready_work: Option<Duration>,
    /// How long the store took to answer a small question.
    pub store_latency: Duration,
}

impl HealthReport {
    /// Whether nothing was found.
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Something that is wrong, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// The instance that it is about; `None` for counts over the whole store.
    pub instance: Option<String>,
    /// How many of them.
    pub count: u64,
    /// For how long, as far as it is known.
    pub age: Option<Duration>,
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Scheduled, without a result, and queued nowhere. [`Client::repair`] puts it back.
    MissingDispatch,
    /// A child has ended, and its parent was not told. [`Client::repair`] tells it.
    MissingResult,
    /// A running instance waits for nothing: no message can wake it. Or its history cannot be read.
    StuckInstance,
    /// An instance has not begun, and its start is gone.
    LostStart,
    /// Instances are ready and nobody takes them.
    OverdueTurns,
    /// Timers are due and nobody takes them.
    OverdueTimers,
    /// Locks of instances have expired and nobody takes them over.
    ExpiredTurnLocks,
    /// Activities are ready and nobody takes them.
    OverdueWork,
    /// Locks of activities have expired and nobody takes them over.
    ExpiredWorkLocks,
    /// Activities are queued whose results nobody waits for.
    OrphanWork,
    /// Messages wait for an instance that nobody has started.
    OrphanMessages,
    /// Instances and activities without a delay wait for a time to come: the store's clock was ahead when they came.
    /// They are ready when the clock gets there, or when a store in SQLite is opened again.
    AheadOfClock,
}

impl FindingKind {
    /// A word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::MissingDispatch => "missing_dispatch",
            Self::MissingResult => "missing_result",
            Self::StuckInstance => "stuck_instance",
            Self::LostStart => "lost_start",
            Self::OverdueTurns => "overdue_turns",
            Self::OverdueTimers => "overdue_timers",
            Self::ExpiredTurnLocks => "expired_turn_locks",
            Self::OverdueWork => "overdue_work",
            Self::ExpiredWorkLocks => "expired_work_locks",
            Self::OrphanWork => "orphan_work",
            Self::OrphanMessages => "orphan_messages",
            Self::AheadOfClock => "ahead_of_clock",
        }
    }

    /// Whether [`Client::repair`] mends it.
    pub fn is_repairable(self) -> bool {
        match self {
            Self::MissingDispatch | Self::MissingResult => true,
            Self::StuckInstance
            | Self::LostStart
            | Self::OverdueTurns
            | Self::OverdueTimers
            | Self::ExpiredTurnLocks
            | Self::OverdueWork
            | Self::ExpiredWorkLocks
            | Self::OrphanWork
            | Self::OrphanMessages
            | Self::AheadOfClock => false,
        }
    }
}

/// An instance that was compared with its queues.
struct Examined {
    execution_id: u64,
    last_event_id: u64,
    diagnosis: Diagnosis,
    /// Results that the parent was not told, and starts of children that do not exist.
    of_children: Vec<WorkItem>,
}

impl Client {
    /// Compares what was scheduled with what is queued, and looks for what nobody takes. Changes nothing.
    pub async fn health(&self) -> Result<HealthReport, ClientError> {
        self.health_with(&HealthOptions::default()).await
    }

    /// [`Client::health`] with options.
    pub async fn health_with(&self, options: &HealthOptions) -> Result<HealthReport, ClientError> {
        let admin = self.admin()?;
        let asked = tokio::time::Instant::now();
        let now_ms = admin.now_ms().await?;
        let oldest = admin.oldest_ready().await?;
        let store_latency = asked.elapsed();
        let age = |since: u64| Duration::from_millis(now_ms.saturating_sub(since));
        let mut findings = Vec::new();
        let overdue_ms = millis(options.overdue_after);
        if let Some(facts) = admin.health_facts(overdue_ms).await? {
            findings.extend(overdue(&facts, age));
        }
        let mut instances_examined = 0;
        let mut query = InstanceQuery {
            status: Some(status::RUNNING.to_string()),
            updated_before: Some(now_ms.saturating_sub(overdue_ms)),
            after: options.after.clone(),
            ..InstanceQuery::default()
        };
        let next = loop {
            let page = admin.list_instances_page(&query).await?;
            for info in page.instances {
                instances_examined += 1;
                match self.examine(&info.instance_id).await {
                    Ok(Some(examined)) => {
                        findings.extend(findings_of(&info.instance_id, &examined, age(info.updated_at)));
                    }
                    Ok(None) => {}
                    // One instance that is damaged must not hide what is wrong with the others.
                    Err(ClientError::Provider(error)) if error.kind() == ProviderErrorKind::Corrupt => {
                        findings.push(Finding {
                            kind: FindingKind::StuckInstance,
                            instance: Some(info.instance_id),
                            count: 1,
                            age: Some(age(info.updated_at)),
                        });
                    }
                    Err(error) => return Err(error),
                }
            }
            match page.next {
                Some(next) if instances_examined < options.max_instances => query.after = Some(next),
                next => break next,
            }
        };
        Ok(HealthReport {
            findings,
            instances_examined,
            next,
            oldest_ready_turn: oldest.turn_ms.filter(|ready_at| *ready_at <= now_ms).map(age),
            oldest_ready_work: oldest.work_ms.filter(|ready_at| *ready_at <= now_ms).map(age),
            store_latency,
        })
    }

    /// Puts back what an instance has scheduled, has no result of, and is queued nowhere; how much that was. The
    /// instance's history records it, with who asked for it ([`Client::with_identity`]). Doing it again changes nothing.
    pub async fn repair(&self, instance: &str) -> Result<u64, ClientError> {
        self.get_instance_info(instance).await?;
        let Some(examined) = self.examine(instance).await? else { return Ok(0) };
        let Examined { execution_id, last_event_id, diagnosis, of_children } = examined;
        let (activities, timers): (Vec<WorkItem>, Vec<WorkItem>) = diagnosis
            .missing
            .into_iter()
            .partition(|item| columns_of(item).kind == duroxide_core::ItemKind::Activity);
        let messages: Vec<WorkItem> = timers.into_iter().chain(of_children).collect();
        let count = activities.len() + messages.len();
        if count == 0 {
            return Ok(0);
        }
        let admin = self.admin()?;
        let request = RepairInstance {
            instance: instance.to_string(),
            execution_id,
            last_event_id,
            activities,
            messages,
            note: WorkItem::Repaired {
                instance: instance.to_string(),
                put_back: u64::try_from(count).unwrap_or(u64::MAX),
                by: self.identity.to_string(),
                at_ms: admin.now_ms().await?,
            },
        };
        let put_back = admin.repair(request).await?;
        metric::repaired().increment(put_back);
        tracing::warn!(
            target: "duroxide::runtime",
            instance_id = %instance,
            put_back,
            by = %self.identity,
            "something that was scheduled was queued nowhere, and was put back"
        );
        Ok(put_back)
    }

    /// Compares the instance with its queues; `None` if it has ended, is at work, or the store cannot tell.
    async fn examine(&self, instance: &str) -> Result<Option<Examined>, ClientError> {
        let admin = self.admin()?;
        let Some(queued) = admin.queued_for(instance).await? else { return Ok(None) };
        let history = self.provider.read_with_execution(instance, queued.execution_id).await?;
        if queued.is_locked || history.last().map_or(0, Event::event_id) != queued.last_event_id {
            return Ok(None);
        }
        let diagnosis = diagnose(&history, &queued);
        let mut of_children = Vec::new();
        for start in &diagnosis.children {
            of_children.extend(self.missing_of_child(instance, start).await?);
        }
        let (execution_id, last_event_id) = (queued.execution_id, queued.last_event_id);
        Ok(Some(Examined { execution_id, last_event_id, diagnosis, of_children }))
    }

    /// The start of a child that does not exist, or the result of one that has ended.
    async fn missing_of_child(
        &self,
        parent: &str,
        start: &WorkItem,
    ) -> Result<Option<WorkItem>, ClientError> {
        let child = start.instance();
        let Some(link) = columns_of(start).parent else { return Ok(None) };
        let seen = self.get_orchestration_status(child).await?;
        if seen == OrchestrationStatus::NotFound {
            return Ok(Some(start.clone()));
        }
        if self.get_instance_info(child).await?.parent_instance_id.as_deref() != Some(parent) {
            return Ok(None);
        }
        Ok(match seen {
            OrchestrationStatus::NotFound | OrchestrationStatus::Running { .. } => None,
            OrchestrationStatus::Completed { output, .. } => Some(WorkItem::SubOrchCompleted {
                parent_instance: link.instance,
                parent_execution_id: link.execution_id,
                parent_id: link.event_id,
                result: output,
            }),
            OrchestrationStatus::Failed { details, .. } => {
                let failure = self.get_failure(child).await?;
                let failure = failure.unwrap_or(RecordedFailure { details, error: None });
                Some(failure.told_to(&link))
            }
        })
    }
}

fn findings_of(instance: &str, examined: &Examined, age: Duration) -> Vec<Finding> {
    let is_start = |item: &&WorkItem| columns_of(item).kind == duroxide_core::ItemKind::Start;
    let starts = examined.of_children.iter().filter(is_start).count();
    let counts = [
        (FindingKind::MissingDispatch, examined.diagnosis.missing.len() + starts),
        (FindingKind::MissingResult, examined.of_children.len() - starts),
        (FindingKind::StuckInstance, usize::from(examined.diagnosis.waits_for_nothing)),
        (FindingKind::LostStart, usize::from(examined.diagnosis.never_starts)),
        (FindingKind::OrphanWork, examined.diagnosis.orphans.len()),
    ];
    let found = counts.into_iter().filter(|(_, count)| *count > 0);
    found
        .map(|(kind, count)| Finding {
            kind,
            instance: Some(instance.to_string()),
            count: u64::try_from(count).unwrap_or(u64::MAX),
            age: Some(age),
        })
        .collect()
}

fn overdue(facts: &HealthFacts, age: impl Fn(u64) -> Duration) -> Vec<Finding> {
    let all: [(FindingKind, Overdue); 8] = [
        (FindingKind::OverdueTurns, facts.overdue_turns),
        (FindingKind::OverdueTimers, facts.overdue_timers),
        (FindingKind::ExpiredTurnLocks, facts.expired_turn_locks),
        (FindingKind::OverdueWork, facts.overdue_work),
        (FindingKind::ExpiredWorkLocks, facts.expired_work_locks),
        (FindingKind::OrphanWork, facts.orphan_work),
        (FindingKind::OrphanMessages, facts.early_messages),
        (FindingKind::AheadOfClock, facts.ahead_of_clock),
    ];
    let found = all.into_iter().filter(|(_, overdue)| overdue.count > 0);
    found
        .map(|(kind, overdue)| Finding {
            kind,
            instance: None,
            count: overdue.count,
            age: overdue.oldest_ms.map(&age),
        })
        .collect()
}
