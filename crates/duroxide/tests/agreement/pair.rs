//! Both stores, the clock that they share, and how one call is made to both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::clock::{Clock, ManualClock};
use duroxide::providers::memory::MemoryProvider;
use duroxide::providers::{
    Enqueued, FetchedTurn, GiveBack, HeldHistory, HistoryPart, LockHolder, OrchestrationItem, Provider,
    ProviderAdmin, ProviderError, ProviderErrorKind, SendOutcome, StartOutcome, Suspects, TurnRequest,
    WorkItem,
};

use super::capabilities::handler_set;
use super::items::{bounce_cause, capability_filter, commit_parts, instance_name, message_item, start_item};
use super::operations::{Commit, INSTANCES, Operation, TurnCall, Which};
use super::translation::{Both, Held, Incarnations, Token, in_words};
use super::views::everything;
use super::{Damage, Subject};

/// Both stores, and what was learned from them.
pub(crate) struct Pair {
    pub(crate) clock: Arc<ManualClock>,
    subject: Box<dyn Subject>,
    pub(crate) memory: Arc<MemoryProvider>,
    pub(crate) other: Arc<dyn Provider>,
    incarnations: Incarnations,
    pub(crate) turns: Vec<Token>,
    pub(crate) work: Vec<Token>,
    held: Both<Held>,
    pub(crate) counts: BTreeMap<String, u64>,
}

/// Whether a call succeeded on both stores, which then agree.
pub(crate) type Agreed = Result<bool, String>;

/// A small number as a time.
pub(crate) fn ms(value: u16) -> Duration {
    Duration::from_millis(u64::from(value))
}

