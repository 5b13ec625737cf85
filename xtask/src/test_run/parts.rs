//! The parts of a run.

/// One line of the table.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) when: When,
    pub(super) work: Work,
}

/// What else may run at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Nothing. These parts come first, in order.
    Alone,
    /// The parts beside. These have real clocks, processes and servers: they mostly wait.
    Front,
    /// The parts in front. These compute, and take the time that the others leave.
    Beside,
}

pub(super) enum Work {
    /// One call of cargo.
    Cargo(&'static [&'static str]),
    /// One call of cargo where a warning of rustdoc is an error.
    StrictDocs(&'static [&'static str]),
    /// The rules of [`tidy`](crate::tidy).
    Tidy,
    /// One call of cargo that builds what the parts after it run.
    Build(&'static [&'static str]),
    /// Every test that was built.
    Tests,
    /// The runs that must not grow, and processes that are killed, all of them short.
    Soak,
    /// Every example that was built, run to its end.
    Examples,
    /// The simulator on its kept seeds and many others, and with its protections switched off, built for speed.
    Simulator,
    /// The simulator on its kept seeds and some others, as it was built.
    SimulatorAsBuilt,
}

impl Work {
    /// Whether it runs what [`Work::Build`] built.
    pub(super) fn needs_build(&self) -> bool {
        match self {
            Self::Tests | Self::Soak | Self::Examples | Self::SimulatorAsBuilt => true,
            Self::Cargo(_) | Self::StrictDocs(_) | Self::Tidy | Self::Build(_) | Self::Simulator => false,
        }
    }
}

const fn part(name: &'static str, when: When, work: Work) -> Part {
    Part { name, when, work }
}

const FMT: Part = part("fmt", When::Alone, Work::Cargo(&["fmt", "--all", "--check"]));
const TIDY: Part = part("tidy", When::Alone, Work::Tidy);

/// Everything that must be green before a change lands.
pub(super) fn everything() -> Vec<Part> {
    vec![
        FMT,
        TIDY,
        part(
            "build",
            When::Alone,
            Work::Build(&["--workspace", "--all-features", "--lib", "--bins", "--tests", "--examples"]),
        ),
        part("tests", When::Front, Work::Tests),
        part("soak", When::Front, Work::Soak),
        part("examples", When::Front, Work::Examples),
        part("simulator", When::Beside, Work::Simulator),
        part("clippy", When::Beside, Work::Cargo(CLIPPY)),
        part("docs", When::Beside, Work::StrictDocs(&["doc", "--workspace", "--all-features", "--no-deps"])),
        part("doc tests", When::Beside, Work::Cargo(&["test", "--workspace", "--all-features", "--doc"])),
    ]
}

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];

/// What finds most mistakes in little time: no server, no killed processes, no long comparison.
pub(super) fn quick() -> Vec<Part> {
    vec![
        FMT,
        TIDY,
        part("build", When::Alone, Work::Build(QUICK_BUILD)),
        part("tests", When::Front, Work::Tests),
        part("simulator", When::Beside, Work::SimulatorAsBuilt),
        part("clippy", When::Beside, Work::Cargo(QUICK_CLIPPY)),
    ]
}

/// The features are those of the whole run, so that both share what is built.
#[rustfmt::skip]
const QUICK_BUILD: &[&str] = &[
    "--workspace", "--all-features",
    "--test", "engine", "--test", "model", "--test", "golden",
    "--test", "scenarios", "--test", "deployment", "--test", "sqlite_store", "--test", "api_surface",
    "--test", "validate_memory", "--test", "validate_sqlite",
    "--bin", "duroxide-sim",
];

const QUICK_CLIPPY: &[&str] = &["clippy", "--workspace", "--all-features", "--lib", "--", "-D", "warnings"];

/// The named parts, or all of them, and the build if one of them runs what it builds.
pub(super) fn choose(mut parts: Vec<Part>, names: &[&str]) -> Result<Vec<Part>, String> {
    if let Some(unknown) = names.iter().find(|name| parts.iter().all(|part| part.name != **name)) {
        let known: Vec<&str> = parts.iter().map(|part| part.name).collect();
        return Err(format!("no part is called '{unknown}'; there are: {}", known.join(", ")));
    }
    if !names.is_empty() {
        let chosen = |part: &Part| names.contains(&part.name);
        let build = parts.iter().any(|part| chosen(part) && part.work.needs_build());
        parts.retain(|part| chosen(part) || (build && matches!(part.work, Work::Build(_))));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parts: &[Part]) -> Vec<&'static str> {
        parts.iter().map(|part| part.name).collect()
    }

    #[test]
    fn part_names_are_unique() {
        for parts in [everything(), quick()] {
            let all = names(&parts);
            for name in &all {
                assert_eq!(all.iter().filter(|other| *other == name).count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn an_unknown_part_is_refused_and_the_known_ones_are_named() {
        let refused = choose(everything(), &["fmt", "levitation"]).err().expect("refused");
        assert!(refused.contains("'levitation'") && refused.contains("fmt, tidy, build"), "{refused}");
    }

    #[test]
    fn without_names_everything_is_chosen() {
        assert_eq!(names(&choose(everything(), &[]).expect("chosen")), names(&everything()));
    }

    #[test]
    fn what_runs_built_programs_brings_the_build_with_it() {
        assert_eq!(names(&choose(everything(), &["clippy", "fmt"]).expect("chosen")), ["fmt", "clippy"]);
        assert_eq!(names(&choose(everything(), &["examples"]).expect("chosen")), ["build", "examples"]);
    }

    #[test]
    fn what_runs_built_programs_comes_after_the_build() {
        for parts in [everything(), quick()] {
            let build = parts.iter().position(|part| matches!(part.work, Work::Build(_))).expect("a build");
            for (place, part) in parts.iter().enumerate().filter(|(_, part)| part.work.needs_build()) {
                assert!(place > build && part.when != When::Alone, "{}", part.name);
            }
        }
    }
}
