//! Which suspects a process runs at the same time.
//!
//! A suspect may be what killed the process that had it before. After one death that is most unlikely for any one of
//! hundreds, so that they all run together, as wide as other work. Those that were there at each further death run in
//! smaller groups, and once an item has used half of its attempts it is *grave*: it runs beside no other suspect of its
//! queue, and beside no grave one of the other. So what kills its process is cornered in a few attempts, and its
//! neighbours are charged with at most half of theirs.
//!
//! A suspect holds its place for a [probation](Suspicion::probation), not until it has ended: an activity that takes an
//! hour is not in the way of others. A grave one that has passed its probation is also forgiven the attempt, so that
//! the next grave suspect, which may be the killer, does not charge it once more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// How long a grave suspect that has to wait for one of the other queue is left alone.
pub(super) const ALONE_DELAY: Duration = Duration::from_secs(2);

/// The probation of an item whose lock has expired once. Most of what kills its process does so within milliseconds.
const FIRST_PROBATION: Duration = Duration::from_secs(1);
/// The first probation of a grave suspect: long enough to corner what kills its process minutes after it began.
const GRAVE_PROBATION: Duration = Duration::from_secs(600);

/// Which queue a suspect comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Turns,
    Activities,
}

impl Queue {
    fn other(self) -> Self {
        match self {
            Self::Turns => Self::Activities,
            Self::Activities => Self::Turns,
        }
    }
}

/// How suspicious an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Its previous attempt did not end by a lock that expired, or the process that held the lock lives.
    None,
    /// It did. This many suspects of its queue may be on probation at the same time, itself included.
    Some { group: usize },
    /// It did, and there were many.
    Grave,
}

/// What is known of the attempts of an item whose lock has expired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempts {
    /// This attempt included.
    pub(super) counted: u32,
    /// Not among the counted ones.
    pub(super) forgiven: u32,
    pub(super) max: u32,
}

impl Suspicion {
    /// `width` is how many items of its queue run at the same time when all is well.
    pub(super) fn of_suspect(attempts: Attempts, width: usize) -> Self {
        let grave_from = (attempts.max / 2).max(2);
        if attempts.counted >= grave_from {
            return Self::Grave;
        }
        let deaths_before = attempts.counted.saturating_sub(2);
        let divisor = group_divisor(width, grave_from - 2).saturating_pow(deaths_before);
        Self::Some { group: (width / divisor).max(1) }
    }

    /// How long it keeps its place, if it does not end before: twice as long after each death, and much shorter each time
    /// that it was alone and did no harm.
    pub(super) fn probation(self, attempts: Attempts) -> Duration {
        match self {
            Self::None | Self::Some { .. } => {
                let factor = 1_u32.checked_shl(attempts.counted.saturating_sub(2)).unwrap_or(u32::MAX);
                FIRST_PROBATION.saturating_mul(factor).min(GRAVE_PROBATION)
            }
            Self::Grave => {
                let divisor = 4_u32.saturating_pow(attempts.forgiven);
                (GRAVE_PROBATION / divisor).max(FIRST_PROBATION)
            }
        }
    }

    fn group(self) -> usize {
        match self {
            Self::None => usize::MAX,
            Self::Some { group } => group,
            Self::Grave => 1,
        }
    }
}

/// By how much a group shrinks at each death, so that it has shrunk from `width` to one item after `steps` deaths.
fn group_divisor(width: usize, steps: u32) -> usize {
    let reaches_one = |divisor: usize| divisor.saturating_pow(steps) >= width;
    (2..=width.max(2)).find(|divisor| reaches_one(*divisor)).unwrap_or(2)
}

/// What became of the question whether an item may run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It may, with this place if it is a suspect.
    MayRun(Option<Place>),
    /// As many suspects of its queue as may be are on probation.
    QueueTaken,
    /// It is grave, and a grave one of the other queue runs or is next. It has a place until it is given back, so that
    /// the next one is not fetched meanwhile to hear the same.
    NotAlone(Place),
}

/// Names one suspect on probation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) queue: Queue,
    number: u64,
}

/// The suspects on probation, by queue.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    running: Mutex<Running>,
    turn_ended: Notify,
    activity_ended: Notify,
}