impl Pair {
    pub(crate) async fn new(mut subject: Box<dyn Subject>) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let other = subject.open(&clock).await;
        let memory = Arc::new(MemoryProvider::with_clock_and_seed(clock.clone(), 1));
        Self {
            clock,
            subject,
            memory,
            other,
            incarnations: Incarnations::default(),
            turns: Vec::new(),
            work: Vec::new(),
            held: Both { memory: Held::default(), other: Held::default() },
            counts: BTreeMap::new(),
        }
    }

    /// Whether the other store has what nodes and routing need.
    pub(crate) fn has_capabilities(&self) -> bool {
        self.other.routes_by_handler() && self.other.keeps_nodes() && self.other.sweeps()
    }

    pub(crate) fn into_counts(self) -> BTreeMap<String, u64> {
        self.counts
    }

    pub(crate) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_string()).or_default() += 1;
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Compares the answers to one call and counts what came of it.
    pub(crate) fn agree<T: std::fmt::Debug>(
        &mut self,
        what: &str,
        memory: &Result<T, ProviderError>,
        other: &Result<T, ProviderError>,
    ) -> Agreed {
        let (ours, theirs) = (in_words(memory), in_words(other));
        if ours != theirs {
            return Err(format!("{what}\nmemory: {ours} ({memory:?})\nsqlite: {theirs} ({other:?})"));
        }
        match memory {
            Ok(_) => self.count(what),
            Err(error) => self.count(&format!("{what}: {:?}", error.kind())),
        }
        Ok(memory.is_ok())
    }

    pub(crate) async fn compare_views(&mut self) -> Result<(), String> {
        let instances: Vec<String> = (0..=INSTANCES).map(instance_name).collect();
        let memory = everything(self.memory.as_ref(), &instances).await;
        let other = everything(self.other.as_ref(), &instances).await;
        for (ours, theirs) in memory.iter().zip(&other) {
            if ours != theirs {
                return Err(format!("what can be read differs\nmemory: {ours}\nsqlite: {theirs}"));
            }
        }
        if self.has_capabilities() {
            let ours = in_words(&self.memory.list_nodes().await)
                + &in_words(&self.memory.find_unprocessable_work().await);
            let theirs = in_words(&self.other.list_nodes().await)
                + &in_words(&self.other.find_unprocessable_work().await);
            if ours != theirs {
                return Err(format!("nodes differ\nmemory: {ours}\nother: {theirs}"));
            }
        }
        for instance in &instances {
            let ours = self.memory.max_attempt_count(instance);
            let theirs = self.subject.max_attempt_count(instance).await;
            if ours != theirs {
                return Err(format!("attempts of '{instance}': memory {ours}, other {theirs}"));
            }
        }
        let (ours, theirs) = (self.memory.counters(), self.subject.dropped_messages());
        // A store counts from its opening, so that only a lower bound survives one.
        if self.counts.contains_key("reopen") || ours.dropped == theirs {
            return Ok(());
        }
        Err(format!("dropped messages: memory {ours:?}, other {theirs}"))
    }

    pub(crate) async fn carry_out(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Start { instance, parent, version, delay } => {
                let item = start_item(*instance, *parent, *version);
                let what = if parent.is_some() { "start of a child" } else { "start" };
                self.send(what, item, *delay).await
            }
            Operation::Send { message, delay } => {
                let item = message_item(self.now(), message);
                self.send(message.what(), item, *delay).await
            }
            Operation::Turn(call) => self.about_turns(call).await,
            Operation::Work(call) => self.about_work(call).await,
            Operation::Node(call) => self.about_nodes(call).await,
            Operation::Unlocked(call) => self.without_lock(call).await,
            Operation::Disturb(disturbance) => self.disturb(disturbance).await,
            Operation::Look => self.compare_views().await,
        }
    }

    async fn send(&mut self, what: &str, item: WorkItem, delay: Option<u16>) -> Result<(), String> {
        let delay = delay.map(ms);
        let memory = self.memory.enqueue_checked(item.clone(), delay).await;
        let other = self.other.enqueue_checked(item.clone(), delay).await;
        let kept = self.memory.kept_messages(item.instance()).await.unwrap_or_default();
        if kept.contains(&item) {
            self.count("send to a failed instance");
        }
        if let Ok(told) = &memory {
            self.count(what_was_told(told));
        }
        self.agree(what, &memory, &other).map(drop)
    }

    async fn about_turns(&mut self, call: &TurnCall) -> Result<(), String> {
        match call {
            TurnCall::Fetch { lock, filter, handlers, max_items, suspects, holding } => {
                let handlers = handlers.filter(|_| self.has_capabilities());
                let request = |held: &Held| TurnRequest {
                    lock_timeout: ms(*lock),
                    poll_timeout: Duration::ZERO,
                    filter: capability_filter(*filter),
                    handlers: handler_set(handlers),
                    max_items: *max_items,
                    suspects: Suspects::at_most(*suspects),
                    holder: LockHolder::of_start(&format!("node {}", lock % 3)),
                    held: Arc::new(if *holding { held.clone() } else { Held::default() }),
                };
                let memory = self.memory.fetch_turns(request(&self.held.memory)).await;
                let other = self.other.fetch_turns(request(&self.held.other)).await;
                if handlers.is_some() && memory.as_ref().is_ok_and(|turns| !turns.is_empty()) {
                    self.count("fetch turns by handler");
                }
                self.agree_on_turns(memory, other)
            }
            TurnCall::FetchPlain { lock, filter } => {
                let filter = capability_filter(*filter);
                let filter = filter.as_ref();
                let memory = self.memory.fetch_orchestration_item(ms(*lock), Duration::ZERO, filter).await;
                let other = self.other.fetch_orchestration_item(ms(*lock), Duration::ZERO, filter).await;
                self.agree_on_turns(memory.map(plain_turn), other.map(plain_turn))
            }
            TurnCall::Ack { token, commit } => self.ack_turn(*token, commit).await,
            TurnCall::Abandon { token, delay, ignore_attempt, cause } => {
                let token = which(&self.turns, *token);
                let (delay, ignore_attempt) = (delay.map(ms), *ignore_attempt);
                let how = || GiveBack { delay, ignore_attempt, cause: bounce_cause(*cause) };
                let memory = self.memory.give_back_turn(&token.memory, how()).await;
                let other = self.other.give_back_turn(&token.other, how()).await;
                if self.agree("abandon turn", &memory, &other)? {
                    spend(&mut self.turns, &token);
                }
                Ok(())
            }
            TurnCall::Renew { token, extend } => {
                let token = which(&self.turns, *token);
                let memory = self.memory.renew_orchestration_item_lock(&token.memory, ms(*extend)).await;
                let other = self.other.renew_orchestration_item_lock(&token.other, ms(*extend)).await;
                self.agree("renew turn", &memory, &other).map(drop)
            }
        }
    }

    pub(crate) fn agree_on_turns(
        &mut self,
        memory: Result<Vec<FetchedTurn>, ProviderError>,
        other: Result<Vec<FetchedTurn>, ProviderError>,
    ) -> Result<(), String> {
        let (Ok(memory), Ok(other)) = (memory, other) else { return Err("a fetch failed".to_string()) };
        if memory.len() != other.len() {
            return Err(format!("turns\nmemory: {memory:#?}\nsqlite: {other:#?}"));
        }
        if memory.len() > 1 {
            self.count("fetch several turns");
        }
        for (ours, theirs) in memory.into_iter().zip(other) {
            self.agree_on_turn(ours, theirs)?;
        }
        Ok(())
    }

    fn agree_on_turn(&mut self, mut memory: FetchedTurn, mut other: FetchedTurn) -> Result<(), String> {
        let last_event_id = match &memory.facts {
            Some(facts) => facts.last_event_id,
            None => memory.item.history.last().map_or(0, |event| event.event_id),
        };
        self.turns.push(Token {
            memory: memory.lock_token.clone(),
            other: other.lock_token.clone(),
            instance: memory.item.instance.clone(),
            execution_id: memory.item.execution_id,
            event_id: last_event_id,
            spent: false,
        });
        for (turn, held) in [(&memory, &mut self.held.memory), (&other, &mut self.held.other)] {
            if let Some(facts) = &turn.facts {
                let history = HeldHistory {
                    incarnation: facts.incarnation,
                    execution_id: turn.item.execution_id,
                    last_event_id: facts.last_event_id,
                };
                held.0.insert(turn.item.instance.clone(), history);
            }
        }
        self.incarnations.reconcile(&mut memory, &mut other)?;
        if memory != other {
            return Err(format!("a turn\nmemory: {memory:#?}\nsqlite: {other:#?}"));
        }
        self.count(if memory.facts.is_some() { "fetch turns" } else { "fetch turn" });
        if let Some(facts) = &memory.facts {
            if facts.suspect {
                self.count("fetch a suspect");
            }
            if facts.last_cause.is_some() {
                self.count("fetch a turn with a cause");
            }
            if facts.history == HistoryPart::Held {
                self.count("fetch a held history");
            }
        }
        if memory.item.history_error.is_some() {
            self.count("fetch an undecodable turn");
        }
        let put_back = |item: &WorkItem| matches!(item, WorkItem::QueueMessage { data, .. } if data.starts_with("put back"));
        if memory.item.messages.iter().any(put_back) {
            self.count("fetch with put-back messages");
        }
        Ok(())
    }

    async fn ack_turn(&mut self, token: Which, commit: &Commit) -> Result<(), String> {
        let token = which(&self.turns, token);
        let parts = commit_parts(self.now(), &token, commit);
        let on = |store: Arc<dyn Provider>, token: String| {
            let parts = parts.clone();
            async move {
                store
                    .ack_orchestration_item(
                        &token,
                        parts.execution_id,
                        parts.events,
                        parts.work,
                        parts.messages,
                        parts.metadata,
                        parts.cancelled,
                    )
                    .await
            }
        };
        let memory = on(self.memory.clone(), token.memory.clone()).await;
        let other = on(self.other.clone(), token.other.clone()).await;
        if self.agree("ack turn", &memory, &other)? {
            spend(&mut self.turns, &token);
            self.count(commit.outcome.what());
        } else if memory.is_err_and(|error| error.kind() == ProviderErrorKind::Invalid) {
            self.count("ack refused");
        }
        Ok(())
    }

    /// Opens the other store again, as a process that begins after another one does.
    pub(crate) async fn reopen(&mut self) {
        self.other = self.subject.open(&self.clock).await;
        self.count("reopen");
    }

    /// Does to the other store what no provider method does; how many rows that changed.
    pub(crate) async fn damage(&self, damage: Damage<'_>) -> usize {
        self.subject.damage(damage).await
    }

    /// The other store's management calls.
    pub(crate) fn admin(&self) -> &dyn ProviderAdmin {
        self.other.as_management_capability().expect("both stores have the management calls")
    }
}

