//! Which faults happen, and how often. All of it follows from the seed.

use std::time::Duration;

use crate::rng::Rng;

/// The unit of [`Rates`]: once in so many calls.
const PER: u64 = 10_000;

/// What a call of the store suffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The call fails and nothing was done.
    FailBefore,
    /// The call is carried out, but its answer is an error.
    LoseAnswer,
    /// The call is carried out late.
    DelayBefore(Duration),
    /// The answer comes late.
    DelayAfter(Duration),
    /// The process dies before the call is carried out.
    CrashBefore,
    /// The process dies after the call was carried out.
    CrashAfter,
}

/// A call of the store, by what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    FetchTurns,
    AckTurn,
    AbandonTurn,
    RenewTurn,
    FetchWork,
    AckWork,
    AbandonWork,
    RenewWork,
    LostWork,
    Node,
    Sessions,
    Enqueue,
    Read,
    Status,
    Admin,
}

impl Site {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FetchTurns => "fetch_turns",
            Self::AckTurn => "ack_turn",
            Self::AbandonTurn => "abandon_turn",
            Self::RenewTurn => "renew_turn",
            Self::FetchWork => "fetch_work",
            Self::AckWork => "ack_work",
            Self::AbandonWork => "abandon_work",
            Self::RenewWork => "renew_work",
            Self::LostWork => "lost_work",
            Self::Node => "node",
            Self::Sessions => "sessions",
            Self::Enqueue => "enqueue",
            Self::Read => "read",
            Self::Status => "status",
            Self::Admin => "admin",
        }
    }
}

/// How often each fault happens, in ten thousand calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) fail_before: u64,
    pub(crate) lose_answer: u64,
    pub(crate) delay: u64,
    pub(crate) crash: u64,
    /// Outages begin on average once in so many milliseconds; 0 for never.
    pub(crate) outage_every_ms: u64,
    /// Graceful restarts likewise.
    pub(crate) restart_every_ms: u64,
}

/// The weather of one simulation.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) rates: Rates,
    /// From this time on nothing fails any more.
    pub(crate) calm_from_ms: u64,
    pub(crate) turn_lock: Duration,
    pub(crate) work_lock: Duration,
}

impl Weather {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let quiet = Rates::default();
        let mixed = Rates {
            fail_before: 200,
            lose_answer: 150,
            delay: 120,
            crash: 40,
            outage_every_ms: 15_000,
            restart_every_ms: 40_000,
        };
        let crashing = Rates { crash: 150, delay: 60, ..quiet };
        let unreliable = Rates { fail_before: 800, lose_answer: 500, ..quiet };
        let slow = Rates { delay: 500, lose_answer: 50, ..quiet };
        let stormy = Rates { outage_every_ms: 4_000, crash: 20, restart_every_ms: 10_000, ..quiet };
        let rates = *rng.pick(&[quiet, mixed, mixed, mixed, crashing, crashing, unreliable, slow, stormy]);
        Self {
            rates,
            calm_from_ms: rng.range(20_000, 90_000),
            turn_lock: rng.millis(1_000, 5_001),
            work_lock: rng.millis(2_000, 10_001),
        }
    }

    /// For programs that kill processes: their neighbours are charged with some of that, which must stay the
    /// only thing that comes near the limit of attempts.
    pub(crate) fn without_expiries(mut self) -> Self {
        self.rates.crash = 0;
        self.rates.outage_every_ms = 0;
        self.rates.restart_every_ms = 0;
        self
    }

    /// What happens to one call.
    pub(crate) fn fault(&self, rng: &mut Rng, now_ms: u64) -> Fault {
        if now_ms >= self.calm_from_ms {
            return Fault::None;
        }
        let Rates { fail_before, lose_answer, delay, crash, .. } = self.rates;
        let roll = rng.range(0, PER);
        let even = rng.one_in(2);
        let mut below = fail_before;
        if roll < below {
            return Fault::FailBefore;
        }
        below += lose_answer;
        if roll < below {
            return Fault::LoseAnswer;
        }
        below += delay;
        if roll < below {
            let delay = self.delay(rng);
            return if even { Fault::DelayBefore(delay) } else { Fault::DelayAfter(delay) };
        }
        below += crash;
        match (roll < below, even) {
            (false, _) => Fault::None,
            (true, true) => Fault::CrashBefore,
            (true, false) => Fault::CrashAfter,
        }
    }

    /// Mostly short, sometimes longer than any lock.
    fn delay(&self, rng: &mut Rng) -> Duration {
        if rng.one_in(3) {
            let longest = self.work_lock.max(self.turn_lock);
            longest + rng.millis(1, 5_000)
        } else {
            rng.millis(5, 500)
        }
    }
}
