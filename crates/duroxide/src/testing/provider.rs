//! The store that fails as told: its settings, and what becomes of one call.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::observer::Nobody;
use super::refusal::Refusal;
use super::{Fault, FaultSource, FrozeWhen, Line, Method, Observer};
use crate::providers::{GiveBack, Provider, ProviderError, ProviderErrorKind, WorkItem};
use duroxide_provider::drop_after::drop_after;

/// A store between the runtime and another store, whose calls fail as told. See [the module](super).
pub struct FaultProvider {
    pub(super) inner: Arc<dyn Provider>,
    pub(super) observer: Arc<dyn Observer>,
    source: Option<Arc<dyn FaultSource>>,
    line: Line,
    frozen: CancellationToken,
    /// Hides the extension methods, as a wrapper that does not know them would.
    pub(super) plain: bool,
    /// Hides the filter from the store.
    pub(super) ignore_filter: bool,
    pub(super) events_fetched: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    script: BTreeMap<Method, VecDeque<Fault>>,
    calls: BTreeMap<Method, u64>,
    given_back: BTreeMap<Method, Vec<GivenBack>>,
    instead_of_work: Option<WorkItem>,
    refusals: Vec<Refusal>,
}

/// An instance or activity that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenBack {
    /// When.
    pub at: Instant,
    /// How long it is to be left alone.
    pub delay: Option<Duration>,
    /// Whether the attempt does not count.
    pub ignore_attempt: bool,
}

