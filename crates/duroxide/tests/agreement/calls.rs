//! The calls about work items, and those that need no lock.

use std::time::Duration;

use duroxide::providers::{
    FetchedWork, GiveBack, LockHolder, Provider, ProviderAdmin, PruneOptions, SessionFetchConfig,
    SessionLimits, SessionOverlap, Suspects, WorkItem, WorkRequest,
};
use duroxide_core::{ItemKind, columns_of};

use super::Damage;
use super::capabilities::activity_set;
use super::items::{bounce_cause, bulk_filter, happened, instance_name, message_item, tag_filter, work_item};
use super::operations::{Completion, Disturbance, Message, UnlockedCall, Which, WorkCall};
use super::pair::{Pair, ms, spend, which};
use super::translation::{Token, without_token};

impl Pair {
    pub(crate) async fn about_work(&mut self, call: &WorkCall) -> Result<(), String> {
        match call {
            WorkCall::Queue { work } => {
                let item = work_item(work);
                let memory = self.memory.enqueue_for_worker(item.clone()).await;
                let other = self.other.enqueue_for_worker(item).await;
                self.agree("queue work", &memory, &other).map(drop)
            }
            WorkCall::Fetch { lock, session, limits, tags, activities, max_items, suspects } => {
                let request = WorkRequest {
                    lock_timeout: ms(*lock),
                    poll_timeout: Duration::ZERO,
                    session: session.map(|(owner, lock)| SessionFetchConfig {
                        owner_id: format!("owner {owner}"),
                        lock_timeout: ms(lock),
                    }),
                    session_limits: SessionLimits {
                        max_running: if limits.0 < 3 { limits.0.into() } else { usize::MAX },
                        overlap: if limits.1 { SessionOverlap::OneAtATime } else { SessionOverlap::Parallel },
                    },
                    tags: tag_filter(*tags),
                    activities: activity_set(activities.filter(|_| self.has_capabilities())),
                    max_items: *max_items,
                    suspects: Suspects::at_most(*suspects),
                    holder: LockHolder::of_start(&format!("node {}", lock % 3)),
                };
                self.fetch_work(request).await
            }
            WorkCall::Ack { token, completion } => {
                let token = which(&self.work, *token);
                let completion = self.completion(&token, *completion);
                let memory = self.memory.ack_work_item(&token.memory, completion.clone()).await;
                let other = self.other.ack_work_item(&token.other, completion).await;
                if self.agree("ack work", &memory, &other)? {
                    spend(&mut self.work, &token);
                }
                Ok(())
            }
            WorkCall::Abandon { token, delay, ignore_attempt, cause } => {
                let (token, delay, ignore_attempt) =
                    (which(&self.work, *token), delay.map(ms), *ignore_attempt);
                let how = || GiveBack { delay, ignore_attempt, cause: bounce_cause(*cause) };
                let memory = self.memory.give_back_work(&token.memory, how()).await;
                let other = self.other.give_back_work(&token.other, how()).await;
                if self.agree("abandon work", &memory, &other)? {
                    spend(&mut self.work, &token);
                }
                Ok(())
            }
            WorkCall::Renew { token, extend } => {
                let token = which(&self.work, *token);
                let memory = self.memory.renew_work_item_lock(&token.memory, ms(*extend)).await;
                let other = self.other.renew_work_item_lock(&token.other, ms(*extend)).await;
                self.agree("renew work", &memory, &other).map(drop)
            }
            WorkCall::Progress { token, details } => {
                let token = which(&self.work, *token);
                // An empty report among the others.
                let details = "é".repeat(usize::from(*details % 8));
                let memory = self.memory.record_progress(&token.memory, &details).await;
                let other = self.other.record_progress(&token.other, &details).await;
                self.agree("record progress", &memory, &other).map(drop)
            }
            WorkCall::Forgive { token } => {
                let token = which(&self.work, *token);
                let memory = self.memory.forgive_attempt(&token.memory).await;
                let other = self.other.forgive_attempt(&token.other).await;
                self.agree("forgive an attempt", &memory, &other).map(drop)
            }
            WorkCall::Lost => self.lost_work().await,
            WorkCall::RenewSessions { owners, extend, idle } => {
                self.renew_sessions(owners, ms(*extend), ms(*idle)).await
            }
            WorkCall::CleanupSessions => {
                let memory = self.memory.cleanup_orphaned_sessions(Duration::ZERO).await;
                let other = self.other.cleanup_orphaned_sessions(Duration::ZERO).await;
                self.agree("cleanup sessions", &memory, &other).map(drop)
            }
        }
    }

