//! What came while the clock was ahead, once it was set back.

use super::tables::Tables;
use crate::rules::values::Ms;

impl Tables {
    /// Takes note of the time of a transaction. If it is earlier than that of the one before, what is not delayed and is
    /// stamped with a later time becomes ready.
    pub(super) fn look_at_clock(&mut self, now: Ms) {
        let before = std::mem::replace(&mut self.now, now);
        if before <= now {
            return;
        }
        let (mut turns, mut work_items) = (false, false);
        for instance in self.instances.values_mut().filter(|instance| !instance.row.is_ended()) {
            let row = &mut instance.row;
            let came_ahead = row.ready_at.is_some_and(|at| at > now && at <= row.last_arrival);
            if came_ahead && row.lock.is_none() {
                row.ready_at = Some(now);
                row.not_before = row.not_before.min(now);
                turns = true;
            }
        }
        for work in self.work.values_mut().filter(|work| work.row.nonce.is_none() && !work.delayed) {
            if work.row.ready_at > now {
                (work.row.ready_at, work.row.visible_at) = (now, now);
                work_items = true;
            }
        }
        if turns {
            self.effects(now).turn_ready(now);
        }
        if work_items {
            self.effects(now).work_ready(now);
        }
    }
}