#[derive(Debug, Default)]
struct Running {
    last_number: u64,
    turns: Vec<Standing>,
    activities: Vec<Standing>,
    /// The queue whose suspect was refused last because it would not have been alone, and until when it goes first.
    next: Option<(Queue, Instant)>,
}

/// One suspect on probation.
#[derive(Debug, Clone, Copy)]
struct Standing {
    number: u64,
    suspicion: Suspicion,
}

impl Running {
    fn of(&mut self, queue: Queue) -> &mut Vec<Standing> {
        match queue {
            Queue::Turns => &mut self.turns,
            Queue::Activities => &mut self.activities,
        }
    }

    /// How many more suspects of the queue may begin, as far as those on probation go.
    fn room(&mut self, queue: Queue) -> usize {
        let standing = self.of(queue);
        let group = standing.iter().map(|one| one.suspicion.group()).min().unwrap_or(usize::MAX);
        group.saturating_sub(standing.len())
    }

    fn has_grave(&mut self, queue: Queue) -> bool {
        self.of(queue).iter().any(|one| one.suspicion == Suspicion::Grave)
    }

    fn enter(&mut self, queue: Queue, suspicion: Suspicion) -> Place {
        self.last_number += 1;
        let number = self.last_number;
        self.of(queue).push(Standing { number, suspicion });
        Place { queue, number }
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

    /// Resolves when a suspect of this queue that is on probation now has ended or passed.
    pub(super) fn one_ended(&self, queue: Queue) -> Notified<'_> {
        self.ended(queue).notified()
    }

    /// How many more suspects of this queue may begin now.
    pub(super) fn room(&self, queue: Queue) -> usize {
        self.lock().room(queue)
    }

    /// Asks to run an item.
    pub(super) fn ask(&self, queue: Queue, suspicion: Suspicion) -> Answer {
        if suspicion == Suspicion::None {
            return Answer::MayRun(None);
        }
        let mut running = self.lock();
        let taken = running.of(queue).len();
        if running.room(queue) == 0 || taken >= suspicion.group() {
            return Answer::QueueTaken;
        }
        if suspicion != Suspicion::Grave {
            return Answer::MayRun(Some(running.enter(queue, suspicion)));
        }
        let other = queue.other();
        let others_turn = running.next() == Some(other);
        if running.has_grave(other) || others_turn {
            if !others_turn {
                running.next = Some((queue, Instant::now() + 2 * ALONE_DELAY));
            }
            return Answer::NotAlone(running.enter(queue, Suspicion::Some { group: 1 }));
        }
        running.next = None;
        Answer::MayRun(Some(running.enter(queue, suspicion)))
    }

