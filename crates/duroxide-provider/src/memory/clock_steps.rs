//! What came while the clock was ahead, once it was set back: what is not delayed is ready at once, in its order.

use super::rows::{InstanceRow, MessageKey, Ms};
use super::state::State;

impl State {
    /// Takes note of the time of a transaction. If it is earlier than that of the one before, all that is not delayed
    /// and is stamped with a later time becomes ready.
    pub(super) fn look_at_clock(&mut self, now: Ms) {
        let before = std::mem::replace(&mut self.now, now);
        if before <= now {
            return;
        }
        let ids: Vec<String> = self.instances.keys().cloned().collect();
        for id in ids {
            if self.instances.get_mut(&id).is_some_and(|row| row.pull_back(now)) {
                self.reindex_turn(&id);
            }
        }
        let ahead = self.work.iter_mut().filter(|(_, row)| !row.delayed && row.visible_at > now);
        let moved: Vec<u64> = ahead
            .map(|(seq, row)| {
                row.visible_at = now;
                *seq
            })
            .collect();
        for seq in moved {
            self.reindex_work(seq);
        }
    }
}

impl InstanceRow {
    /// Makes visible what is not delayed; whether anything changed.
    fn pull_back(&mut self, now: Ms) -> bool {
        let after = MessageKey { visible_at: now, position: u64::MAX };
        let ahead: Vec<MessageKey> = self
            .inbox()
            .range(after..)
            .filter(|(_, message)| !message.delayed)
            .map(|(key, _)| *key)
            .collect();
        for old in &ahead {
            let Some(message) = self.take_message(*old) else { continue };
            let new = MessageKey { visible_at: now, position: old.position };
            self.put_message(new, message);
            let locked = self.lock.iter_mut().flat_map(|lock| &mut lock.messages);
            for key in locked.filter(|key| *key == old) {
                *key = new;
            }
        }
        // What a turn gives back to its own inbox waits for the time of that turn, and for nothing else.
        let given_back = self.inbox().first_key_value().is_some_and(|(key, _)| key.visible_at < 0);
        let waits = given_back && self.not_before > now;
        if waits {
            self.not_before = now;
        }
        waits || !ahead.is_empty()
    }
}
