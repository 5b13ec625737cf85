//! Benchmarks of duroxide against the raw store, as ratios within one run.

mod floor;

use std::process::ExitCode;

const USAGE: &str = "usage: duroxide-bench floor [--dir DIRECTORY] [--only PART] [--scale DIVISOR]

floor    ratios of a file store with full sync to the raw store; exits with 1 if one fails
         --dir      where the files are made (default: the system's directory for temporary files)
         --only     one part: hello, burst, chain, fan-out, queue, drain, incompatible, idle
         --scale    divide the sizes by this, for a quick look (ratios are then not binding)";

fn main() -> ExitCode {
    match floor::Options::parse(std::env::args().skip(1)) {
        Ok(options) => run(&options),
        Err(message) => {
            complain(&format!("{message}\n\n{USAGE}"));
            ExitCode::from(2)
        }
    }
}

fn run(options: &floor::Options) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("no tokio runtime: {error}"));
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(floor::run(options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            complain(&format!("the benchmark could not be run: {error}"));
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command line tool says what went wrong there")]
fn complain(message: &str) {
    eprintln!("{message}");
}
