//! Calls whose rows another transaction has locked. They wait beside the groups, so that a transaction which stays
//! open delays its own instances and no others.
//!
//! The carrier waits for a row only for [`LOCK_WAIT`]. If that is not enough it asks which rows are locked (see
//! [`crate::group::row_probe`]), puts the calls about them here and carries the others out. Calls that come later and are
//! about the same instances line up behind them, so that the order of calls about one instance stays. While calls
//! wait here the carrier probes their rows every now and then, without waiting, and carries out those whose rows
//! are free.

use std::time::Duration;

use duroxide_provider::ProviderError;
use duroxide_provider::rules;
use tokio::time::Instant;

use crate::connections::connection::Conn;
use crate::fault::Fault;
use crate::group::call::Call;
use crate::group::carrier::Carrier;
use crate::group::row_probe::{LockedRows, Rows};
use crate::statistics::count_conflict;

/// How long the carrier waits for a row. All of the process's calls wait with it, so it is short; but longer than
/// transactions of other processes usually take, a slow disk included.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(50);

/// The pause between two probes, at first and at most: what a call waits after its row became free.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts at a call whose locked row no probe finds. Each costs the other calls
/// [`LOCK_WAIT`].
const LONGEST_BLIND_PAUSE: Duration = Duration::from_secs(2);

/// How a call got here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waited {
    /// When it was found to be blocked first.
    since: Option<Instant>,
    /// How often it was tried although no probe explains what blocks it.
    blind_tries: u32,
}

/// The calls that wait.
pub(crate) struct Blocked {
    calls: Vec<BlockedCall>,
    /// What the last probe found locked.
    locked: Rows,
    probe_at: Instant,
    pause: Duration,
    /// How long a call waits before it fails; `None` for no limit.
    limit: Option<Duration>,
}

struct BlockedCall {
    call: Call,
    needs: Rows,
    /// When it is tried although it is not known what blocks it.
    blind_until: Option<Instant>,
}

/// Calls whose rows are free.
#[derive(Default)]
pub(crate) struct Freed {
    pub(crate) together: Vec<Call>,
    /// Each of these is to be tried alone: it may still be blocked.
    pub(crate) alone: Vec<Call>,
}

/// What becomes of a group that waited too long for a row.
pub(crate) enum AfterLockWait {
    /// The calls that are left are tried again.
    TryAgain,
    /// It is not known which of them is blocked: each is tried for itself.
    EachAlone,
    /// No call is left, or fetches alone: they are tried later.
    Later,
    /// The store as a whole is locked, and has been for too long.
    GiveUp(Fault),
}

impl Blocked {
    pub(crate) fn new(lock_timeout: Duration) -> Self {
        let limit = Some(lock_timeout).filter(|limit| !limit.is_zero());
        Self {
            calls: Vec::new(),
            locked: Rows::default(),
            probe_at: Instant::now(),
            pause: FIRST_PAUSE,
            limit,
        }
    }

    /// When the rows of those that wait are probed next.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        (!self.calls.is_empty()).then_some(self.probe_at)
    }

    pub(crate) fn is_due(&self) -> bool {
        self.next_wake().is_some_and(|at| at <= Instant::now())
    }

    /// Another process said that something changed: perhaps it committed.
    pub(crate) fn probe_soon(&mut self) {
        self.probe_at = Instant::now();
        self.pause = FIRST_PAUSE;
    }

    /// Something went wrong with them: not at once again.
    pub(crate) fn probe_later(&mut self) {
        self.probed(false);
    }

    /// Takes all calls out.
    pub(crate) fn take_all(&mut self) -> Vec<Call> {
        self.calls.drain(..).map(|one| one.call).collect()
    }

    /// Whether a call must wait for one that is here.
    fn is_behind(&self, call: &Call) -> bool {
        let needs = Rows::of(&call.work);
        if is_renewal(call) {
            return self.locked.overlaps(&needs);
        }
        self.calls.iter().any(|one| one.needs.overlaps(&needs))
    }

    fn push(&mut self, mut call: Call, needs: Rows, blind_until: Option<Instant>) {
        call.waited.since.get_or_insert_with(Instant::now);
        if self.calls.is_empty() {
            self.pause = FIRST_PAUSE;
            self.probe_at = Instant::now() + FIRST_PAUSE;
        }
        self.calls.push(BlockedCall { call, needs, blind_until });
    }

    /// Puts a call here of which no probe says what blocks it.
    fn push_blind(&mut self, mut call: Call) {
        call.waited.blind_tries += 1;
        let pause = LOCK_WAIT.saturating_mul(1 << call.waited.blind_tries.min(8)).min(LONGEST_BLIND_PAUSE);
        let needs = Rows::of(&call.work);
        self.push(call, needs, Some(Instant::now() + pause));
    }

    /// Moves the calls here that must wait for one that is here.
    pub(crate) fn hold_back(&mut self, calls: &mut Vec<Call>) {
        if self.calls.is_empty() {
            return;
        }
        for call in std::mem::take(calls) {
            if self.is_behind(&call) {
                let needs = Rows::of(&call.work);
                self.push(call, needs, None);
            } else {
                calls.push(call);
            }
        }
    }

    /// Fails those that have waited too long.
    fn expire(&mut self) {
        let Some(limit) = self.limit else { return };
        let is_over = |one: &mut BlockedCall| one.call.waited.since.is_some_and(|at| at.elapsed() >= limit);
        for BlockedCall { call, .. } in self.calls.extract_if(.., is_over) {
            let text = format!("another transaction has kept rows of this instance locked for {limit:?}");
            drop(call.answer.send(Err(ProviderError::retryable(call.operation, text))));
        }
    }

    /// Takes those out that nothing blocks any more.
    fn free(&mut self, locked: &LockedRows) -> Freed {
        let mut freed = Freed::default();
        let mut before: Vec<Rows> = Vec::new();
        for mut one in std::mem::take(&mut self.calls) {
            one.needs.name(locked);
            let is_blind = one.blind_until.is_some_and(|until| until > Instant::now());
            let behind = before.iter().any(|needs| needs.overlaps(&one.needs));
            if is_blind || behind || locked.blocks(&one.needs) {
                before.push(one.needs.clone());
                self.calls.push(one);
            } else if one.blind_until.is_some() {
                freed.alone.push(one.call);
            } else {
                freed.together.push(one.call);
            }
        }
        freed
    }

    fn probed(&mut self, found: bool) {
        self.pause = if found { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        self.probe_at = Instant::now() + self.pause;
    }
}

