//! Which suspects a process runs at the same time.
//!
//! A suspect may be what killed the process that had it before. One of each queue runs at a time, so that it is charged
//! with the next death and its neighbours are not. A long activity and a turn that kills would still meet: both come back
//! when their locks expire, again and again. So a suspect that has cost many attempts runs alone: no second one like it,
//! of whichever queue.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// How long a suspect that has to wait for one of the other queue is left alone.
pub(super) const ALONE_DELAY: Duration = Duration::from_secs(2);

/// Which queue a suspect comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Turns,
    Activities,
}

/// How suspicious an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Its previous attempt did not end by a lock that expired.
    None,
    /// It did.
    Some,
    /// It did, and there were many.
    Grave,
}

impl Suspicion {
    pub(super) fn of(suspect: bool, attempts: u32, max_attempts: u32) -> Self {
        if !suspect {
            Self::None
        } else if attempts < (max_attempts / 2).max(2) {
            Self::Some
        } else {
            Self::Grave
        }
    }
}

/// What became of the question whether an item may run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    MayRun,
    /// A suspect of its queue runs.
    QueueTaken,
    /// It should run alone, and a suspect of the other queue that should as well runs or is next.
    NotAlone,
}

/// The suspects that run, by queue.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    running: Mutex<Running>,
    turn_ended: Notify,
    activity_ended: Notify,
}

#[derive(Debug, Default)]
struct Running {
    turn: Option<Suspicion>,
    activity: Option<Suspicion>,
    /// The queue whose suspect was refused last because it would not have been alone, and until when it goes first.
    next: Option<(Queue, Instant)>,
}

impl Running {
    fn of(&mut self, queue: Queue) -> &mut Option<Suspicion> {
        match queue {
            Queue::Turns => &mut self.turn,
            Queue::Activities => &mut self.activity,
        }
    }

    fn next(&self) -> Option<Queue> {
        self.next.filter(|(_, until)| Instant::now() < *until).map(|(queue, _)| queue)
    }
}

impl Suspects {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, queue: Queue) -> &Notify {
        match queue {
            Queue::Turns => &self.turn_ended,
            Queue::Activities => &self.activity_ended,
        }
    }

    /// Resolves when the suspect of this queue that runs now has ended.
    pub(super) fn one_ended(&self, queue: Queue) -> Notified<'_> {
        self.ended(queue).notified()
    }

    /// Whether no suspect of this queue runs now.
    pub(super) fn has_room(&self, queue: Queue) -> bool {
        self.lock().of(queue).is_none()
    }

    /// Asks to run a suspect. If it may not because it would not be alone, its queue is taken all the same, until it
    /// is given back: meanwhile nobody fetches the next one to hear the same.
    pub(super) fn ask(&self, queue: Queue, suspicion: Suspicion) -> Answer {
        if suspicion == Suspicion::None {
            return Answer::MayRun;
        }
        let mut running = self.lock();
        if running.of(queue).is_some() {
            return Answer::QueueTaken;
        }
        if suspicion == Suspicion::Some {
            *running.of(queue) = Some(suspicion);
            return Answer::MayRun;
        }
        let other = match queue {
            Queue::Turns => Queue::Activities,
            Queue::Activities => Queue::Turns,
        };
        let others_turn = running.next() == Some(other);
        if *running.of(other) == Some(Suspicion::Grave) || others_turn {
            if !others_turn {
                running.next = Some((queue, Instant::now() + 2 * ALONE_DELAY));
            }
            *running.of(queue) = Some(Suspicion::Some);
            return Answer::NotAlone;
        }
        running.next = None;
        *running.of(queue) = Some(suspicion);
        Answer::MayRun
    }

    /// The suspect of this queue has ended, or was given back.
    pub(super) fn end(&self, queue: Queue) {
        *self.lock().of(queue) = None;
        self.ended(queue).notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_is_grave_once_it_has_used_half_of_its_attempts() {
        assert_eq!(Suspicion::of(false, 9, 10), Suspicion::None);
        assert_eq!(Suspicion::of(true, 4, 10), Suspicion::Some);
        assert_eq!(Suspicion::of(true, 5, 10), Suspicion::Grave);
        assert_eq!(Suspicion::of(true, 2, 3), Suspicion::Grave, "one more attempt, and no other");
        assert_eq!(Suspicion::of(true, 2, u32::MAX), Suspicion::Some);
    }

    #[tokio::test(start_paused = true)]
    async fn one_suspect_of_each_queue_runs_at_a_time() {
        let suspects = Suspects::default();
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Some), Answer::MayRun);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Some), Answer::QueueTaken);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::None), Answer::MayRun);
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Grave), Answer::MayRun);
        suspects.end(Queue::Turns);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Some), Answer::MayRun, "not grave: not alone");
    }

    #[tokio::test(start_paused = true)]
    async fn grave_suspects_of_the_two_queues_take_turns() {
        let suspects = Suspects::default();
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Grave), Answer::MayRun);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Grave), Answer::NotAlone);
        assert!(!suspects.has_room(Queue::Turns), "until it is given back");
        suspects.end(Queue::Turns);
        suspects.end(Queue::Activities);
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Grave), Answer::NotAlone, "the turn is next");
        suspects.end(Queue::Activities);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Grave), Answer::MayRun);
        suspects.end(Queue::Turns);
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Grave), Answer::MayRun);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_a_suspect_that_does_not_come_back() {
        let suspects = Suspects::default();
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Grave), Answer::MayRun);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Grave), Answer::NotAlone);
        suspects.end(Queue::Turns);
        suspects.end(Queue::Activities);
        tokio::time::advance(2 * ALONE_DELAY).await;
        assert_eq!(
            suspects.ask(Queue::Activities, Suspicion::Grave),
            Answer::MayRun,
            "another process has it"
        );
    }
}
