//! The command line.

use duroxide_sim::{Backing, Keep, Protection, Setup};

/// How it is used.
pub(crate) const USAGE: &str = "\
usage: duroxide-sim [--seeds COUNT] [--from SEED]    run the kept seeds and COUNT (1000) seeds from SEED (1) on
       duroxide-sim --seed SEED [--switch-off PROTECTION] [--leave-out ROOT,ROOT..] [--fair]
                                                     run one seed and print what happens
       duroxide-sim --protections [--seeds COUNT]    switch each protection off; some seed of COUNT must find it
  --store memory|rules    run on the memory store, or on the shared rules with rows in memory. Without it, one seed runs
                          on the memory store, kept seeds and protections on both, and others on the two in turn";

/// How many seeds run when nobody says.
const DEFAULT_SEEDS: u64 = 1_000;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    One(Setup),
    Many { from: u64, seeds: u64, on: Option<Backing> },
    Protections { seeds: u64, on: Option<Backing> },
}

/// What the command line says, argument by argument.
#[derive(Default)]
struct Given {
    seed: Option<u64>,
    from: Option<u64>,
    seeds: Option<u64>,
    backing: Option<Backing>,
    without: Option<Protection>,
    leave_out: Option<Vec<usize>>,
    fair: bool,
    protections: bool,
}

/// Reads the command line.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
    let mut given = Given::default();
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--fair" => given.fair = true,
            "--protections" => given.protections = true,
            "--seed" => set(&mut given.seed, name, number(name, rest.next())?)?,
            "--from" => set(&mut given.from, name, number(name, rest.next())?)?,
            "--seeds" => set(&mut given.seeds, name, number(name, rest.next())?)?,
            "--store" => set(&mut given.backing, name, backing(rest.next())?)?,
            "--switch-off" => set(&mut given.without, name, protection(rest.next())?)?,
            "--leave-out" => set(&mut given.leave_out, name, places(rest.next())?)?,
            unknown => return Err(format!("unknown argument '{unknown}'")),
        }
    }
    command(given)
}

fn command(given: Given) -> Result<Command, String> {
    if given.seeds == Some(0) {
        return Err("--seeds must be at least 1".to_string());
    }
    let (seeds, on) = (given.seeds.unwrap_or(DEFAULT_SEEDS), given.backing);
    let about_one = given.without.is_some() || given.leave_out.is_some() || given.fair;
    match (given.seed, given.protections) {
        (Some(_), _) if given.from.is_some() || given.seeds.is_some() || given.protections => {
            Err("--seed runs one seed; --from, --seeds and --protections do not go with it".to_string())
        }
        (Some(seed), _) => Ok(Command::One(Setup {
            keep: Keep::Lines,
            backing: on.unwrap_or(Backing::Memory),
            without: given.without,
            leave_out: given.leave_out.unwrap_or_default(),
            fair: given.fair,
            ..Setup::of_seed(seed)
        })),
        (None, _) if about_one => Err("--switch-off, --leave-out and --fair go with --seed".to_string()),
        (None, true) if given.from.is_some() => Err("--protections begins with seed 1".to_string()),
        (None, true) => Ok(Command::Protections { seeds, on }),
        (None, false) => Ok(Command::Many { from: given.from.unwrap_or(1), seeds, on }),
    }
}

fn set<T>(target: &mut Option<T>, name: &str, value: T) -> Result<(), String> {
    if target.replace(value).is_some() { Err(format!("{name} is given twice")) } else { Ok(()) }
}

fn number(name: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{name} needs a number"))?;
    value.parse().map_err(|_| format!("{name} needs a number, got '{value}'"))
}

fn backing(value: Option<&String>) -> Result<Backing, String> {
    let known = Backing::ALL.into_iter().find(|known| value.is_some_and(|value| value == known.word()));
    known.ok_or_else(|| "--store needs 'memory' or 'rules'".to_string())
}

fn protection(value: Option<&String>) -> Result<Protection, String> {
    let value = value.ok_or("--switch-off needs a protection")?;
    let known = Protection::ALL.into_iter().find(|known| format!("{known:?}") == *value);
    let names: Vec<String> = Protection::ALL.iter().map(|known| format!("{known:?}")).collect();
    known.ok_or_else(|| format!("no protection is called '{value}'; there are: {}", names.join(", ")))
}

fn places(value: Option<&String>) -> Result<Vec<usize>, String> {
    let value = value.ok_or("--leave-out needs places, such as 0,2")?;
    let place = |text: &str| text.parse().map_err(|_| format!("--leave-out: '{text}' is no place"));
    value.split(',').map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Command, &str>) {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        assert_eq!(parse(&arguments), expected.map_err(str::to_string), "{line}");
    }

    #[test]
    fn command_lines_are_read() {
        let one = Setup { keep: Keep::Lines, ..Setup::of_seed(9) };
        check("", Ok(Command::Many { from: 1, seeds: 1_000, on: None }));
        check("--seeds 5 --from 7", Ok(Command::Many { from: 7, seeds: 5, on: None }));
        check("--seed 9", Ok(Command::One(one.clone())));
        let small =
            Setup { without: Some(Protection::EarlyEventsAreKept), leave_out: vec![0, 2], fair: true, ..one };
        check("--seed 9 --leave-out 0,2 --fair --switch-off EarlyEventsAreKept", Ok(Command::One(small)));
        check("--protections --seeds 3", Ok(Command::Protections { seeds: 3, on: None }));
        let on = Some(Backing::Rules);
        check("--store rules --protections", Ok(Command::Protections { seeds: 1_000, on }));
        check("--store rules", Ok(Command::Many { from: 1, seeds: 1_000, on }));
        let on_rules = Setup { keep: Keep::Lines, backing: Backing::Rules, ..Setup::of_seed(9) };
        check("--seed 9 --store rules", Ok(Command::One(on_rules)));
        check("-h", Ok(Command::Help));
    }

    #[test]
    fn bad_command_lines_get_a_clear_error() {
        check("--seed", Err("--seed needs a number"));
        check("--seeds many", Err("--seeds needs a number, got 'many'"));
        check("--seeds 0", Err("--seeds must be at least 1"));
        check("--store sqlite", Err("--store needs 'memory' or 'rules'"));
        check("--sed 1", Err("unknown argument '--sed'"));
        let one = "--seed runs one seed; --from, --seeds and --protections do not go with it";
        check("--seed 1 --from 2", Err(one));
        check("--from 1 --from 2", Err("--from is given twice"));
        check("--fair", Err("--switch-off, --leave-out and --fair go with --seed"));
        check("--seed 1 --leave-out x", Err("--leave-out: 'x' is no place"));
    }
}