    /// The suspect has ended, has passed its probation, or was given back.
    pub(super) fn end(&self, place: Place) {
        self.lock().of(place.queue).retain(|one| one.number != place.number);
        self.ended(place.queue).notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(counted: u32) -> Attempts {
        Attempts { counted, forgiven: 0, max: 10 }
    }

    /// Asks, and gives the place of what may run.
    fn enter(suspects: &Suspects, queue: Queue, suspicion: Suspicion) -> Place {
        match suspects.ask(queue, suspicion) {
            Answer::MayRun(Some(place)) => place,
            answer @ (Answer::MayRun(None) | Answer::QueueTaken | Answer::NotAlone(_)) => {
                panic!("{answer:?}")
            }
        }
    }

    /// Asks, and gives the place of what must wait for the other queue.
    fn refused(suspects: &Suspects, queue: Queue) -> Place {
        match suspects.ask(queue, Suspicion::Grave) {
            Answer::NotAlone(place) => place,
            answer @ (Answer::MayRun(_) | Answer::QueueTaken) => panic!("{answer:?}"),
        }
    }

    #[test]
    fn groups_shrink_with_each_death_to_one_item_at_half_of_the_attempts() {
        let group = |counted| Suspicion::of_suspect(attempts(counted), 512);
        assert_eq!(group(2), Suspicion::Some { group: 512 }, "after one death all of them");
        assert_eq!(group(3), Suspicion::Some { group: 64 });
        assert_eq!(group(4), Suspicion::Some { group: 8 });
        assert_eq!(group(5), Suspicion::Grave);
        let few = Attempts { counted: 2, forgiven: 0, max: 3 };
        assert_eq!(Suspicion::of_suspect(few, 512), Suspicion::Grave, "one more attempt, and no other");
        let many = |counted| Attempts { counted, forgiven: 0, max: u32::MAX };
        assert_eq!(Suspicion::of_suspect(many(4), 512), Suspicion::Some { group: 128 }, "they halve");
        assert_eq!(Suspicion::of_suspect(many(1_000), 512), Suspicion::Some { group: 1 });
    }

    #[test]
    fn a_probation_doubles_with_each_death_and_is_long_for_a_grave_suspect() {
        let one_of_many = Suspicion::Some { group: 9 };
        assert_eq!(one_of_many.probation(attempts(2)), Duration::from_secs(1));
        assert_eq!(one_of_many.probation(attempts(4)), Duration::from_secs(4));
        assert_eq!(one_of_many.probation(attempts(u32::MAX)), GRAVE_PROBATION);
        assert_eq!(Suspicion::Grave.probation(attempts(5)), GRAVE_PROBATION);
        let forgiven = |forgiven| Attempts { forgiven, ..attempts(5) };
        assert_eq!(Suspicion::Grave.probation(forgiven(1)), GRAVE_PROBATION / 4);
        assert_eq!(Suspicion::Grave.probation(forgiven(u32::MAX)), FIRST_PROBATION);
    }

    #[tokio::test(start_paused = true)]
    async fn the_smallest_group_among_those_on_probation_counts() {
        let suspects = Suspects::default();
        let of_three = Suspicion::Some { group: 3 };
        let first = enter(&suspects, Queue::Turns, of_three);
        assert_eq!(suspects.room(Queue::Turns), 2);
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::Some { group: 1 }), Answer::QueueTaken);
        enter(&suspects, Queue::Turns, Suspicion::Some { group: 2 });
        assert_eq!(
            suspects.ask(Queue::Turns, of_three),
            Answer::QueueTaken,
            "two run, and one is of a group of two"
        );
        assert_eq!(suspects.ask(Queue::Turns, Suspicion::None), Answer::MayRun(None));
        assert_eq!(suspects.room(Queue::Activities), usize::MAX, "the other queue is not concerned");
        suspects.end(first);
        enter(&suspects, Queue::Turns, of_three);
    }

    #[tokio::test(start_paused = true)]
    async fn a_grave_suspect_is_the_only_one_of_its_queue_and_the_only_grave_one() {
        let suspects = Suspects::default();
        let grave = enter(&suspects, Queue::Activities, Suspicion::Grave);
        assert_eq!(suspects.room(Queue::Activities), 0);
        assert_eq!(suspects.ask(Queue::Activities, Suspicion::Some { group: 9 }), Answer::QueueTaken);
        enter(&suspects, Queue::Turns, Suspicion::Some { group: 9 });
        suspects.end(grave);
        enter(&suspects, Queue::Activities, Suspicion::Some { group: 9 });
    }

    #[tokio::test(start_paused = true)]
    async fn grave_suspects_of_the_two_queues_take_turns() {
        let suspects = Suspects::default();
        let activity = enter(&suspects, Queue::Activities, Suspicion::Grave);
        let turn = refused(&suspects, Queue::Turns);
        assert_eq!(suspects.room(Queue::Turns), 0, "until it is given back");
        suspects.end(turn);
        suspects.end(activity);
        suspects.end(refused(&suspects, Queue::Activities));
        suspects.end(enter(&suspects, Queue::Turns, Suspicion::Grave));
        enter(&suspects, Queue::Activities, Suspicion::Grave);
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspect_that_another_process_has_taken_is_not_waited_for() {
        let suspects = Suspects::default();
        let activity = enter(&suspects, Queue::Activities, Suspicion::Grave);
        suspects.end(refused(&suspects, Queue::Turns));
        suspects.end(activity);
        tokio::time::advance(2 * ALONE_DELAY).await;
        enter(&suspects, Queue::Activities, Suspicion::Grave);
    }
}
