//! An order survives the crash of the process that works on it.
//!
//! Run it with `cargo run -p duroxide --example order_survives_crash`.
//!
//! The program starts itself twice on the same SQLite file. Process 1 aborts in the middle of the third of
//! five steps. Process 2 runs the same code and finishes the order. At the end the program compares what the
//! store had recorded before the crash with what ran afterwards, and fails if a recorded step ran again.

use std::collections::BTreeSet;
use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use duroxide::prelude::*;
use duroxide::{Event, EventKind};

const ORDER: &str = "order-42";
const STEPS: [&str; 5] = ["reserve_stock", "charge_card", "pack", "ship", "send_receipt"];
const CRASHES_IN: &str = "pack";

/// How long a step stays locked by a process that has died. The default of 30 s suits a real system; here
/// nobody wants to watch that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The order. It reads like any async function; what makes it durable is that each step is recorded.
#[duroxide::orchestration]
async fn process_order(ctx: OrchestrationContext, order: String) -> Result<String> {
    let reservation = ctx.call(reserve_stock, order.clone()).await?;
    let payment = ctx.call(charge_card, order).await?;
    let parcel = ctx.call(pack, reservation).await?;
    let tracking = ctx.call(ship, parcel).await?;
    Ok(ctx.call(send_receipt, format!("{payment}, {tracking}")).await?)
}

#[duroxide::activity]
async fn reserve_stock(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order)
}

#[duroxide::activity]
async fn charge_card(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order)
}

#[duroxide::activity]
async fn pack(ctx: ActivityContext, reservation: String) -> Result<String> {
    run_step(&ctx, &reservation)
}

#[duroxide::activity]
async fn ship(ctx: ActivityContext, parcel: String) -> Result<String> {
    run_step(&ctx, &parcel)
}

#[duroxide::activity]
async fn send_receipt(ctx: ActivityContext, what: String) -> Result<String> {
    run_step(&ctx, &what)
}

/// What every step does: it notes in a file outside the store that it ran, as a warehouse or a bank would.
fn run_step(ctx: &ActivityContext, input: &str) -> Result<String> {
    let process = ctx.state::<Process>();
    let step = ctx.activity_name();
    process.note(step)?;
    if process.number == 1 && step == CRASHES_IN {
        say(&format!("process 1: {step} begins ... and the process aborts"));
        std::process::abort();
    }
    let again = if ctx.attempt() > 1 { " (a new attempt: its result was never recorded)" } else { "" };
    say(&format!("process {}: {step} runs{again}", process.number));
    Ok(format!("{step}({input})"))
}

/// What each of the two processes does. Both run exactly this; only the number differs.
async fn work(process: Process) -> Result<()> {
    let number = process.number;
    say(&format!("process {number}: starts, pid {}", std::process::id()));
    let options = RuntimeOptions {
        worker_lock_timeout: LOCK_TIMEOUT,
        worker_lock_renewal_buffer: LOCK_TIMEOUT / 2,
        ..Default::default()
    };
    let url = url(&process.directory);
    let app = Duroxide::builder(url).state(process).options(options).start().await?;
    // Starting an id that exists attaches to it, so both processes may ask for the order.
    let receipt = app.run(process_order, ORDER, ORDER.to_string()).await?;
    say(&format!("process {number}: the order is done: {receipt}"));
    app.shutdown().await
}

/// One of the two processes, and where the store and the notes are.
struct Process {
    number: u32,
    directory: PathBuf,
}

impl Process {
    /// Notes that a step ran here.
    fn note(&self, step: &str) -> std::io::Result<()> {
        let path = self.directory.join("notes");
        let mut notes = OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(notes, "{} {step}", self.number)?;
        notes.sync_all()
    }
}

fn url(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("orders.db").display())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [number, directory] => {
            let process = Process { number: number.parse()?, directory: PathBuf::from(directory) };
            work(process).await
        }
        _ => watch().await,
    }
}

/// Starts one process after the other and checks what they did.
async fn watch() -> Result<()> {
    let directory = tempfile::tempdir()?;
    say("An order has five steps. Process 1 will crash in the third one.\n");

    let ended = start(1, directory.path())?;
    if ended.success() {
        return Err("process 1 should have crashed".into());
    }
    say(&format!("process 1 is gone ({ended})\n"));

    let recorded = recorded_steps(&history(directory.path()).await?);
    say(&format!("The file has recorded: {}.", recorded.join(", ")));
    say(&format!(
        "{CRASHES_IN} is still locked by process 1. The lock expires after {} s, then any process may take it.\n",
        LOCK_TIMEOUT.as_secs()
    ));

    if !start(2, directory.path())?.success() {
        return Err("process 2 failed".into());
    }
    check(&recorded, &read_to_string(directory.path().join("notes"))?)
}

fn start(number: u32, directory: &Path) -> std::io::Result<ExitStatus> {
    Command::new(std::env::current_exe()?).arg(number.to_string()).arg(directory).status()
}

async fn history(directory: &Path) -> Result<Vec<Event>> {
    let app = Duroxide::client_only(url(directory)).await?;
    Ok(app.handle(process_order, ORDER).history().await?)
}

/// The steps whose result is in the history, in its order.
fn recorded_steps(history: &[Event]) -> Vec<String> {
    let completed: BTreeSet<u64> = history
        .iter()
        .filter(|event| matches!(event.kind, EventKind::ActivityCompleted { .. }))
        .filter_map(Event::source_event_id)
        .collect();
    let scheduled = history.iter().filter(|event| completed.contains(&event.event_id()));
    scheduled
        .filter_map(|event| {
            if let EventKind::ActivityScheduled { name, .. } = &event.kind {
                Some(name.clone())
            } else {
                None
            }
        })
        .collect()
}

/// Prints which process ran what, and fails if a step ran in process 2 although process 1 had recorded it.
fn check(recorded: &[String], notes: &str) -> Result<()> {
    let runs =
        |number: u32, step: &str| notes.lines().filter(|line| *line == format!("{number} {step}")).count();
    say(&format!("\n{:<14}{:<12}{:<12}{}", "step", "process 1", "process 2", "recorded before the crash"));
    let mut faults = Vec::new();
    for step in STEPS {
        let (first, second) = (runs(1, step), runs(2, step));
        let was_recorded = recorded.iter().any(|recorded| recorded == step);
        let in_first = match (first, was_recorded) {
            (0, _) => "-".to_string(),
            (_, true) => format!("ran {first}x"),
            (_, false) => "cut off".to_string(),
        };
        let in_second = if second == 0 { "-".to_string() } else { format!("ran {second}x") };
        let yes_or_no = if was_recorded { "yes" } else { "no" };
        say(&format!("{step:<14}{in_first:<12}{in_second:<12}{yes_or_no}"));
        if was_recorded && (first, second) != (1, 0) {
            faults.push(format!("{step} ran again after it was recorded"));
        }
        if !was_recorded && second != 1 {
            faults.push(format!("{step} was not finished by process 2"));
        }
    }
    if recorded.len() != 2 {
        faults.push(format!("{} steps were recorded before the crash instead of 2", recorded.len()));
    }
    if faults.is_empty() {
        say("\nNo recorded step ran twice. Only the step that was cut off by the crash began again.");
        Ok(())
    } else {
        Err(faults.join("; ").into())
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what happens")]
fn say(line: &str) {
    println!("{line}");
}
