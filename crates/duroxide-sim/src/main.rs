//! Runs simulations, from the command line.

use std::process::ExitCode;

mod arguments;
mod campaign;
mod shrink;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments::parse(&arguments) {
        Ok(arguments::Command::Help) => {
            say(arguments::USAGE);
            ExitCode::SUCCESS
        }
        Ok(arguments::Command::One(setup)) => campaign::one(setup),
        Ok(arguments::Command::Many { from, seeds, on }) => campaign::many(from, seeds, on),
        Ok(arguments::Command::Protections { seeds, on }) => campaign::protections(seeds, on),
        Err(message) => {
            complain(&format!("{message}\n\n{}", arguments::USAGE));
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stdout, reason = "the report of a command goes to the terminal")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "a wrong command line is answered on the terminal")]
fn complain(line: &str) {
    eprintln!("{line}");
}
