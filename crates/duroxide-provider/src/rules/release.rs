//! The end of an attempt at a turn without a commit: giving an instance back, holding it longer, and messages that do
//! not decode.

use std::time::Duration;

use super::changes::AsideMessage;
use super::instance_row::CANCELLED_WHILE_LOCKED;
use super::token::Token;
use super::values::{after, count};
use super::wanted::Stop;
use super::{Fault, Rows};
use crate::bounce::GiveBack;

impl Rows {
    /// Gives an instance back.
    pub(super) fn give_back_turn(&mut self, token: Token, give_back: &GiveBack) -> Result<(), Stop> {
        self.check_held(token)?;
        let GiveBack { delay, ignore_attempt, cause } = give_back;
        let (now, ignore_attempt) = (self.now, *ignore_attempt);
        let row = self.instance_mut(token.key)?;
        // An attempt that did not take place leaves the expiry before it standing.
        row.suspect = ignore_attempt && row.suspect_before;
        row.suspect_before = false;
        row.not_before = match delay {
            Some(delay) if row.not_before != CANCELLED_WHILE_LOCKED => after(now, *delay),
            Some(_) | None => 0,
        };
        let lock = row.lock.take();
        row.bounced |= cause.is_some();
        if let Some(cause) = cause {
            self.call.changes.bounces.insert(token.key, Some(cause.clone().bounded().to_stored()));
        }
        if let Some(lock) = lock.filter(|_| !ignore_attempt) {
            self.call.changes.ended_attempts.push((token.key, lock));
        }
        self.recompute_ready_at(token.key)
    }

    /// Lets the lock hold from now on for `extend_for`.
    pub(super) fn renew_turn(&mut self, token: Token, extend_for: Duration) -> Result<(), Fault> {
        self.check_held(token)?;
        let locked_until = after(self.now, extend_for);
        let row = self.instance_mut(token.key)?;
        row.ready_at = Some(locked_until);
        row.pending.queue = true;
        self.call.effects.turn_locked(locked_until);
        Ok(())
    }

    /// Moves messages out of an inbox that was locked just now. If none is left in the turn, the instance is
    /// given back as it was.
    pub(super) fn set_messages_aside(
        &mut self,
        token: Token,
        aside: &[AsideMessage],
        left: usize,
    ) -> Result<(), Stop> {
        self.check_held(token)?;
        self.call.changes.aside_messages.extend(aside.iter().cloned());
        self.call.effects.set_aside += u64::try_from(aside.len()).unwrap_or(0);
        let row = self.instance_mut(token.key)?;
        let gone = count(aside.len());
        row.inbox_count = row.inbox_count.saturating_sub(gone);
        row.pending.queue = true;
        row.pending.first_stored = None;
        row.pending.first_left = None;
        row.note_removal();
        if let Some(lock) = &mut row.lock {
            lock.count = lock.count.saturating_sub(gone);
        }
        if left == 0 {
            row.lock = None;
            row.suspect = row.suspect_before;
            row.suspect_before = false;
            self.recompute_ready_at(token.key)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use duroxide_core::WorkItem;

    use super::*;
    use crate::rules::{Call, EncodedItem, Need, NewKey, Pending, TurnLock, Wish};

    const TOKEN: Token = Token { key: 7, nonce: 5 };

    /// An instance with two messages, of which the first is locked.
    fn locked() -> Rows {
        let mut rows = Rows::new(10);
        rows.reserve("i", None);
        rows.learn_keys([NewKey { key: TOKEN.key, incarnation: 1 }]);
        let start = WorkItem::StartOrchestration {
            instance: "i".to_string(),
            orchestration: "O".to_string(),
            input: String::new(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        };
        let item = EncodedItem::new(start).expect("it is encoded");
        let started = rows.apply(&Call::Enqueue { item, delay: None, answer: Wish::NotTold });
        started.expect("it starts");
        let mut row = rows.instance(TOKEN.key).expect("it has started").clone();
        row.pending = Pending::default();
        row.inbox_count = 2;
        row.lock = Some(TurnLock { nonce: TOKEN.nonce, visible_at: 1, position: 1, watermark: 2, count: 1 });
        row.ready_at = Some(100);
        let mut rows = Rows::new(10);
        rows.learn_instance(row);
        rows
    }

    #[test]
    fn the_first_message_that_stays_is_asked_for_once() {
        let mut rows = locked();
        let key = TOKEN.key;
        let aside = AsideMessage { key, visible_at: 1, position: 1, cause: "damaged".to_string() };
        let call = Call::AsideMessages { token: TOKEN, aside: vec![aside], left: 0 };
        let Err(Stop::Need(Need::FirstMessage(question))) = rows.apply(&call) else {
            panic!("what stays is not known")
        };
        assert_eq!(question.without_messages, [(1, 1)]);
        assert!(rows.changes().aside_messages.is_empty(), "it was not applied");
        rows.learn_first_message(question, Some(8));
        assert!(rows.apply(&call).is_ok());
        let row = rows.instance(key).expect("it is known");
        assert_eq!((row.ready_at, row.inbox_count, row.lock), (Some(8), 1, None));
        assert_eq!(rows.changes().aside_messages.len(), 1);
    }
}
