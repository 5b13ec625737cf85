//! Three processes work on one PostgreSQL server. One of them is killed; the others take over what it held.
//!
//! Run it with `cargo run -p duroxide-postgres --example cluster`.
//!
//! It uses the server that `DUROXIDE_TEST_POSTGRES_URL` names, or starts a private one that ends with it. The
//! program starts itself three times as workers A, B and C, and starts twelve orders of four steps. In the middle
//! of that it kills B with SIGKILL. At the end it says which steps B had begun and who finished them, and fails
//! unless every order is complete.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child as ChildProcess, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use duroxide::Builder;
use duroxide::prelude::*;
use duroxide_postgres::{PostgresOptions, PostgresProvider, tokio_postgres};

const ORDERS: usize = 12;
const STEPS: usize = 4;
const KILLED: &str = "B";

/// What a worker is told by its environment: its name, the server and the schema.
const NAME: &str = "CLUSTER_EXAMPLE_NAME";
const URL: &str = "CLUSTER_EXAMPLE_URL";
const SCHEMA: &str = "CLUSTER_EXAMPLE_SCHEMA";

/// How long a step stays locked by a process that has died. The default of 30 s suits a real system; here nobody
/// wants to watch that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a step takes: long enough to be killed in.
const STEP: Duration = Duration::from_millis(150);
/// How long the whole may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of a worker process.
struct WorkerName(String);

/// An order. Whichever processes run it, it reads like any async function. Returns who ran its steps.
#[duroxide::orchestration]
async fn process_order(ctx: OrchestrationContext, order: String) -> Result<Vec<String>> {
    Ok(vec![
        ctx.call(reserve, order.clone()).await?,
        ctx.call(charge, order.clone()).await?,
        ctx.call(pack, order.clone()).await?,
        ctx.call(ship, order).await?,
    ])
}

#[duroxide::activity]
async fn reserve(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order).await
}

#[duroxide::activity]
async fn charge(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order).await
}

#[duroxide::activity]
async fn pack(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order).await
}

#[duroxide::activity]
async fn ship(ctx: ActivityContext, order: String) -> Result<String> {
    run_step(&ctx, &order).await
}

/// What every step does. Its result is the name of the process that ran it.
async fn run_step(ctx: &ActivityContext, order: &str) -> Result<String> {
    let WorkerName(worker) = ctx.state();
    let step = ctx.activity_name();
    say(&format!("{worker} begins {step} {order}"));
    tokio::time::sleep(STEP).await;
    say(&format!("{worker} ends {step} {order}"));
    Ok(worker.clone())
}

async fn open(url: &str, schema: &str) -> Result<Arc<PostgresProvider>> {
    let options = PostgresOptions { schema: schema.to_string(), pool_size: 2, ..Default::default() };
    Ok(Arc::new(PostgresProvider::new(url, Some(options)).await?))
}

/// What each of the three processes does: it works until nobody holds the other end of its input.
async fn work(worker: String) -> Result<()> {
    let store = open(&std::env::var(URL)?, &std::env::var(SCHEMA)?).await?;
    let options = RuntimeOptions {
        orchestrator_lock_timeout: LOCK_TIMEOUT,
        orchestrator_lock_renewal_buffer: LOCK_TIMEOUT / 2,
        worker_lock_timeout: LOCK_TIMEOUT,
        worker_lock_renewal_buffer: LOCK_TIMEOUT / 2,
        worker_concurrency: 2,
        ..Default::default()
    };
    let name = WorkerName(worker.clone());
    let app = Builder::on_store(store).state(name).options(options).start().await?;
    say(&format!("{worker} is up as process {}", std::process::id()));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    app.shutdown().await
}

/// A worker process. It does not outlive this value.
struct Worker {
    name: &'static str,
    child: ChildProcess,
}