    async fn renew_sessions(
        &mut self,
        owners: &[u8],
        extend: Duration,
        idle: Duration,
    ) -> Result<(), String> {
        let owners: Vec<String> = owners.iter().map(|owner| format!("owner {owner}")).collect();
        let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
        let memory = self.memory.renew_session_lock(&owners, extend, idle).await;
        let other = self.other.renew_session_lock(&owners, extend, idle).await;
        self.agree("renew sessions", &memory, &other).map(drop)
    }

    fn completion(&self, token: &Token, completion: Completion) -> Option<WorkItem> {
        let done = |instance: String| WorkItem::ActivityCompleted {
            instance,
            execution_id: token.execution_id,
            id: token.event_id,
            result: "result".to_string(),
        };
        match completion {
            Completion::None => None,
            Completion::Right => Some(done(token.instance.clone())),
            Completion::ForAnother(instance) => Some(done(instance_name(instance))),
            Completion::Wrong => Some(message_item(self.now(), &Message::Cancel { instance: 0 })),
        }
    }

    async fn fetch_work(&mut self, request: WorkRequest) -> Result<(), String> {
        let routed = request.activities.is_some();
        let claimed = self.claimed_sessions();
        let memory = self.memory.fetch_work(request.clone()).await.map_err(|error| error.to_string())?;
        if self.claimed_sessions() < claimed {
            self.count("give a claim up");
        }
        let other = self.other.fetch_work(request).await.map_err(|error| error.to_string())?;
        if routed && !memory.is_empty() {
            self.count("fetch work by handler");
        }
        self.agree_on_work(memory, other)
    }

    fn claimed_sessions(&self) -> usize {
        let now = i64::try_from(self.now()).expect("a time of the tests");
        self.memory.snapshot().sessions.values().filter(|session| now < session.locked_until).count()
    }

    pub(crate) fn agree_on_work(
        &mut self,
        memory: Vec<FetchedWork>,
        other: Vec<FetchedWork>,
    ) -> Result<(), String> {
        for (ours, theirs) in memory.iter().zip(&other) {
            let columns = columns_of(&ours.item);
            self.work.push(Token {
                memory: ours.lock_token.clone(),
                other: theirs.lock_token.clone(),
                instance: columns.instance.to_string(),
                execution_id: columns.execution_id.unwrap_or(0),
                event_id: columns.event_id.unwrap_or(0),
                spent: false,
            });
        }
        let memory: Vec<FetchedWork> = memory.into_iter().map(without_token).collect();
        let other: Vec<FetchedWork> = other.into_iter().map(without_token).collect();
        if memory != other {
            return Err(format!("work\nmemory: {memory:#?}\nsqlite: {other:#?}"));
        }
        for work in &memory {
            self.count("fetch work");
            if work.suspect {
                self.count("fetch suspected work");
            }
            if work.expired.is_some() {
                self.count("fetch work of a lock that expired");
            }
            if work.forgiven > 0 {
                self.count("fetch work with forgiven attempts");
            }
            if work.progress.is_some() {
                self.count("fetch work with progress");
            }
            if matches!(work.item, WorkItem::ActivityExecuteWithin { .. }) {
                self.count("fetch work with a deadline");
            }
            if columns_of(&work.item).session_id.is_some() {
                self.count("fetch work of a session");
            }
        }
        Ok(())
    }

    async fn lost_work(&mut self) -> Result<(), String> {
        let of = |token: fn(&Token) -> &String, tokens: &[Token]| -> Vec<String> {
            tokens.iter().map(|both| token(both).clone()).collect()
        };
        let (memory, other) = (of(|token| &token.memory, &self.work), of(|token| &token.other, &self.work));
        let places = |lost: Vec<String>, all: &[String]| -> Vec<Option<usize>> {
            lost.iter().map(|token| all.iter().position(|other| other == token)).collect()
        };
        let ours =
            self.memory.lost_work_items(&memory, Duration::ZERO).await.map(|lost| places(lost, &memory));
        let theirs =
            self.other.lost_work_items(&other, Duration::ZERO).await.map(|lost| places(lost, &other));
        self.agree("lost work", &ours, &theirs).map(drop)
    }