fn what_was_told(told: &Enqueued) -> &'static str {
    match told {
        Enqueued::Start(StartOutcome::Started) => "told: started",
        Enqueued::Start(StartOutcome::AlreadyExists { same_input: true, .. }) => "told: exists, same input",
        Enqueued::Start(StartOutcome::AlreadyExists { same_input: false, .. }) => "told: exists, other input",
        Enqueued::Message(SendOutcome::Delivered) => "told: delivered",
        Enqueued::Message(SendOutcome::Kept) => "told: kept",
        Enqueued::Message(SendOutcome::NotFound) => "told: not found",
        Enqueued::Message(SendOutcome::Ended) => "told: ended",
    }
}

fn plain_turn(fetched: Option<(OrchestrationItem, String, u32)>) -> Vec<FetchedTurn> {
    let turn =
        fetched.map(|(item, lock_token, attempts)| FetchedTurn { item, lock_token, attempts, facts: None });
    turn.into_iter().collect()
}

/// Notes that the lock of a token was ended by a call.
pub(crate) fn spend(tokens: &mut [Token], spent: &Token) {
    if let Some(token) = tokens.iter_mut().find(|token| token.memory == spent.memory) {
        token.spent = true;
    }
}

/// The token that is meant; one that nobody gave out when there is none.
pub(crate) fn which(tokens: &[Token], which: Which) -> Token {
    let found = match which {
        Which::Latest => tokens.iter().rev().find(|token| !token.spent),
        Which::Any(n) => tokens.get(usize::from(n) % tokens.len().max(1)),
        Which::Nonsense => None,
    };
    found.cloned().unwrap_or(Token {
        memory: "nonsense".to_string(),
        other: "nonsense".to_string(),
        instance: instance_name(0),
        execution_id: 1,
        event_id: 0,
        spent: true,
    })
}
