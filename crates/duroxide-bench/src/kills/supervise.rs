//! Starting the processes, killing them, and the verdict.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::Client;
use duroxide::providers::sqlite::SqliteProvider;
use tokio::sync::watch;

use super::audit::{Told, audit};
use super::log::Log;
use super::worker::{Orders, url};
use super::{Options, PROCESSES, WORKER};
use crate::floor::Failure;
use crate::floor::report::Report;

/// A process lives for so long at least.
const SHORTEST_LIFE: Duration = Duration::from_millis(500);
/// And so much longer at most: 3 s on average.
const LIFE_SPAN_MS: u64 = 5_000;
/// The starts take this part of the time, in hundredths; the rest is for what they began.
const STARTS_PERCENT: u64 = 90;
/// How long everything may take to end once nobody is killed any more.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Findings that are shown; one cause often has many.
const SHOWN_FINDINGS: usize = 20;

/// Whether nothing acknowledged is missing, nothing ran after its completion was recorded, and all ended as it must.
pub(crate) async fn run(options: Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    let title = format!("{} orchestrations, {PROCESSES} processes, killed for", options.count);
    report.section(&format!("{title} {} s", options.seconds));
    let directory = tempfile::Builder::new().prefix("duroxide-kills").tempdir_in(&options.dir)?;
    // The file is made before the processes race for it, and the log, so that it can be read.
    let store = Arc::new(SqliteProvider::new(&url(directory.path()), None).await?);
    report.figure(
        "journal mode / synchronous, as read back",
        format!("{} / {:?}", store.journal_mode(), store.synchronous_level()),
    );
    drop(store);
    Log::open(directory.path())?;
    let begun = Instant::now();
    let (stop, stopped) = watch::channel(false);
    let mut lives = Vec::new();
    for process in 0..PROCESSES {
        let orders = Orders {
            directory: directory.path().to_path_buf(),
            process,
            count: options.count,
            spread_ms: options.seconds * 10 * STARTS_PERCENT,
            elapsed_ms: 0,
        };
        lives.push(tokio::spawn(kill_again_and_again(orders, begun, options.seconds, stopped.clone())));
    }
    let ended = wait_for_all(directory.path(), options.count, options.seconds, begun).await;
    stop.send_replace(true);
    let mut kills = 0;
    for life in lives {
        kills += life.await??;
    }
    let took = begun.elapsed();
    ended?;
    judge(&mut report, directory.path(), options.count, kills, took).await
}

async fn judge(
    report: &mut Report,
    directory: &Path,
    count: usize,
    kills: u64,
    took: Duration,
) -> Result<bool, Failure> {
    let told = Told::by(&Log::read(directory)?);
    let client = Client::new(Arc::new(SqliteProvider::new(&url(directory), None).await?));
    let findings = audit(&client, &told, count).await?;
    report.figure("time", format!("{:.0} s", took.as_secs_f64()));
    report.figure("kills", kills);
    report.figure("orchestrations ended as they must", format!("{} of {count}", told.ended()));
    report.figure("calls acknowledged", told.acknowledged);
    report.figure("activities", told.activities);
    report.figure("of them run again", told.runs - told.activities);
    report.figure("findings", findings.len());
    for finding in findings.iter().take(SHOWN_FINDINGS) {
        report.figure("FOUND", finding);
    }
    Ok(findings.is_empty() && kills > 0)
}

/// One process after the other in one place. How many were killed before the time was over.
async fn kill_again_and_again(
    orders: Orders,
    begun: Instant,
    seconds: u64,
    mut stopped: watch::Receiver<bool>,
) -> Result<u64, Failure> {
    let mut random = Random(u64::from(std::process::id()) ^ (orders.process as u64) << 32);
    let mut kills = 0;
    loop {
        let elapsed_ms = u64::try_from(begun.elapsed().as_millis())?;
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .arg(WORKER)
            .args(Orders { elapsed_ms, ..orders.clone() }.arguments())
            .spawn()?;
        let last = begun.elapsed().as_secs() >= seconds;
        if last {
            // Nobody kills it any more: it helps to finish what is left.
            stopped.wait_for(|stopped| *stopped).await?;
        } else {
            let life = SHORTEST_LIFE + Duration::from_millis(random.below(LIFE_SPAN_MS));
            tokio::select! {
                () = tokio::time::sleep(life) => {}
                stopped = stopped.wait_for(|stopped| *stopped) => { stopped?; }
            }
        }
        if let Some(status) = child.try_wait()? {
            return Err(format!("a process ended by itself with {status}").into());
        }
        child.kill()?;
        child.wait()?;
        if *stopped.borrow() {
            return Ok(kills);
        }
        kills += 1;
    }
}

/// Waits until the time is over and the end of every orchestration has been seen.
async fn wait_for_all(directory: &Path, count: usize, seconds: u64, begun: Instant) -> Result<(), Failure> {
    tokio::time::sleep_until((begun + Duration::from_secs(seconds)).into()).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = Told::by(&Log::read(directory)?).ended();
        if ended == count {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("only {ended} of {count} have ended, with nobody killed any more").into());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// SplitMix64: enough to choose moments.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % limit
    }
}
