//! Routing by handler: a node gets only what it has registered, however much of others' work stands before it.
//! A store that does not route gives it everything, as if the fetch had named nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide_core::{HandlerSet, HandlerVersions, ItemKind, SYSCALL_PREFIX};

use super::ProviderFactory;
use super::fixture::{
    Commit, LONG, Store, Turn, Work, activity, below, cancel, event, routed_activity, semver, start, started,
};
use crate::{
    NothingHeld, SessionFetchConfig, SessionLimits, Suspects, TagFilter, TurnRequest, WorkItem, WorkRequest,
};

/// More than a fetch looks at before it goes by route, in any store.
const CROWD: usize = 200;

/// Orchestrations by name, each with its versions; the last one is what a start without a version gets.
fn handlers(orchestrations: &[(&str, &[&str])]) -> Arc<HandlerSet> {
    let handlers = orchestrations.iter().map(|(name, versions)| {
        let versions: BTreeSet<_> = versions.iter().map(|version| semver(version)).collect();
        let unversioned = versions.last().cloned();
        ((*name).to_string(), HandlerVersions { versions, unversioned })
    });
    Arc::new(HandlerSet { orchestrations: handlers.collect() })
}

fn names(activities: &[&str]) -> Arc<BTreeSet<String>> {
    Arc::new(activities.iter().map(|name| (*name).to_string()).collect())
}

fn turn_request(store: &Store<'_>, handlers: &Arc<HandlerSet>) -> TurnRequest {
    TurnRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        filter: None,
        handlers: Some(handlers.clone()),
        max_items: 1,
        suspects: Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
        held: Arc::new(NothingHeld),
    }
}

fn work_request(store: &Store<'_>, activities: &[&str]) -> WorkRequest {
    WorkRequest {
        lock_timeout: store.lock,
        poll_timeout: Duration::ZERO,
        session: None,
        session_limits: SessionLimits::NONE,
        tags: TagFilter::DefaultOnly,
        activities: Some(names(activities)),
        max_items: 1,
        suspects: Suspects::AtMost(1),
        holder: crate::LockHolder::UNKNOWN,
    }
}

impl Store<'_> {
    async fn turns(&self, request: TurnRequest) -> Vec<Turn> {
        let turns = self.provider.fetch_turns(request).await.expect("a fetch does not fail").into_iter();
        turns.map(|turn| Turn { item: turn.item, token: turn.lock_token, attempts: turn.attempts }).collect()
    }

    async fn turn_for(&self, handlers: &Arc<HandlerSet>) -> Option<Turn> {
        self.turns(turn_request(self, handlers)).await.into_iter().next()
    }

    async fn works(&self, request: WorkRequest) -> Vec<Work> {
        let work = self.provider.fetch_work(request).await.expect("a fetch does not fail").into_iter();
        work.map(|work| Work { item: work.item, token: work.lock_token, attempts: work.attempts }).collect()
    }

    async fn work_for(&self, activities: &[&str]) -> Option<Work> {
        self.works(work_request(self, activities)).await.into_iter().next()
    }

    /// Insists that a node with these handlers does not get what is ready, which is left uncounted. Where the store
    /// does not route, it gets it, and gives it back uncounted.
    async fn expect_no_turn_for(&self, handlers: &Arc<HandlerSet>) {
        let turn = self.turn_for(handlers).await;
        if self.provider.routes_by_handler() {
            assert!(turn.is_none(), "{turn:?} is for others");
        } else if let Some(turn) = turn {
            self.abandon_uncounted(&turn).await;
        }
    }

    async fn expect_no_work_for(&self, activities: &[&str]) {
        let work = self.work_for(activities).await;
        if self.provider.routes_by_handler() {
            assert!(work.is_none(), "{work:?} is for others");
        } else if let Some(work) = work {
            self.abandon_work(&work, None, true).await;
        }
    }
}

fn start_of(instance: &str, name: &str, asked: Option<&str>) -> WorkItem {
    let mut item = start(instance);
    if let WorkItem::StartOrchestration { orchestration, version, .. } = &mut item {
        *orchestration = name.to_string();
        *version = asked.map(str::to_string);
    }
    item
}

fn continue_with(instance: &str, asked: Option<&str>) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_string(),
        orchestration: "Validate".to_string(),
        input: "next".to_string(),
        version: asked.map(str::to_string),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    }
}