/// A renewal overtakes calls that need other rows as well: it must not come too late, and changes nothing that
/// others see.
fn is_renewal(call: &Call) -> bool {
    matches!(call.work, rules::Call::RenewTurn { .. } | rules::Call::RenewWork { .. })
}

impl Carrier {
    /// The calls whose rows have become free. Fails those that have waited too long.
    pub(crate) async fn take_freed(&mut self) -> Freed {
        if !self.blocked.is_due() {
            return Freed::default();
        }
        self.blocked.expire();
        let mut needs = Rows::default();
        self.blocked.calls.iter().for_each(|one| needs.extend(&one.needs));
        if needs.is_empty() {
            return Freed::default();
        }
        let freed = match self.probe(&needs).await {
            Ok(locked) => {
                let freed = self.blocked.free(&locked);
                self.blocked.locked = locked.rows;
                freed
            }
            // Whatever it is, the next group will meet it, too.
            Err(fault) => {
                let error = fault.into_error("probe");
                tracing::debug!(target: "duroxide::runtime", %error, "locked rows could not be probed; trying later");
                Freed::default()
            }
        };
        self.blocked.probed(!freed.together.is_empty() || !freed.alone.is_empty());
        freed
    }

    /// A group waited too long for a row. Moves the calls about locked rows aside.
    pub(crate) async fn after_lock_wait(
        &mut self,
        calls: &mut Vec<Call>,
        begun: Instant,
        blind: &mut u32,
        fault: Fault,
    ) -> AfterLockWait {
        count_conflict(&self.counters);
        if calls.is_empty() {
            return AfterLockWait::Later;
        }
        let mut needs = Rows::default();
        calls.iter().for_each(|call| needs.extend(&Rows::of(&call.work)));
        let locked = match self.probe(&needs).await {
            Ok(locked) => locked,
            // Not rows but tables are locked, as by a migration. Everybody must wait for that.
            Err(probe) if probe.is_lock_timeout() => {
                let limit = self.blocked.limit;
                let over = limit.is_some_and(|limit| begun.elapsed() >= limit);
                return if over { AfterLockWait::GiveUp(fault) } else { AfterLockWait::TryAgain };
            }
            Err(probe) => return AfterLockWait::GiveUp(probe),
        };
        let before = calls.len();
        for call in std::mem::take(calls) {
            let mut needs = Rows::of(&call.work);
            needs.name(&locked);
            if locked.blocks(&needs) {
                self.memory.lock().forget_shared(&call.wanted());
                self.blocked.push(call, needs, None);
            } else {
                calls.push(call);
            }
        }
        if calls.len() < before {
            self.blocked.locked.extend(&locked.rows);
            return AfterLockWait::TryAgain;
        }
        *blind += 1;
        match calls.as_slice() {
            [call] if call.waited.blind_tries > 0 || *blind > 1 => {
                calls.drain(..).for_each(|call| self.blocked.push_blind(call));
                AfterLockWait::Later
            }
            // It may have become free meanwhile.
            _ if *blind == 1 => AfterLockWait::TryAgain,
            _ => AfterLockWait::EachAlone,
        }
    }

    /// Which of these rows other transactions have locked.
    async fn probe(&mut self, needs: &Rows) -> Result<LockedRows, Fault> {
        self.connect().await?;
        let Some(conn) = self.conn.take() else {
            return Err(Fault::NoConnection("there is no connection".to_string()));
        };
        let locked = needs.probe(&conn).await;
        if locked.is_ok() || roll_back(&conn, &locked).await {
            self.conn = Some(conn);
        }
        locked
    }

    /// Fetches whose statements waited too long for a row are tried a little later.
    pub(crate) fn fetch_later(&mut self, fetches: crate::group::run_group::Fetches) {
        let (turns, work) = fetches.unanswered();
        self.turns.put_back_later(turns);
        self.work.put_back_later(work);
    }
}

/// Ends the transaction of a probe that failed; whether the connection can be used further.
async fn roll_back(conn: &Conn<'static>, probe: &Result<LockedRows, Fault>) -> bool {
    match probe {
        Err(fault) if fault.ends_connection() => false,
        Err(_) | Ok(_) => conn.roll_back().await.is_ok(),
    }
}