impl Worker {
    /// Starts this program again; what it says goes to `lines`.
    fn start(name: &'static str, url: &str, schema: &str, lines: Sender<String>) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(NAME, name)
            .env(URL, url)
            .env(SCHEMA, schema)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().ok_or("a worker without an output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
            // All that it said has been read. If nobody listens any more, nobody needs to know.
            lines.send(format!("{name} left")).ok();
        });
        Ok(Self { name, child })
    }

    fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be gone already, which is all that is wanted.
        self.kill().ok();
    }
}

/// A step of an order.
type Step = (String, String);

/// What the workers have said so far.
#[derive(Default)]
struct Seen {
    up: usize,
    /// Steps that the killed worker began and did not end.
    held: Vec<Step>,
    /// Who took which of them over.
    taken: BTreeMap<Step, String>,
    is_killed: bool,
}

impl Seen {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(worker), Some(verb)) = (words.first(), words.get(1)) else { return };
        let step = || (words.get(2).map(ToString::to_string), words.get(3).map(ToString::to_string));
        match (*worker, *verb, step()) {
            (_, "is", _) => self.up += 1,
            (KILLED, "left", _) => self.is_killed = true,
            (KILLED, "begins", (Some(step), Some(order))) => self.held.push((order, step)),
            (KILLED, "ends", (Some(step), Some(order))) => {
                self.held.retain(|held| *held != (order.clone(), step.clone()));
            }
            (worker, "begins", (Some(step), Some(order))) if self.is_killed => {
                if self.held.contains(&(order.clone(), step.clone())) {
                    say(&format!("--- {worker} takes {step} of {order} over"));
                    self.taken.insert((order, step), worker.to_string());
                }
            }
            (_, _, _) => {}
        }
    }

    /// Tells what the workers say until something is so.
    fn until(&mut self, lines: &Receiver<String>, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
            say(&line);
            self.note(&line);
        }
        Ok(())
    }
}

/// Starts the workers and the orders, kills one worker, and looks at what became of it.
async fn run(url: &str, schema: &str) -> Result<()> {
    let app = Builder::on_store(open(url, schema).await?).client_only().await?;
    let (said, lines) = channel();
    let mut workers = Vec::new();
    for name in ["A", KILLED, "C"] {
        workers.push(Worker::start(name, url, schema, said.clone())?);
    }
    let mut seen = Seen::default();
    seen.until(&lines, |seen| seen.up == 3)?;
    for n in 0..ORDERS {
        let order = format!("order-{n}");
        app.start(process_order, &order, order.clone()).await?;
    }
    seen.until(&lines, |seen| !seen.held.is_empty())?;
    for worker in workers.iter_mut().filter(|worker| worker.name == KILLED) {
        worker.kill()?;
    }
    // What it said before its end may still be on the way.
    seen.until(&lines, |seen| seen.is_killed)?;
    let held: Vec<String> = seen.held.iter().map(|(order, step)| format!("{step} of {order}")).collect();
    say(&format!("--- {KILLED} was killed while it ran: {}", held.join(", ")));
    seen.until(&lines, |seen| seen.held.iter().all(|step| seen.taken.contains_key(step)))?;
    for n in 0..ORDERS {
        let order = format!("order-{n}");
        let by = app.handle(process_order, &order).result_within(PATIENCE).await?;
        say(&format!("{order} is complete; its steps were run by {}", by.join(" ")));
        if by.len() != STEPS {
            return Err(format!("{order} does not have {STEPS} steps").into());
        }
    }
    for ((order, step), worker) in &seen.taken {
        say(&format!("--- {step} of {order}: begun by {KILLED}, finished by {worker}"));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Ok(worker) = std::env::var(NAME) {
        return work(worker).await;
    }
    if std::env::var_os(private_postgres::URL_VARIABLE).is_none() && !private_postgres::is_installed() {
        say("PostgreSQL is not installed; installing it");
        private_postgres::install()?;
    }
    let url = private_postgres::shared()?;
    let schema = format!("cluster_example_{}", std::process::id());
    let outcome = run(&url, &schema).await;
    let (admin, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    admin.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
    outcome
}

/// Prints a line at once, also into a pipe.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening any more.
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
