//! Benchmarks of duroxide against the raw store, as ratios within one run, and long runs that must not grow.

mod eternal;
mod floor;
mod hostile;
mod kills;
mod listing;
mod poisoned_neighbours;
mod size;
mod soak;
mod typed_cost;

use std::process::ExitCode;

use floor::Failure;
use size::Size;
use tokio::runtime::Builder;

const USAGE: &str = "usage: duroxide-bench floor [--store STORE] [--dir DIRECTORY] [--only PART] [--scale DIVISOR]
       duroxide-bench listing [--dir DIRECTORY] [--count INSTANCES]
       duroxide-bench soak    [--dir DIRECTORY] [--count CALLS]
       duroxide-bench eternal [--dir DIRECTORY] [--count EXECUTIONS]
       duroxide-bench poisoned-neighbours [--dir DIRECTORY] [--count HEALTHY]
       duroxide-bench typed-cost [--dir DIRECTORY] [--count CALLS]
       duroxide-bench kills   [--dir DIRECTORY] [--count ORCHESTRATIONS] [--seconds SECONDS]
       duroxide-bench hostile PROBE [--store STORE] [--dir DIRECTORY] [--seconds SECONDS] [--lock SECONDS]

Each exits with 1 if what it checks does not hold. --dir is where the files are made (default: the system's
directory for temporary files).

floor    ratios of a file store with full sync to the raw store
         --store    sqlite (default) or postgres, on a private server or the one that DUROXIDE_TEST_POSTGRES_URL names
         --only     one part: hello, burst, chain, fan-out, queue, drain, incompatible, idle
         --scale    divide the sizes by this, for a quick look (ratios are then not binding)
listing  page 500 of 1,000,000 instances costs at most three times page 1
soak     1,000,000 activities in many instances: the memory stays within 10 % of that after the first twentieth
eternal  10,000 executions of one instance with retention: the file stays within 20 % of that after the first tenth
poisoned-neighbours
         1,000 healthy orchestrations beside 50 that are poisoned: at least 0.9 of the throughput alone
typed-cost
         hello world and a chain in both styles, under valgrind: typed ones take at most 1.03 x the instructions of text-based
         ones, on a current-thread runtime and the memory store, and no more statements or events
kills    20,000 orchestrations in 600 s, four processes on one SQLite file, each killed with SIGKILL every few seconds:
         nothing acknowledged is missing, nothing runs after its completion was recorded, all end as they must
hostile  surroundings that take minutes to show what they do
         snapshot   a transaction elsewhere keeps its snapshot for 600 s at full load on PostgreSQL: at least 0.7 of the
                    throughput before, and 0.95 of it a minute after the end
         large-turns
                    a turn of 1.2 GB fails at once and names its limit, in 1 GB of memory, and neighbours end within 200 ms;
                    beside a turn that schedules 200,000 activities they end within 500 ms
         recovery   running work after a kill, beside an activity that never ends, and after an outage of 60 s: within 1.5 x
                    of what the work and its lock take; --lock is that lock, by default that of the default options
         large-inbox
                    one instance is sent 0.8 GB of messages at once and reads them all, in 1 GB of memory, and neighbours
                    end within 200 ms";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(command) = arguments.next() else { return refuse("which benchmark?") };
    match command.as_str() {
        "floor" => match floor::Options::parse(arguments) {
            Ok(options) => run(floor::run(&options)),
            Err(message) => refuse(&message),
        },
        "listing" => sized(arguments, 1_000_000, listing::run),
        "soak" => sized(arguments, 1_000_000, soak::run),
        "eternal" => sized(arguments, 10_000, eternal::run),
        "poisoned-neighbours" => sized(arguments, 1_000, poisoned_neighbours::run),
        "typed-cost" => match Size::parse(arguments, 1_000) {
            Ok(size) => run_on(Builder::new_current_thread(), typed_cost::run(size)),
            Err(message) => refuse(&message),
        },
        typed_cost::COUNTED => match typed_cost::Orders::parse(arguments) {
            Ok(orders) => run_on(Builder::new_current_thread(), typed_cost::run_alone(orders)),
            Err(message) => refuse(&message),
        },
        "kills" => match kills::Options::parse(arguments) {
            Ok(options) => run(kills::run(options)),
            Err(message) => refuse(&message),
        },
        "hostile" => match hostile::Options::parse(arguments) {
            Ok(options) => run(hostile::run(options)),
            Err(message) => refuse(&message),
        },
        hostile::RECOVERY_WORKER => match hostile::RecoveryOrders::parse(arguments) {
            Ok(orders) => run(hostile::run_recovery_worker(orders)),
            Err(message) => refuse(&message),
        },
        kills::WORKER => match kills::Orders::parse(arguments) {
            Ok(orders) => run(kills::run_worker(orders)),
            Err(message) => refuse(&message),
        },
        other => refuse(&format!("unknown benchmark '{other}'")),
    }
}

fn sized<F: Future<Output = Result<bool, Failure>>>(
    arguments: impl Iterator<Item = String>,
    usual: usize,
    benchmark: impl FnOnce(Size) -> F,
) -> ExitCode {
    match Size::parse(arguments, usual) {
        Ok(size) => run(benchmark(size)),
        Err(message) => refuse(&message),
    }
}

fn run(benchmark: impl Future<Output = Result<bool, Failure>>) -> ExitCode {
    run_on(Builder::new_multi_thread(), benchmark)
}

fn run_on(mut builder: Builder, benchmark: impl Future<Output = Result<bool, Failure>>) -> ExitCode {
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("no tokio runtime: {error}"));
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(benchmark) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            complain(&format!("the benchmark could not be run: {error}"));
            ExitCode::from(2)
        }
    }
}

fn refuse(message: &str) -> ExitCode {
    complain(&format!("{message}\n\n{USAGE}"));
    ExitCode::from(2)
}

#[expect(clippy::print_stderr, reason = "a command line tool says what went wrong there")]
fn complain(message: &str) {
    eprintln!("{message}");
}
