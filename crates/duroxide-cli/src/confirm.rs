//! The question before many instances are changed.

use std::io::{BufRead as _, IsTerminal as _};

use crate::chosen::{ChosenBy, Selection};
use crate::escape::escaped;
use crate::failure::{Exit, Failed};
use crate::output::Output;

/// How many ids are shown before the question.
const SAMPLE: usize = 5;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Go {
    Ahead,
    /// It was a dry run, or there is nothing to do.
    NoFurther,
}

/// What the operator said on the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Consent {
    pub(crate) yes: bool,
    pub(crate) dry_run: bool,
}

/// Shows what a command is about, and asks where it is about many. `done` is the word for what happens to them.
pub(crate) fn confirm(selection: &Selection, consent: Consent, done: &str) -> Result<Go, Failed> {
    let count = selection.ids.len();
    if count == 0 {
        Output::note("no instances match: nothing to do");
        return Ok(Go::NoFurther);
    }
    if selection.by == ChosenBy::OneId && !consent.dry_run {
        return Ok(Go::Ahead);
    }
    let instances = if count == 1 { "instance" } else { "instances" };
    if !consent.yes || consent.dry_run {
        Output::note(&format!("{count} {instances} would be {done}:"));
        for id in selection.ids.iter().take(SAMPLE) {
            Output::note(&format!("  {}", escaped(id)));
        }
        if count > SAMPLE {
            Output::note(&format!("  … and {} more", count - SAMPLE));
        }
    }
    if consent.dry_run {
        return Ok(Go::NoFurther);
    }
    if consent.yes {
        return Ok(Go::Ahead);
    }
    if selection.by == ChosenBy::Input || !std::io::stdin().is_terminal() {
        return Err(Failed::usage("nobody can be asked here, and nothing was changed")
            .help("--yes does it, --dry-run only tells"));
    }
    Output::note(&format!("{count} {instances} will be {done}. Go on? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failed::new(Exit::Error, format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(Go::Ahead),
        _ => Err(Failed::new(Exit::No, "nothing was changed")),
    }
}
