//! The command line of duroxide: it looks into a store and acts on its instances. It runs no handlers.
//!
//! The binary `duroxide` is [`Cli::new`]. A program may have the same commands as a part of its own command line:
//!
//! ```no_run
//! # async fn admin() -> std::process::ExitCode {
//! use duroxide_cli::Cli;
//! Cli::new().named("shop admin").default_store("sqlite:shop.db").run_from(std::env::args_os().skip(1)).await
//! # }
//! ```
//!
//! | file | its job |
//! |---|---|
//! | `cli` | from arguments to an exit code |
//! | `arguments` | the words of the command line |
//! | `config` | which store is meant: arguments, environment, profiles |
//! | `session` | the open store, and who acts on it |
//! | `output`, `table`, `escape`, `when` | what is written, and how text, columns and times look |
//! | `failure` | errors with their exit codes and what helps |
//! | `chosen` | the instances that a command is about: ids, standard input, filters |
//! | `confirm` | the question before many instances are changed |
//! | `normalise` | the error texts of `failures` without what differs in each |
//! | `verbs` | one file for each noun |

mod arguments;
mod chosen;
mod cli;
mod config;
mod confirm;
mod escape;
mod failure;
mod normalise;
mod output;
mod session;
mod table;
mod verbs;
mod when;

pub use cli::Cli;