    pub(crate) async fn without_lock(&mut self, call: &UnlockedCall) -> Result<(), String> {
        let now = self.now();
        match call {
            UnlockedCall::Append { instance, execution_id, events, numbered } => {
                let token = Token {
                    instance: instance_name(*instance),
                    execution_id: *execution_id,
                    ..which(&[], Which::Nonsense)
                };
                let stored = self.memory.read_with_execution(&token.instance, *execution_id).await;
                let last =
                    stored.ok().and_then(|events| events.last().map(|event| event.event_id)).unwrap_or(0);
                let ids = (last + 1..).map(|id| if *numbered { id } else { 0 });
                let events: Vec<_> =
                    ids.zip(events).map(|(id, event)| happened(now, id, &token, event)).collect();
                let memory =
                    self.memory.append_with_execution(&token.instance, *execution_id, events.clone()).await;
                let other = self.other.append_with_execution(&token.instance, *execution_id, events).await;
                self.agree("append", &memory, &other).map(drop)
            }
            UnlockedCall::DeleteInstance { instance, force } => {
                let id = instance_name(*instance);
                let memory = self.memory.delete_instance(&id, *force).await;
                let other = self.admin().delete_instance(&id, *force).await;
                self.agree("delete instance", &memory, &other).map(drop)
            }
            UnlockedCall::DeleteSeveral { instances, force } => {
                let ids: Vec<String> = instances.iter().copied().map(instance_name).collect();
                let memory = self.memory.delete_instances_atomic(&ids, *force).await;
                let other = self.admin().delete_instances_atomic(&ids, *force).await;
                self.agree("delete several", &memory, &other).map(drop)
            }
            UnlockedCall::DeleteBulk { filter } => {
                let filter = bulk_filter(now, filter);
                let memory = self.memory.delete_instance_bulk(filter.clone()).await;
                let other = self.admin().delete_instance_bulk(filter).await;
                self.agree("delete bulk", &memory, &other).map(drop)
            }
            UnlockedCall::Prune { instance, keep_last, before } => {
                let options = prune_options(now, *keep_last, *before);
                let id = instance_name(*instance);
                let memory = self.memory.prune_executions(&id, options.clone()).await;
                let other = self.admin().prune_executions(&id, options).await;
                self.agree("prune", &memory, &other).map(drop)
            }
            UnlockedCall::Redrive { instances } => self.redrive(instances).await,
            UnlockedCall::PruneBulk { filter, keep_last, before } => {
                let (filter, options) = (bulk_filter(now, filter), prune_options(now, *keep_last, *before));
                let memory = self.memory.prune_executions_bulk(filter.clone(), options.clone()).await;
                let other = self.admin().prune_executions_bulk(filter, options).await;
                self.agree("prune bulk", &memory, &other).map(drop)
            }
        }
    }

    /// What no provider method does: damage, time, a new process.
    pub(crate) async fn disturb(&mut self, disturbance: &Disturbance) -> Result<(), String> {
        match disturbance {
            Disturbance::CorruptHistory { instance } => {
                let id = instance_name(*instance);
                let ours = usize::from(self.memory.corrupt_history(&id));
                let theirs = self.damage(Damage::LastEvent(&id)).await;
                self.corrupted("corrupt history", ours, theirs)
            }
            Disturbance::CorruptMessages { instance, kind } => {
                let id = instance_name(*instance);
                let Some(kind) = ItemKind::from_code(i64::from(*kind)) else { return Ok(()) };
                let ours = self.memory.corrupt_messages(&id, kind);
                let theirs = self.damage(Damage::Messages(&id, kind)).await;
                self.corrupted("corrupt messages", ours, theirs)
            }
            Disturbance::CorruptWork { instance } => {
                let id = instance_name(*instance);
                let ours = self.memory.corrupt_work(&id);
                let theirs = self.damage(Damage::Work(&id)).await;
                self.corrupted("corrupt work", ours, theirs)
            }
            Disturbance::Advance { ms } => {
                self.clock.advance(Duration::from_millis(u64::from(*ms)));
                Ok(())
            }
            Disturbance::Reopen => {
                self.reopen().await;
                Ok(())
            }
        }
    }

    fn corrupted(&mut self, what: &str, ours: usize, theirs: usize) -> Result<(), String> {
        if ours != theirs {
            return Err(format!("{what}: {ours} rows in memory, {theirs} in the other store"));
        }
        if ours > 0 {
            self.count(what);
        }
        Ok(())
    }
}

fn prune_options(now: u64, keep_last: Option<u32>, before: Option<u16>) -> PruneOptions {
    PruneOptions { keep_last, completed_before: before.map(|before| now.saturating_sub(u64::from(before))) }
}
