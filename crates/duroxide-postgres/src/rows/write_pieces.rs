//! Many new rows are added by several statements, so that each ends well within the statement timeout and no parameter comes
//! near the server's limit of 1 GB.

use duroxide_provider::rules::{Changes, HistoryRow, InboxRow, NewWork};

/// Rows of a kind, and bytes of them, that one statement adds: a few dozen milliseconds. One row is added whatever it weighs.
const MAX_ROWS: usize = 5_000;
const MAX_BYTES: usize = 4 << 20;

/// What one statement adds.
#[derive(Default)]
pub(crate) struct Piece<'a> {
    pub(crate) messages: &'a [InboxRow],
    pub(crate) events: &'a [HistoryRow],
    pub(crate) work: &'a [NewWork],
}

/// All that a transaction adds, piece by piece, each kind in its order.
pub(crate) struct Pieces<'a> {
    left: Piece<'a>,
    /// How many of the work items that are left must come with the next piece: those that fetches have locked already, since
    /// only the answer of the first statement is read.
    locked: usize,
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(changes: &'a Changes) -> Self {
        let locked = changes.new_work.iter().rposition(|row| row.lock.is_some()).map_or(0, |last| last + 1);
        Self {
            left: Piece { messages: &changes.inbox, events: &changes.history, work: &changes.new_work },
            locked,
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let Piece { messages, events, work } = self.left;
        if messages.is_empty() && events.is_empty() && work.is_empty() {
            return None;
        }
        let (messages, messages_left) = messages.split_at(within_limits(messages, |row| row.json.len()));
        let (events, events_left) = events.split_at(within_limits(events, |row| row.json.len()));
        let count = within_limits(work, |row| row.json.len()).max(std::mem::take(&mut self.locked));
        let (work, work_left) = work.split_at(count);
        self.left = Piece { messages: messages_left, events: events_left, work: work_left };
        Some(Piece { messages, events, work })
    }
}

/// How many of these rows one statement adds.
fn within_limits<T>(rows: &[T], bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0_usize;
    let fits = |row: &&T| {
        sum = sum.saturating_add(bytes(row));
        sum <= MAX_BYTES
    };
    rows.iter().take(MAX_ROWS).take_while(fits).count().max(1).min(rows.len())
}

#[cfg(test)]
mod tests {
    use duroxide_provider::rules::{Place, WorkLock};

    use super::*;

    fn event(number: u64, bytes: usize) -> HistoryRow {
        HistoryRow { key: 1, execution_id: 1, event_id: number, json: "x".repeat(bytes) }
    }

    fn work(number: u64, locked: bool) -> NewWork {
        NewWork {
            instance: "i".to_string(),
            execution_id: 1,
            activity_id: number,
            place: Place { session_id: None, tag: String::new(), name: String::new() },
            json: String::new(),
            lock: locked.then_some(WorkLock { nonce: 1, expires_at: 1 }),
        }
    }

    fn adding(history: Vec<HistoryRow>, new_work: Vec<NewWork>) -> Changes {
        let mut changes = Changes::default();
        changes.history = history;
        changes.new_work = new_work;
        changes
    }

    #[test]
    fn every_row_is_in_one_piece_and_no_piece_is_too_large() {
        let history: Vec<HistoryRow> = (0..12_345).map(|n| event(n, 10)).collect();
        let new_work = (0..7_000).map(|n| work(n, n < 2)).collect();
        let changes = adding(history, new_work);
        let pieces: Vec<Piece<'_>> = Pieces::of(&changes).collect();
        let lengths: Vec<(usize, usize)> =
            pieces.iter().map(|one| (one.events.len(), one.work.len())).collect();
        assert_eq!(lengths, [(5_000, 5_000), (5_000, 2_000), (2_345, 0)]);
        let numbers: Vec<u64> = pieces.iter().flat_map(|one| one.events).map(|row| row.event_id).collect();
        assert!(numbers.into_iter().eq(0..12_345), "in their order");
    }

    #[test]
    fn a_row_that_is_larger_than_a_piece_comes_alone() {
        let history = vec![event(1, 10), event(2, MAX_BYTES + 1), event(3, 10)];
        let changes = adding(history, Vec::new());
        let lengths: Vec<usize> = Pieces::of(&changes).map(|piece| piece.events.len()).collect();
        assert_eq!(lengths, [1, 1, 1]);
    }

    #[test]
    fn locked_work_items_come_with_the_first_piece() {
        let new_work = (0..6_000).map(|n| work(n, n == 5_500)).collect();
        let changes = adding(Vec::new(), new_work);
        let lengths: Vec<usize> = Pieces::of(&changes).map(|piece| piece.work.len()).collect();
        assert_eq!(lengths, [5_501, 499]);
    }

    #[test]
    fn what_adds_nothing_has_no_piece() {
        assert!(Pieces::of(&Changes::default()).next().is_none());
    }
}