fn activity_named(instance: &str, id: u64, name: &str) -> WorkItem {
    renamed(activity(instance, id), name)
}

fn renamed(mut item: WorkItem, to: &str) -> WorkItem {
    if let WorkItem::ActivityExecute { name, .. } = &mut item {
        *name = to.to_string();
    }
    item
}

/// An instance goes to nodes that have its orchestration, and to no other.
pub async fn a_node_gets_only_orchestrations_that_it_has(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start_of("a", "Mine", None)).await;
    for theirs in [handlers(&[]), handlers(&[("Theirs", &["1.0.0"])])] {
        store.expect_no_turn_for(&theirs).await;
    }
    assert_eq!(store.max_attempts("a").await, 0);
    let turn = store.turn_for(&handlers(&[("Mine", &["1.0.0"])])).await.expect("registered");
    assert_eq!((turn.item.instance.as_str(), turn.attempts), ("a", 1));
}

/// A version that a start asks for is needed exactly, whatever the node would choose.
pub async fn a_version_asked_for_is_needed_exactly(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start_of("a", "Mine", Some("1.0.0"))).await;
    for others in [["1.0.1"], ["2.0.0"], ["1.0.0-beta.1"], ["1.0.0+build"]] {
        store.expect_no_turn_for(&handlers(&[("Mine", &others)])).await;
    }
    assert!(store.turn_for(&handlers(&[("Mine", &["1.0.0", "2.0.0"])])).await.is_some());
    store.send(start_of("b", "Mine", Some("no version"))).await;
    store.expect_no_turn_for(&handlers(&[("Mine", &["1.0.0", "2.0.0"])])).await;
}

/// A start without a version needs a node whose policy chooses one.
pub async fn a_start_without_a_version_needs_a_policy(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send(start_of("a", "Mine", None)).await;
    let mut undecided = (*handlers(&[("Mine", &["1.0.0", "2.0.0"])])).clone();
    undecided.orchestrations.get_mut("Mine").expect("registered").unversioned = None;
    store.expect_no_turn_for(&Arc::new(undecided)).await;
    assert!(store.turn_for(&handlers(&[("Mine", &["2.0.0"])])).await.is_some());
}

/// An execution that has begun needs the version that it began with.
pub async fn a_begun_execution_needs_its_version(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin("a").await;
    store.send(event("a", "go")).await;
    store.expect_no_turn_for(&handlers(&[("Validate", &["0.9.0", "1.1.0"])])).await;
    let turn = store.turn_for(&handlers(&[("Validate", &["1.0.0", "1.1.0"])])).await.expect("registered");
    store.pass(&turn).await;
    store.send(event("a", "more")).await;
    store.expect_no_turn_for(&handlers(&[("Validate", &["1.1.0"])])).await;
}

/// The next execution needs what it asks for, not what ran before it.
pub async fn the_next_execution_needs_what_it_asks_for(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let (one, two) = (handlers(&[("Validate", &["1.0.0"])]), handlers(&[("Validate", &["2.0.0"])]));
    let continued = |commit: Commit, asked| {
        let mut commit = commit.messages([continue_with("a", asked)]);
        commit.metadata.status = Some(duroxide_core::status::CONTINUED_AS_NEW.to_string());
        commit
    };
    // Its first turn is also its last.
    store.begin_with("a", |commit| continued(commit, None)).await;
    let turn = store.turn_for(&two).await.expect("any version that a node chooses");
    let began = started("a", turn.item.execution_id);
    store.commit(&turn, continued(Commit::of(&turn).events([began]), Some("2.0.0"))).await;
    store.expect_no_turn_for(&one).await;
    let turn = store.turn_for(&two).await.expect("the version asked for");
    // It began as 1.0.0, whatever was asked for: that is what its history says.
    store.commit(&turn, Commit::of(&turn).events([started("a", turn.item.execution_id)])).await;
    store.send(event("a", "go")).await;
    store.expect_no_turn_for(&two).await;
    assert!(store.turn_for(&one).await.is_some());
}

