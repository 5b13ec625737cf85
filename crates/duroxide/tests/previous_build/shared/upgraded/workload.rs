//! What each process starts, cancels and waits for, whatever build it is.

use std::time::Duration;

use duroxide::Client;

use super::ROUNDS;

/// Instances of `Mixed` that a process starts.
pub(crate) const MIXED_EACH: usize = 10;
/// Messages that an instance of `Mixed` takes at most.
const MIXED_MESSAGES: u32 = 5;
/// Instances of each other program that a process starts.
const STARTED_EACH: usize = 4;
/// Long enough for some of them to be where a cancel finds something to undo.
const BEFORE_CANCELS: Duration = Duration::from_millis(700);
/// How the ids of instances of `Mixed` begin.
pub(crate) const MIXED: &str = "mixed-";
/// Why instances are cancelled.
pub(crate) const REASON: &str = "asked for";
/// Longer than any process lives.
const PATIENCE: Duration = Duration::from_secs(600);

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    Upgraded,
    Conditional,
    Compensated,
    Overdue,
}

impl Program {
    pub(crate) const ALL: [Self; 4] = [Self::Upgraded, Self::Conditional, Self::Compensated, Self::Overdue];

    pub(crate) fn orchestration(self) -> &'static str {
        match self {
            Self::Upgraded => "Upgraded",
            Self::Conditional => "Conditional",
            Self::Compensated => "Compensated",
            Self::Overdue => "Overdue",
        }
    }

    /// Whether nothing but a cancel ends it.
    pub(crate) fn is_cancelled(self) -> bool {
        match self {
            Self::Upgraded | Self::Conditional => false,
            Self::Compensated | Self::Overdue => true,
        }
    }

    /// The program of an instance that a process started; `None` for the others and for children.
    pub(crate) fn of(instance: &str) -> Option<Self> {
        let is_of = |program: &Self| instance.starts_with(&format!("{}-", program.orchestration()));
        Self::ALL.into_iter().find(is_of).filter(|_| !instance.contains("::"))
    }
}

/// Starts some instances of each program, with their messages in the queue. Gives their ids.
pub(crate) async fn start_some(client: &Client) -> Vec<String> {
    let mut started = Vec::new();
    for number in 0..MIXED_EACH {
        let instance = format!("{MIXED}{}-{number}", std::process::id());
        for message in 1..=MIXED_MESSAGES {
            client.enqueue_event(&instance, "queue", format!("m{message}")).await.expect("enqueue");
        }
        client.start_orchestration(&instance, "Mixed", "").await.expect("start");
        started.push(instance);
    }
    for number in 0..STARTED_EACH {
        for program in Program::ALL {
            let instance = format!("{}-{}-{number}", program.orchestration(), std::process::id());
            if program == Program::Upgraded {
                for round in 1..=ROUNDS {
                    client.enqueue_event(&instance, "go", format!("go {round}")).await.expect("enqueue");
                }
            }
            let input = if program == Program::Upgraded { 1 } else { number };
            let start = client.start_orchestration(&instance, program.orchestration(), input.to_string());
            start.await.expect("start");
            started.push(instance);
        }
    }
    started
}

/// Cancels what only a cancel ends, and waits for the ends of all.
pub(crate) async fn cancel_and_wait(client: &Client, started: &[String]) {
    tokio::time::sleep(BEFORE_CANCELS).await;
    for instance in started.iter().filter(|instance| Program::of(instance).is_some_and(Program::is_cancelled))
    {
        client.cancel_instance(instance, REASON).await.expect("cancel");
    }
    for instance in started {
        client.wait_for_orchestration(instance, PATIENCE).await.expect("it ends");
    }
}
