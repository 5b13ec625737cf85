//! The floor: what the store alone costs, and how many times that we may cost.

mod burst;
mod chain;
mod drain;
mod fan_out;
mod hello;
mod idle;
mod incompatible;
mod options;
mod queue;
mod raw;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod store;

use options::Part;
pub(crate) use options::{Kind, Options};
use report::Report;

/// Why a benchmark could not be run; its figures are another matter.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the parts asked for. Whether every ratio holds.
pub(crate) async fn run(options: &Options) -> Result<bool, Failure> {
    let mut report = Report::default();
    for part in Part::ALL {
        if options.only.is_some_and(|only| only != part) {
            continue;
        }
        match part {
            Part::Hello => hello::run(options, &mut report).await?,
            Part::Burst => burst::run(options, &mut report).await?,
            Part::Chain => chain::run(options, &mut report).await?,
            Part::FanOut => fan_out::run(options, &mut report).await?,
            Part::Queue => queue::run(options, &mut report).await?,
            Part::Drain => drain::run(options, &mut report).await?,
            Part::Incompatible => incompatible::run(options, &mut report).await?,
            Part::Idle => idle::run(options, &mut report).await?,
        }
    }
    Ok(report.finish())
}
