//! The cases: a kill, a kill beside an activity that never ends, and an outage of the store without any death.

use std::process::{Child, Command};
use std::time::Duration;

use duroxide::{Client, OrchestrationStatus};
use tokio::time::Instant;

use super::store::{Outage, Shared};
use super::worker::{Begun, CHAIN, NEVER, Orders, STEPS, WORK, WORKS, locks};
use super::{super::Options, WORKER};
use crate::floor::report::Report;
use crate::floor::store::PATIENCE;
use crate::floor::{Failure, Kind};

/// What a killed process was running.
const KILLED: usize = 40;
/// What it was running beside one activity that never ends.
const BESIDE: usize = 20;
/// Chains under way when the store goes away, and for how long it does.
const CHAINS: usize = 30;
const OUTAGE: Duration = Duration::from_secs(60);
/// The time that may pass, in times of what the work and the lock take.
const ALLOWED: f64 = 1.5;
/// How long a process may take to begin all of its activities.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// How often to look for something that happens in another process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether all cases end in time.
pub(crate) async fn run(options: &Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    let store = Shared::make(options).await?;
    let lock = locks(options.lock).worker_lock_timeout;
    report.section(&format!("recovery on {:?}, locks of {lock:?}", options.store));
    report.figure("allowed", format!("{ALLOWED} x (the work + the lock of an activity)"));
    let cluster = Cluster { options, store: &store, lock };
    let works: Vec<_> = (0..KILLED).map(|n| (format!("killed-{n}"), WORKS)).collect();
    let took = cluster.after_a_kill(&works, &[]).await?;
    cluster.judge(&mut report, "40 activities of 3 s after a kill", WORK, took);

    let works: Vec<_> = (0..BESIDE).map(|n| (format!("beside-{n}"), WORKS)).collect();
    let took = cluster.after_a_kill(&works, &[("never".to_string(), NEVER)]).await?;
    cluster.judge(&mut report, "20 of them beside one that never ends", WORK, took);

    for outage in outages(options.store) {
        let took = cluster.after_an_outage(*outage).await?;
        let name = format!("30 chains of 3 after 60 s, {}", outage.name());
        cluster.judge(&mut report, &name, WORK * STEPS, took);
    }
    Ok(report.finish())
}

fn outages(store: Kind) -> &'static [Outage] {
    match store {
        Kind::Sqlite => &[Outage::FileLocked],
        Kind::Postgres => &[Outage::ServerStopped, Outage::ServerFrozen],
    }
}

/// Processes on one store.
struct Cluster<'a> {
    options: &'a Options,
    store: &'a Shared,
    lock: Duration,
}

impl Cluster<'_> {
    fn judge(&self, report: &mut Report, name: &str, work: Duration, took: Duration) {
        let needed = (work + self.lock).as_secs_f64();
        report.figure(name, format!("{:.1} s of {:.1} s allowed", took.as_secs_f64(), needed * ALLOWED));
        report.at_most("  / what the work and the lock need", took.as_secs_f64() / needed, ALLOWED);
    }

    /// Kills a process that runs an activity of each instance, starts another one, and returns how long those that end
    /// take to do so.
    async fn after_a_kill(
        &self,
        ending: &[(String, &str)],
        unending: &[(String, &str)],
    ) -> Result<Duration, Failure> {
        let client = self.store.client().await?;
        let begun = Begun::in_directory(self.store.directory());
        begun.forget()?;
        let mut first = self.worker()?;
        for (instance, orchestration) in unending.iter().chain(ending) {
            client.start_orchestration(instance, *orchestration, "").await?;
        }
        begun.wait_for(ending.len() + unending.len(), &mut first).await?;
        tokio::time::sleep(WORK / 2).await;
        first.end()?;
        let killed = Instant::now();
        let mut second = self.worker()?;
        self.all_ended(&client, ending).await?;
        let took = killed.elapsed();
        second.end()?;
        for (instance, _) in unending {
            client.delete_instance(instance, true).await?;
        }
        Ok(took)
    }

    /// Takes the store away from a process that lives on; returns how long its chains take to end after that.
    async fn after_an_outage(&self, outage: Outage) -> Result<Duration, Failure> {
        let client = self.store.client().await?;
        let begun = Begun::in_directory(self.store.directory());
        begun.forget()?;
        let mut worker = self.worker()?;
        let chains: Vec<_> = (0..CHAINS).map(|n| (format!("chain-{}-{n}", outage.name()), CHAIN)).collect();
        for (instance, orchestration) in &chains {
            client.start_orchestration(instance, *orchestration, "").await?;
        }
        begun.wait_for(CHAINS, &mut worker).await?;
        tokio::time::sleep(WORK / 2).await;
        let away = self.store.take_away(outage)?;
        tokio::time::sleep(OUTAGE).await;
        away.end()?;
        let back = Instant::now();
        self.all_ended(&client, &chains).await?;
        let took = back.elapsed();
        worker.end()?;
        Ok(took)
    }

    /// Waits until all have completed.
    async fn all_ended(&self, client: &Client, instances: &[(String, &str)]) -> Result<(), Failure> {
        for (instance, _) in instances {
            let status = loop {
                match client.wait_for_orchestration(instance, PATIENCE).await {
                    // The client's own connections broke as well.
                    Err(error) if error.is_retryable() => tokio::time::sleep(LOOK_EVERY).await,
                    other => break other?,
                }
            };
            if !matches!(status, OrchestrationStatus::Completed { .. }) {
                return Err(format!("{instance} ended as {status:?}").into());
            }
        }
        Ok(())
    }

    fn worker(&self) -> Result<Worker, Failure> {
        let orders = Orders {
            store: self.options.store,
            place: self.store.place().to_string(),
            directory: self.store.directory().to_path_buf(),
            lock: self.options.lock,
        };
        let child = Command::new(std::env::current_exe()?).arg(WORKER).args(orders.arguments()).spawn()?;
        Ok(Worker(child))
    }
}

/// A process that is killed at the latest when this is dropped.
pub(super) struct Worker(Child);

impl Worker {
    /// Kills it. That it lived until then is part of every case.
    fn end(&mut self) -> Result<(), Failure> {
        self.lives()?;
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    fn lives(&mut self) -> Result<(), Failure> {
        match self.0.try_wait()? {
            Some(status) => Err(format!("a worker ended by itself with {status}").into()),
            None => Ok(()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Begun {
    /// Waits until these many activities have begun.
    async fn wait_for(&self, count: usize, worker: &mut Worker) -> Result<(), Failure> {
        let deadline = Instant::now() + BEGIN_WITHIN;
        loop {
            let begun = self.count()?;
            if begun >= count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("only {begun} of {count} activities began").into());
            }
            worker.lives()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
