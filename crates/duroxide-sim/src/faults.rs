//! Which faults happen, and how often. All of it follows from the seed.

use std::time::Duration;

use duroxide::testing::Fault;

use crate::rng::Rng;

/// The unit of [`Rates`]: once in so many calls.
const PER: u64 = 10_000;
/// Delays below this are the ordinary time that a call takes.
const ORDINARY: Duration = Duration::from_millis(5);

/// How often each fault happens, in ten thousand calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) fail_before: u64,
    pub(crate) lose_answer: u64,
    pub(crate) delay: u64,
    pub(crate) crash: u64,
    pub(crate) expire_lock: u64,
    pub(crate) duplicate: u64,
    pub(crate) reorder: u64,
    pub(crate) run_dry: u64,
    /// Outages begin on average once in so many milliseconds; 0 for never.
    pub(crate) outage_every_ms: u64,
    /// Graceful restarts likewise.
    pub(crate) restart_every_ms: u64,
    /// Steps of the store's clock likewise.
    pub(crate) clock_step_every_ms: u64,
}

/// The weather of one simulation.
#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) rates: Rates,
    /// From this time on nothing fails any more.
    pub(crate) calm_from_ms: u64,
    /// An outage of the whole store, from when on and for how long, besides the others.
    pub(crate) long_outage: Option<LongOutage>,
    /// From this time on the nodes are upgraded, one after the other, so far apart.
    pub(crate) upgrade: Option<Upgrade>,
    /// Whether the nodes do little at a time.
    pub(crate) few_slots: bool,
    pub(crate) turn_lock: Duration,
    pub(crate) work_lock: Duration,
}

/// An outage of minutes or hours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongOutage {
    pub(crate) from_ms: u64,
    pub(crate) for_ms: u64,
}

/// A rolling upgrade.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Upgrade {
    pub(crate) from_ms: u64,
    pub(crate) apart_ms: u64,
}

impl Weather {
    pub(crate) fn of(rng: &mut Rng) -> Self {
        let quiet = Rates::default();
        let mixed = Rates {
            fail_before: 200,
            lose_answer: 150,
            delay: 120,
            crash: 40,
            expire_lock: 20,
            duplicate: 150,
            reorder: 150,
            run_dry: 50,
            outage_every_ms: 15_000,
            restart_every_ms: 40_000,
            clock_step_every_ms: 0,
        };
        let crashing = Rates { crash: 150, delay: 60, ..quiet };
        let unreliable = Rates { fail_before: 800, lose_answer: 500, duplicate: 400, ..quiet };
        let slow = Rates { delay: 500, lose_answer: 50, expire_lock: 50, ..quiet };
        let stormy = Rates { outage_every_ms: 4_000, crash: 20, restart_every_ms: 10_000, ..quiet };
        let muddled =
            Rates { duplicate: 900, reorder: 900, run_dry: 300, clock_step_every_ms: 8_000, ..quiet };
        let rates =
            *rng.pick(&[quiet, mixed, mixed, mixed, crashing, crashing, unreliable, slow, stormy, muddled]);
        let mut weather = Self {
            rates,
            calm_from_ms: rng.range(20_000, 90_000),
            long_outage: None,
            upgrade: None,
            few_slots: rng.one_in(4),
            turn_lock: rng.millis(1_000, 5_001),
            work_lock: rng.millis(2_000, 10_001),
        };
        if rng.one_in(30) {
            weather.be_away_for_long(rng);
        } else if rng.one_in(6) {
            weather.upgrade = Some(Upgrade { from_ms: rng.range(1, 20_000), apart_ms: rng.range(1, 5_000) });
        }
        weather
    }

