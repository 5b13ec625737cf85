//! From arguments to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use duroxide::Builder;

use crate::arguments::{Arguments, Noun};
use crate::config::Asked;
use crate::failure::{Exit, Outcome};
use crate::output::Output;
use crate::session::Session;
use crate::verbs;

/// The command line.
#[derive(Debug, Default)]
#[must_use = "a command line does nothing before `.run().await`"]
pub struct Cli {
    name: Option<String>,
    store: Option<String>,
    program: Option<Builder>,
}

impl Cli {
    /// The command line without handlers of a program.
    pub fn new() -> Self {
        Self::default()
    }

    /// The command line of a program with its handlers: it can replay. The builder's store is not opened.
    pub fn with(program: Builder) -> Self {
        Self { program: Some(program), ..Self::default() }
    }

    /// The words that lead to these commands, for the help: `duroxide` by default.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The store that is meant where neither the arguments nor `DUROXIDE_STORE` name one.
    pub fn default_store(self, url: impl Into<String>) -> Self {
        Self { store: Some(url.into()), ..self }
    }

    /// Does what the arguments of this process ask for.
    pub async fn run(self) -> ExitCode {
        self.run_from(std::env::args_os()).await
    }

    /// Does what these arguments ask for. The first one is the name of the program.
    pub async fn run_from(self, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        let mut command = Arguments::command();
        if let Some(name) = &self.name {
            command = command.bin_name(name);
        }
        let parsed = command.clone().try_get_matches_from(arguments).and_then(|matches| {
            Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
        });
        let arguments = match parsed {
            Ok(arguments) => arguments,
            Err(error) => return usage(&error),
        };
        match Box::pin(self.carry_out(arguments, command)).await {
            Ok(exit) => exit.code(),
            Err(failed) => {
                Output::failed(&failed);
                failed.exit.code()
            }
        }
    }

    async fn carry_out(self, arguments: Arguments, command: clap::Command) -> Outcome {
        let Arguments { store, profile, output, noun } = arguments;
        let out = Output::new(output);
        let asked = Asked { store, profile, of_program: self.store };
        let session = async || Session::open(&asked.url()?).await;
        match noun {
            Noun::Completions { shell } => verbs::about::completions(&out, shell, command),
            Noun::Man => verbs::about::manual(&out, command),
            Noun::Config => verbs::about::config(&out, &asked),
            Noun::Replay(replay) => {
                let handlers = verbs::replay::handlers(self.program)?;
                match replay.running {
                    true => verbs::replay::running(&out, &session().await?, &handlers, &replay.filter).await,
                    false => verbs::replay::files(&out, &handlers, &replay.files),
                }
            }
            Noun::Store(verb) => verbs::store::run(&out, &asked.url()?, verb).await,
            Noun::Instance(verb) => verbs::instance::run(&out, &session().await?, verb).await,
            Noun::Event(verb) => verbs::event::run(&out, &session().await?, verb).await,
            Noun::Kv(verb) => verbs::kv::run(&out, &session().await?, verb).await,
            Noun::Node(verb) => verbs::node::run(&out, &session().await?, verb).await,
            Noun::Health(verb) => verbs::health::run(&out, &session().await?, verb).await,
            Noun::Queue(verb) => verbs::queue::run(&out, &session().await?, verb).await,
            Noun::Failures(of) => verbs::failures::run(&out, &session().await?, &of).await,
            Noun::Prune(prune) => verbs::prune::run(&out, &session().await?, prune).await,
        }
    }
}

/// What clap says about arguments that are wrong, or the help that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    // There is nowhere to say that the terminal cannot be written.
    drop(error.print());
    if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() }
}
