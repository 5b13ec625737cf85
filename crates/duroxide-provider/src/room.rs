//! What one fetch may still bring, in bytes and events.

use duroxide_core::limits;

/// Bytes of messages, or of work items.
#[derive(Debug)]
pub struct ByteRoom {
    left: usize,
    is_untouched: bool,
}

impl ByteRoom {
    /// For the messages of one fetch, of all its instances together.
    pub fn for_messages() -> Self {
        Self { left: limits::MAX_MESSAGE_BYTES_PER_FETCH, is_untouched: true }
    }

    /// For the work items of one fetch.
    pub fn for_work() -> Self {
        Self { left: limits::MAX_WORK_BYTES_PER_FETCH, is_untouched: true }
    }

    /// Whether something of this size still comes. The first comes whatever it weighs.
    pub fn fits(&self, bytes: usize) -> bool {
        bytes <= self.left()
    }

    /// What may come next at most.
    pub fn left(&self) -> usize {
        if self.is_untouched { usize::MAX } else { self.left }
    }

    /// Something of this size comes.
    pub fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.is_untouched = false;
    }
}

/// Histories besides that of the first instance.
#[derive(Debug)]
pub struct HistoryRoom {
    events: u64,
    bytes: u64,
}

impl Default for HistoryRoom {
    fn default() -> Self {
        Self { events: limits::MAX_EVENTS_PER_FETCH, bytes: limits::MAX_HISTORY_BYTES_PER_FETCH }
    }
}

impl HistoryRoom {
    /// Takes the room for a history; `false`, and nothing is taken, if there is not enough of it.
    pub fn take(&mut self, history: HistorySize) -> bool {
        let (events, bytes) =
            (self.events.checked_sub(history.events), self.bytes.checked_sub(history.bytes));
        match (events, bytes) {
            (Some(events), Some(bytes)) => {
                *self = Self { events, bytes };
                true
            }
            (None, _) | (_, None) => false,
        }
    }
}

/// What is read of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySize {
    /// Its events.
    pub events: u64,
    /// Their stored forms.
    pub bytes: u64,
}

impl HistorySize {
    /// Of one that is held and not read.
    pub const NOTHING: Self = Self { events: 0, bytes: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comes_whatever_it_weighs_and_leaves_no_room_if_it_is_too_large() {
        let limit = limits::MAX_MESSAGE_BYTES_PER_FETCH;
        let mut room = ByteRoom::for_messages();
        assert!(room.fits(limit + 1));
        room.take(limit + 1);
        assert!(!room.fits(1));
        let mut room = ByteRoom::for_messages();
        room.take(1);
        assert!(room.fits(limit - 1));
        assert!(!room.fits(limit));
    }

    #[test]
    fn a_history_that_is_too_long_or_too_large_takes_no_room() {
        let mut room = HistoryRoom::default();
        let half = HistorySize { events: 1, bytes: limits::MAX_HISTORY_BYTES_PER_FETCH / 2 };
        assert!(!room.take(HistorySize { events: limits::MAX_EVENTS_PER_FETCH + 1, bytes: 0 }));
        assert!(room.take(half));
        assert!(!room.take(HistorySize { bytes: half.bytes + 1, ..half }));
        assert!(room.take(half));
        assert!(room.take(HistorySize::NOTHING));
    }
}
