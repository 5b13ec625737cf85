//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::output::Format;
use crate::when::{parse_span, parse_time};

/// Look into a duroxide store, and act on its instances.
#[derive(Debug, Parser)]
#[command(name = "duroxide", version, about, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// The store: sqlite:PATH or postgres://USER@HOST/DATABASE. Else DUROXIDE_STORE, else a profile.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// A profile of the configuration file.
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "store")]
    pub(crate) profile: Option<String>,
    /// In which form data is written.
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub(crate) output: Format,
    #[command(subcommand)]
    pub(crate) noun: Noun,
}

const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 error, 2 wrong usage, 3 the store, 4 not found, 5 the answer is no, 6 timeout.";

#[derive(Debug, Subcommand)]
pub(crate) enum Noun {
    /// Instances: what they are, and what becomes of them.
    #[command(subcommand)]
    Instance(InstanceVerb),
    /// Send events and queue messages.
    #[command(subcommand)]
    Event(EventVerb),
    /// The values that an instance shows.
    #[command(subcommand)]
    Kv(KvVerb),
    /// The nodes that work on the store.
    #[command(subcommand)]
    Node(NodeVerb),
    /// Whether everything that was scheduled is on its way.
    #[command(subcommand)]
    Health(HealthVerb),
    /// What waits, and for whom.
    #[command(subcommand)]
    Queue(QueueVerb),
    /// Failed instances, grouped by their error.
    Failures(FailuresOf),
    /// Delete old executions; never a current one.
    Prune(Prune),
    /// Check that this build replays recorded histories; exit 5 if it does not. Needs the program's own binary.
    Replay(Replay),
    /// The store itself.
    #[command(subcommand)]
    Store(StoreVerb),
    /// Which store is meant, and the profiles.
    Config,
    /// A script that completes these words in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// The manual page.
    Man,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstanceVerb {
    /// List instances, latest first.
    List(List),
    /// Count instances.
    Count(Filter),
    /// Show one instance.
    Show(One),
    /// Show the history of an execution.
    History(History),
    /// Show an instance with all that descend from it.
    Tree(One),
    /// Wait until instances have ended; exit 5 if one failed.
    Wait(Wait),
    /// Start an instance.
    Start(Start),
    /// Cancel instances.
    Cancel(Cancel),
    /// Delete instances with their trees.
    Delete(Delete),
    /// Let failed instances go on, after the cause was fixed.
    Redrive(Chosen),
}

/// One instance.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The instance.
    pub(crate) id: String,
}

/// Which instances.
#[derive(Debug, Clone, Args)]
pub(crate) struct Filter {
    /// Only those with this status: running, completed or failed.
    #[arg(long, value_parser = ["running", "completed", "failed"])]
    pub(crate) status: Option<String>,
    /// Only those of this orchestration.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only those of this version of their orchestration.
    #[arg(long, value_name = "VERSION")]
    pub(crate) handler_version: Option<String>,
    /// Only those started at this time or later: RFC 3339, a local time, or how long ago (2h).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) created_after: Option<u64>,
    /// Only those started before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) created_before: Option<u64>,
    /// Only those changed at this time or later.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) updated_after: Option<u64>,
    /// Only those last changed before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) updated_before: Option<u64>,
    /// Only children of this instance.
    #[arg(long, value_name = "ID")]
    pub(crate) parent: Option<String>,
    /// Only ids that begin like this; they come in the order of their ids.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// At most this many.
    #[arg(long, default_value_t = 100, conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All of them.
    #[arg(long)]
    pub(crate) all: bool,
    /// Behind the place that the page before ended with.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct History {
    /// The instance.
    pub(crate) id: String,
    /// The execution; the current one by default.
    #[arg(long, value_name = "N")]
    pub(crate) execution: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// The instances; `-` reads them from standard input.
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// How long to wait for all of them together; forever by default.
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// The orchestration.
    pub(crate) name: String,
    /// The id of the new instance.
    pub(crate) id: String,
    /// The input as it is stored: JSON for typed programs. `@FILE` reads a file, `-` standard input.
    #[arg(long, default_value = "")]
    pub(crate) input: String,
    /// The version of the orchestration.
    #[arg(long, value_name = "VERSION")]
    pub(crate) handler_version: Option<String>,
}

/// The instances that a command changes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Chosen {
    /// The instances; `-` reads them from standard input.
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Do it without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only tell which instances it would be about.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Recorded as the reason.
    #[arg(long, default_value = "cancelled by an operator")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Also those that are running.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventVerb {
    /// Raise an event for an instance.
    Raise(Send),
    /// Put a message into a queue of an instance.
    Enqueue(Send),
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The instance.
    pub(crate) id: String,
    /// The event or the queue.
    pub(crate) name: String,
    /// The data as it is stored: JSON for typed programs. `@FILE` reads a file, `-` standard input.
    #[arg(default_value = "")]
    pub(crate) data: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KvVerb {
    /// List the values of an instance.
    List(One),
    /// One value of an instance.
    Get {
        /// The instance.
        id: String,
        /// The key.
        key: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// List the nodes, also those that left or fell silent within a day.
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HealthVerb {
    /// Look for what is wrong; exit 5 if something is.
    Check(HealthCheck),
    /// Put back what was scheduled and is queued nowhere.
    Repair(Repair),
}

#[derive(Debug, Args)]
pub(crate) struct HealthCheck {
    /// From which age on something that is ready and not taken counts.
    #[arg(long, value_name = "DURATION", value_parser = parse_span, default_value = "60s")]
    pub(crate) overdue_after: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// The instances; `-` reads them from standard input.
    pub(crate) ids: Vec<String>,
    /// All that a check finds.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    /// Do it without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only tell which instances it would be about.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// List what waits, and what no live node can do.
    List,
}

#[derive(Debug, Args)]
pub(crate) struct FailuresOf {
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// The instances; all by default; `-` reads them from standard input.
    pub(crate) ids: Vec<String>,
    /// How many of the latest executions stay.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep_last: u32,
    /// Only executions that ended before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) ended_before: Option<u64>,
    /// Do it without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only tell which instances it would be about.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Files with histories, as the test kit writes them.
    #[arg(required_unless_present = "running")]
    pub(crate) files: Vec<PathBuf>,
    /// The current execution of every running instance of the store.
    #[arg(long, conflicts_with = "files")]
    pub(crate) running: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreVerb {
    /// What the store is: schema, size, settings. Works for every schema.
    Info,
    /// Bring the schema up to date.
    Migrate {
        /// Also create a store that is missing.
        #[arg(long)]
        create: bool,
    },
    /// Copy a SQLite store into a new file, while programs work on it.
    Backup {
        /// The new file.
        to: PathBuf,
    },
    /// Look for damage and for settings that risk data; exit 5 if there is any.
    Doctor,
}
