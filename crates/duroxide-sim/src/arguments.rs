//! The command line.

/// How it is used.
pub(crate) const USAGE: &str = "\
usage: duroxide-sim [--seeds COUNT] [--from SEED]    run the kept seeds and COUNT (200) seeds from SEED (1) on
       duroxide-sim --seed SEED                      run one seed and print what happens";

/// How many seeds run when nobody says.
const DEFAULT_SEEDS: u64 = 200;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    One { seed: u64 },
    Many { from: u64, seeds: u64 },
}

/// Reads the command line.
pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
    let mut one = None;
    let mut from = None;
    let mut seeds = None;
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let target = match name.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--seed" => &mut one,
            "--from" => &mut from,
            "--seeds" => &mut seeds,
            unknown => return Err(format!("unknown argument '{unknown}'")),
        };
        let value = rest.next().ok_or_else(|| format!("{name} needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name} needs a number, got '{value}'"))?;
        if target.replace(number).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    match (one, from, seeds) {
        (Some(seed), None, None) => Ok(Command::One { seed }),
        (Some(_), _, _) => Err("--seed runs one seed and goes with nothing else".to_string()),
        (None, _, Some(0)) => Err("--seeds must be at least 1".to_string()),
        (None, from, seeds) => {
            Ok(Command::Many { from: from.unwrap_or(1), seeds: seeds.unwrap_or(DEFAULT_SEEDS) })
        }
    }
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
        check("", Ok(Command::Many { from: 1, seeds: 200 }));
        check("--seeds 5 --from 7", Ok(Command::Many { from: 7, seeds: 5 }));
        check("--seed 9", Ok(Command::One { seed: 9 }));
        check("-h", Ok(Command::Help));
    }

    #[test]
    fn bad_command_lines_get_a_clear_error() {
        check("--seed", Err("--seed needs a number"));
        check("--seeds many", Err("--seeds needs a number, got 'many'"));
        check("--seeds 0", Err("--seeds must be at least 1"));
        check("--sed 1", Err("unknown argument '--sed'"));
        check("--seed 1 --from 2", Err("--seed runs one seed and goes with nothing else"));
        check("--from 1 --from 2", Err("--from is given twice"));
    }
}
