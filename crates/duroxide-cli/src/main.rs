//! The binary `duroxide`: the command line without handlers of a program.

use std::process::ExitCode;

use duroxide_cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::new().run().await
}