/// A cancel reaches an instance by any node that replays its version; without it the handler is needed again.
pub async fn a_cancel_goes_to_any_node(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    let nobody = handlers(&[]);
    store.begin_pinned("a", "1.0.0").await;
    store.expect_no_turn_for(&nobody).await;
    store.send(cancel("a")).await;
    let other = TurnRequest { filter: Some(below("2.0.0", "3.0.0")), ..turn_request(&store, &nobody) };
    assert!(store.turns(other).await.is_empty(), "it could not read the history");
    let turn = store.turn_for(&nobody).await.expect("a cancel needs no handler");
    store.abandon(&turn, None).await;
    let turn = store.turn_for(&nobody).await.expect("the cancel still waits");
    store.send(event("a", "meanwhile")).await;
    store.pass(&turn).await;
    store.expect_no_turn_for(&nobody).await;
    let turn = store.turn_for(&handlers(&[("Validate", &["1.0.0"])])).await.expect("registered");
    store.send_all([cancel("a"), event("a", "more")]).await;
    store.pass(&turn).await;
    assert!(store.turn_for(&nobody).await.is_some(), "a cancel that came during the turn");
}

/// A cancel that does not decode is set aside, and then nothing but the handler helps.
pub async fn an_undecodable_cancel_opens_nothing(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.send_all([start("a"), cancel("a")]).await;
    if !store.corrupt_messages("a", ItemKind::Cancel).await {
        return;
    }
    let nobody = handlers(&[]);
    // The first look may find out only by taking it.
    if let Some(turn) = store.turn_for(&nobody).await {
        store.abandon_uncounted(&turn).await;
    }
    store.expect_no_turn_for(&nobody).await;
    assert!(store.turn_for(&handlers(&[("Validate", &["1.0.0"])])).await.is_some());
}

/// Others' work does not hide ours, and among ours the one that has been ready longest comes first.
pub async fn others_instances_stand_in_nobody_s_way(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.routes_by_handler() {
        return;
    }
    for number in 0..CROWD {
        store.send(start_of(&format!("theirs {number}"), "Theirs", None)).await;
    }
    let versions = [Some("1.0.0"), None, Some("2.0.0"), Some("1.0.0")];
    for (number, version) in versions.into_iter().enumerate() {
        factory.advance(Duration::from_millis(5)).await;
        store.send(start_of(&format!("mine {number}"), "Mine", version)).await;
    }
    factory.advance(Duration::from_millis(5)).await;
    store.send(cancel("theirs 7")).await;
    let mine = handlers(&[("Mine", &["1.0.0"])]);
    let request = TurnRequest { max_items: CROWD, ..turn_request(&store, &mine) };
    let turns = store.turns(request).await;
    let instances: Vec<&str> = turns.iter().map(|turn| turn.item.instance.as_str()).collect();
    assert_eq!(instances, ["theirs 7", "mine 0", "mine 1", "mine 3"], "the cancelled one is the oldest");
    store.expire_locks().await;
    let suspect = store.turn_for(&mine).await.expect("a suspect keeps its route");
    assert_eq!((suspect.item.instance.as_str(), suspect.attempts), ("theirs 7", 2));
    store.expect_no_turn_for(&handlers(&[("Nobody's", &["1.0.0"])])).await;
}

/// A fetch that waits is answered by what it can run, not by what it cannot.
pub async fn a_waiting_fetch_is_woken_by_its_own(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.routes_by_handler() {
        return;
    }
    let mine = handlers(&[("Mine", &["1.0.0"])]);
    let waiting = TurnRequest { poll_timeout: LONG, ..turn_request(&store, &mine) };
    let working = WorkRequest { poll_timeout: LONG, ..work_request(&store, &["Mine"]) };
    let send = async {
        store.send(start_of("theirs", "Theirs", None)).await;
        store.queue_work(activity_named("x", 1, "Theirs")).await;
        store.send(start_of("mine", "Mine", None)).await;
        store.queue_work(activity_named("x", 2, "Mine")).await;
    };
    let (turns, work, ()) = tokio::join!(store.turns(waiting), store.works(working), send);
    assert_eq!(turns.first().map(|turn| turn.item.instance.as_str()), Some("mine"));
    assert_eq!(work.first().map(|work| &work.item), Some(&activity_named("x", 2, "Mine")));
}