    /// Minutes or hours, in the middle of everything.
    fn be_away_for_long(&mut self, rng: &mut Rng) {
        let minutes = if rng.one_in(4) { rng.range(10, 5 * 60) } else { rng.range(1, 10) };
        let outage = LongOutage { from_ms: rng.range(1, 20_000), for_ms: minutes * 60_000 };
        self.long_outage = Some(outage);
        self.calm_from_ms = outage.from_ms + outage.for_ms + rng.range(1, 60_000);
        self.rates.outage_every_ms = 0;
        self.rates.restart_every_ms = 0;
    }

    /// The same without anything that fails.
    pub(crate) fn fair(self) -> Self {
        Self { rates: Rates::default(), calm_from_ms: 0, long_outage: None, upgrade: None, ..self }
    }

    /// With an upgrade that comes after much has failed for the want of it.
    pub(crate) fn with_late_upgrade(mut self, rng: &mut Rng) -> Self {
        let upgrade = Upgrade { from_ms: rng.range(20_000, 200_000), apart_ms: rng.range(1, 5_000) };
        self.upgrade = Some(upgrade);
        self
    }

    /// For programs that kill processes: their neighbours are charged with some of that, which must stay the
    /// only thing that comes near the limit of attempts.
    pub(crate) fn without_expiries(mut self) -> Self {
        if let Some(outage) = self.long_outage.take() {
            self.calm_from_ms = outage.from_ms + 60_000;
        }
        self.rates = Rates {
            crash: 0,
            expire_lock: 0,
            outage_every_ms: 0,
            restart_every_ms: 0,
            clock_step_every_ms: 0,
            ..self.rates
        };
        self
    }

    /// What happens to one call.
    pub(crate) fn fault(&self, rng: &mut Rng, now_ms: u64) -> Option<Fault> {
        if now_ms >= self.calm_from_ms {
            return None;
        }
        let rates = self.rates;
        let mut roll = rng.range(0, PER);
        let even = rng.one_in(2);
        let crash = if even { Fault::Freeze } else { Fault::FreezeAfter };
        let kinds = [
            (rates.fail_before, Fault::FailBefore),
            (rates.lose_answer, Fault::LoseAnswer),
            (rates.crash, crash),
            (rates.expire_lock, Fault::ExpireLock),
            (rates.duplicate, Fault::Duplicate),
            (rates.reorder, Fault::Reorder),
            (rates.run_dry, Fault::RunDry),
        ];
        for (rate, fault) in kinds {
            if roll < rate {
                return Some(fault);
            }
            roll -= rate;
        }
        (roll < rates.delay).then(|| {
            let delay = self.delay(rng);
            if even { Fault::DelayBefore(delay) } else { Fault::DelayAfter(delay) }
        })
    }

    /// Mostly short, sometimes longer than any lock, and now and then for minutes.
    fn delay(&self, rng: &mut Rng) -> Duration {
        if rng.one_in(30) {
            rng.millis(60_000, 600_001)
        } else if rng.one_in(3) {
            let longest = self.work_lock.max(self.turn_lock);
            longest + rng.millis(1, 5_000)
        } else {
            rng.millis(5, 500)
        }
    }

    /// How a fault is counted; not at all if it is the ordinary time of a call.
    pub(crate) fn word(&self, fault: Fault) -> Option<&'static str> {
        match fault {
            Fault::FailBefore => Some("call failed before the commit"),
            Fault::LoseAnswer => Some("call done, answer lost"),
            Fault::DelayBefore(delay) | Fault::DelayAfter(delay) => {
                (delay >= ORDINARY).then_some("call or answer delayed")
            }
            Fault::ExpireLock => Some("lock that expires at once"),
            Fault::Duplicate => Some("delivered twice"),
            Fault::Reorder => Some("delivered in another order"),
            Fault::RunDry => Some("fetch found nothing"),
            Fault::SkewTime(_)
            | Fault::Drop(_)
            | Fault::Corrupt
            | Fault::Refuse
            | Fault::Panic
            | Fault::Pretend
            | Fault::Freeze
            | Fault::FreezeAfter => None,
        }
    }
}
