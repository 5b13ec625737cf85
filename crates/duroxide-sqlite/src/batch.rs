//! Calls that are applied by the rules, one after another, and written together.

use std::collections::HashMap;

use duroxide_provider::rules::{Answer, Call, Ms, Need, Rows, Stop, Wanted};

use super::damaged;
use super::db::Db;
use super::fault::Fault;
use super::flush::{Flushed, flush};
use super::instance_row::Indexed;
use super::load::{Loader, NotLoaded};
use super::remembered::Remembered;
use super::tx::Tx;

/// Calls of one group that follow one another, and the rows that they are about.
pub(super) struct Batch {
    pub(super) rows: Rows,
    indexed: HashMap<i64, Indexed>,
    /// Those that were applied, by their place in the group.
    pub(super) calls: Vec<usize>,
}

/// Why a call was not applied. It changed nothing.
pub(super) enum NotApplied {
    /// It fails.
    Fault(Fault),
    /// The row of an instance that it is about cannot be read.
    Damaged { key: i64, cause: String },
}

impl From<NotLoaded> for NotApplied {
    fn from(not_loaded: NotLoaded) -> Self {
        match not_loaded {
            NotLoaded::Fault(fault) => Self::Fault(fault),
            NotLoaded::Damaged { key, cause } => Self::Damaged { key, cause },
        }
    }
}

impl Batch {
    pub(super) fn new(now: Ms) -> Self {
        Self { rows: Rows::new(now), indexed: HashMap::new(), calls: Vec::new() }
    }

    /// Loads what a call wants, and applies it.
    pub(super) fn apply(
        &mut self,
        db: &Db,
        remembered: &mut Remembered,
        call: &Call,
    ) -> Result<Answer, NotApplied> {
        let mut wanted = Wanted::default();
        call.wants(&mut wanted);
        let mut loader = Loader { db, remembered, indexed: &mut self.indexed };
        loader.load(&mut self.rows, &wanted)?;
        let mut told: Option<Need> = None;
        loop {
            match self.rows.apply(call) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Fault(fault)) => return Err(NotApplied::Fault(fault.into())),
                Err(Stop::Need(need)) if told.as_ref() == Some(&need) => {
                    let text = format!("a call goes on asking for what it was told: {need:?}");
                    return Err(NotApplied::Fault(Fault::Corrupt(text)));
                }
                Err(Stop::Need(need)) => {
                    loader.answer(&mut self.rows, &need)?;
                    told = Some(need);
                }
            }
        }
    }

    /// Writes what the calls changed.
    pub(super) fn flush(&self, db: &Db, remembered: &mut Remembered) -> Result<Flushed, Fault> {
        flush(db, &self.rows, &self.indexed, remembered)
    }
}

/// Applies one call and writes what it changed, inside a call of the store's own.
pub(super) fn apply_alone(tx: &mut Tx<'_>, call: &Call) -> Result<Answer, Fault> {
    // What is remembered may not have been written yet.
    let mut nothing = Remembered::default();
    loop {
        let mut batch = Batch::new(tx.now);
        match batch.apply(tx.db, &mut nothing, call) {
            Ok(answer) => {
                let flushed = batch.flush(tx.db, &mut nothing)?;
                let (mut effects, _) = batch.rows.finish();
                effects.expired += flushed.expired;
                tx.effects.merge(effects);
                return Ok(answer);
            }
            Err(NotApplied::Fault(fault)) => return Err(fault),
            // A sender must not fail for its receiver.
            Err(NotApplied::Damaged { key, cause }) => damaged::end_instance(tx, key, &cause)?,
        }
    }
}