/// Both conditions count: the version that the execution is pinned to, and the handler.
pub async fn routing_narrows_the_filter(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.begin_pinned("a", "1.0.0").await;
    let mine = handlers(&[("Validate", &["1.0.0"])]);
    let later = TurnRequest { filter: Some(below("2.0.0", "3.0.0")), ..turn_request(&store, &mine) };
    assert!(store.turns(later).await.is_empty());
    let fitting = TurnRequest { filter: Some(below("1.0.0", "2.0.0")), ..turn_request(&store, &mine) };
    assert_eq!(store.turns(fitting).await.len(), 1);
}

/// A worker gets activities that it has, and no others.
pub async fn a_worker_gets_only_activities_that_it_has(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    store.queue_work(activity_named("a", 1, "Mine")).await;
    for theirs in [&[][..], &["Theirs"], &["mine"], &[SYSCALL_PREFIX]] {
        store.expect_no_work_for(theirs).await;
    }
    let work = store.work_for(&["Mine", "More"]).await.expect("registered");
    assert_eq!((&work.item, work.attempts), (&activity_named("a", 1, "Mine"), 1));
}

/// Others' activities do not hide ours; tags count as ever, and a suspect keeps its route.
pub async fn others_activities_stand_in_nobody_s_way(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.routes_by_handler() {
        return;
    }
    for id in 0..CROWD {
        store.queue_work(activity_named("a", u64::try_from(id).expect("small"), "Theirs")).await;
    }
    let tagged = renamed(routed_activity("b", 3, None, Some("gpu")), "Mine");
    for item in [activity_named("b", 1, "Mine"), activity_named("b", 2, "More"), tagged.clone()] {
        factory.advance(Duration::from_millis(5)).await;
        store.queue_work(item).await;
    }
    let request = WorkRequest { max_items: 10, ..work_request(&store, &["More", "Mine"]) };
    let work = store.works(request.clone()).await;
    let items: Vec<&WorkItem> = work.iter().map(|work| &work.item).collect();
    assert_eq!(items, [&activity_named("b", 1, "Mine"), &activity_named("b", 2, "More")]);
    let gpu = WorkRequest { tags: TagFilter::tags(["gpu"]), ..request.clone() };
    assert_eq!(store.works(gpu).await.first().map(|work| &work.item), Some(&tagged));
    store.expire_locks().await;
    let again = store.works(WorkRequest { tags: TagFilter::Any, ..request }).await;
    assert_eq!(again.len(), 1, "one suspect at a time");
    assert!(store.work_for(&["Nobody's"]).await.is_none());
}

/// Sessions are routed as well: a session whose first activity is for others is served from what is ours.
pub async fn sessions_are_routed_too(factory: &dyn ProviderFactory) {
    let store = Store::new(factory).await;
    if !store.provider.routes_by_handler() {
        return;
    }
    let of_session = |id, session: &str, name| renamed(routed_activity("a", id, Some(session), None), name);
    store.queue_work(of_session(1, "s", "Theirs")).await;
    store.queue_work(of_session(2, "s", "Mine")).await;
    store.queue_work(of_session(3, "t", "Theirs")).await;
    let owner =
        |owner: &str| Some(SessionFetchConfig { owner_id: owner.to_string(), lock_timeout: store.lock * 4 });
    let request = WorkRequest { session: owner("me"), ..work_request(&store, &["Mine"]) };
    let work = store.works(request.clone()).await;
    assert_eq!(work.first().map(|work| &work.item), Some(&of_session(2, "s", "Mine")));
    assert!(store.works(request.clone()).await.is_empty());
    // Full: only sessions that it owns are looked at, and of those only what it can run.
    let full = SessionLimits { max_running: 1, ..SessionLimits::NONE };
    store.queue_work(of_session(4, "s", "Mine")).await;
    store.queue_work(of_session(5, "u", "Mine")).await;
    let work = store.works(WorkRequest { session_limits: full, max_items: 5, ..request }).await;
    let items: Vec<&WorkItem> = work.iter().map(|work| &work.item).collect();
    assert_eq!(items, [&of_session(4, "s", "Mine")]);
    let other = WorkRequest { session: owner("other"), max_items: 5, ..work_request(&store, &["Theirs"]) };
    let work = store.works(other).await;
    let items: Vec<&WorkItem> = work.iter().map(|work| &work.item).collect();
    assert_eq!(items, [&of_session(3, "t", "Theirs")], "the other session is owned");
}