impl FaultProvider {
    /// The same store, without faults for now.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self {
            inner,
            observer: Arc::new(Nobody),
            source: None,
            line: Line::default(),
            frozen: CancellationToken::new(),
            plain: false,
            ignore_filter: false,
            events_fetched: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Every call that no script decides suffers what this source says.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn FaultSource>) -> Self {
        self.source = Some(source);
        self
    }

    /// The store is reached over this line, perhaps with others.
    #[must_use]
    pub fn on_line(mut self, line: Line) -> Self {
        self.line = line;
        self
    }

    /// This observer hears what reaches the store.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Hides the extension methods: the runtime has to do with the plain ones.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Hides the capability filter from the store, which then gives out what the node cannot run.
    #[must_use]
    pub fn ignoring_filter(mut self) -> Self {
        self.ignore_filter = true;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next calls of this method go wrong like this, one each. A script goes before the source.
    pub fn plan(&self, method: impl Into<Method>, faults: impl IntoIterator<Item = Fault>) {
        self.lock().script.entry(method.into()).or_default().extend(faults);
    }

    /// From now on the store accepts no row of this instance that is larger, whether a turn or an activity brings it: the
    /// commit is an error of kind `Invalid`, however often it is tried.
    pub fn refuse_rows_above(&self, instance: impl Into<String>, above_bytes: usize) {
        self.lock().refusals.push(Refusal { instance: instance.into(), above_bytes });
    }

    /// What is not accepted of an instance.
    pub(super) fn refusal(&self, instance: Option<&str>) -> Option<Refusal> {
        let state = self.lock();
        state.refusals.iter().find(|refusal| Some(refusal.instance.as_str()) == instance).cloned()
    }

    /// The line to the store, to cut and mend.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// From now on no call succeeds, or again does.
    pub fn set_away(&self, away: bool) {
        if away { self.line.cut() } else { self.line.mend() }
    }

    /// From now on fetches succeed, but nothing that commits or renews; or again does.
    pub fn set_away_for_acks(&self, away: bool) {
        if away { self.line.cut_commits() } else { self.line.mend() }
    }

    /// From now on nothing that is asked for is done or answered, as if the process had died.
    pub fn freeze(&self) {
        self.frozen.cancel();
    }

    /// Whether it is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_cancelled()
    }

    /// Resolves when it is frozen.
    pub async fn has_frozen(&self) {
        self.frozen.cancelled().await;
    }

    /// How often this method was called, whatever became of it.
    pub fn calls(&self, method: impl Into<Method>) -> u64 {
        self.lock().calls.get(&method.into()).copied().unwrap_or(0)
    }

    /// What was given back by this method, an abandon, in its order.
    pub fn given_back(&self, method: impl Into<Method>) -> Vec<GivenBack> {
        self.lock().given_back.get(&method.into()).cloned().unwrap_or_default()
    }

    /// How many events fetches have brought.
    pub fn events_fetched(&self) -> u64 {
        self.events_fetched.load(Ordering::SeqCst)
    }

    /// The next fetch of activities returns this instead of what is stored.
    pub fn deliver_instead_of_work(&self, item: WorkItem) {
        self.lock().instead_of_work = Some(item);
    }

    pub(super) fn take_instead_of_work(&self) -> Option<WorkItem> {
        self.lock().instead_of_work.take()
    }

    /// Notes how something is given back; how the other store is told. A plain store knows no causes.
    pub(super) fn note_given_back(&self, method: Method, give_back: GiveBack) -> GiveBack {
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let noted = GivenBack { at: Instant::now(), delay, ignore_attempt };
        self.lock().given_back.entry(method).or_default().push(noted);
        GiveBack { delay, ignore_attempt, cause: cause.filter(|_| !self.plain) }
    }

    /// Counts a call and says what happens to it.
    pub(super) fn faults(&self, method: Method) -> Vec<Fault> {
        let mut state = self.lock();
        *state.calls.entry(method).or_default() += 1;
        let scripted = if self.line.stops(method) {
            None
        } else {
            state.script.get_mut(&method).and_then(VecDeque::pop_front)
        };
        drop(state);
        match (scripted, &self.source) {
            (Some(fault), _) => vec![fault],
            (None, Some(source)) => source.faults(method),
            (None, None) => Vec::new(),
        }
    }

    /// Makes a call, or does to it what was decided. `work` is carried out at most once.
    pub(super) async fn call<T>(
        &self,
        method: Method,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let faults = self.faults(method);
        self.call_with(method, &faults, work).await
    }

    /// [`Self::call`] with what was decided already.
    pub(super) async fn call_with<T>(
        &self,
        method: Method,
        faults: &[Fault],
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        if self.is_frozen() {
            return std::future::pending().await;
        }
        self.before(method, faults).await?;
        let answer = tokio::select! {
            biased;
            () = self.frozen.cancelled() => std::future::pending().await,
            answer = unless_dropped(faults, work) => match answer {
                Some(answer) => answer,
                None => {
                    faults.iter().for_each(|fault| self.observer.suffers(method, *fault));
                    return Err(gone(method));
                }
            },
            () = self.line.stopped(method) => {
                self.observer.cut_off(method);
                return Err(gone(method));
            }
        };
        self.after(method, faults).await?;
        answer
    }

    /// A call whose whole answer is that it was done.
    pub(super) async fn call_unit(
        &self,
        method: Method,
        work: impl Future<Output = Result<(), ProviderError>>,
    ) -> Result<(), ProviderError> {
        let faults = self.faults(method);
        self.call_with(method, &faults, unless_pretended(&faults, work)).await
    }

    async fn before(&self, method: Method, faults: &[Fault]) -> Result<(), ProviderError> {
        for fault in faults {
            if self.line.stops(method) {
                break;
            }
            match *fault {
                Fault::FailBefore => {
                    self.observer.suffers(method, *fault);
                    return Err(gone(method));
                }
                Fault::Refuse => {
                    self.observer.suffers(method, *fault);
                    return Err(ProviderError::permanent(method.name(), "the store refuses"));
                }
                Fault::Corrupt if method != Method::FetchTurns => {
                    self.observer.suffers(method, *fault);
                    let kind = ProviderErrorKind::Corrupt;
                    return Err(ProviderError::of_kind(kind, method.name(), "a row does not decode"));
                }
                Fault::Panic => panic!("the store panics in {}", method.name()),
                Fault::Freeze => return self.freeze_here(method, FrozeWhen::Before).await,
                Fault::DelayBefore(delay) => {
                    self.observer.suffers(method, *fault);
                    tokio::time::sleep(delay).await;
                }
                Fault::LoseAnswer
                | Fault::DelayAfter(_)
                | Fault::Drop(_)
                | Fault::ExpireLock
                | Fault::SkewTime(_)
                | Fault::Duplicate
                | Fault::Reorder
                | Fault::RunDry
                | Fault::Corrupt
                | Fault::Pretend
                | Fault::FreezeAfter => {}
            }
            if self.is_frozen() {
                return std::future::pending().await;
            }
        }
        if self.line.stops(method) {
            self.observer.cut_off(method);
            return Err(gone(method));
        }
        Ok(())
    }

    async fn after(&self, method: Method, faults: &[Fault]) -> Result<(), ProviderError> {
        for fault in faults {
            match *fault {
                Fault::LoseAnswer => {
                    self.observer.suffers(method, *fault);
                    return Err(gone(method));
                }
                Fault::FreezeAfter => return self.freeze_here(method, FrozeWhen::After).await,
                Fault::DelayAfter(delay) => {
                    self.observer.suffers(method, *fault);
                    tokio::time::sleep(delay).await;
                }
                Fault::ExpireLock
                | Fault::SkewTime(_)
                | Fault::Duplicate
                | Fault::Reorder
                | Fault::RunDry
                | Fault::Corrupt
                | Fault::Pretend => self.observer.suffers(method, *fault),
                Fault::FailBefore
                | Fault::DelayBefore(_)
                | Fault::Drop(_)
                | Fault::Refuse
                | Fault::Panic
                | Fault::Freeze => {}
            }
        }
        if self.is_frozen() { std::future::pending().await } else { Ok(()) }
    }

    async fn freeze_here(&self, method: Method, when: FrozeWhen) -> Result<(), ProviderError> {
        self.freeze();
        self.observer.froze(method, when);
        std::future::pending().await
    }
}

/// The answer, unless the call is dropped in its middle.
async fn unless_dropped<T>(faults: &[Fault], work: impl Future<Output = T>) -> Option<T> {
    let dropped =
        faults.iter().find_map(|fault| if let Fault::Drop(times) = fault { Some(*times) } else { None });
    match dropped {
        Some(times) => drop_after(times, work).await,
        None => Some(work.await),
    }
}

/// `Ok` without doing anything, if that is the fault.
pub(super) async fn unless_pretended(
    faults: &[Fault],
    work: impl Future<Output = Result<(), ProviderError>>,
) -> Result<(), ProviderError> {
    if faults.contains(&Fault::Pretend) { Ok(()) } else { work.await }
}

fn gone(method: Method) -> ProviderError {
    ProviderError::retryable(method.name(), "the store is away")
}
