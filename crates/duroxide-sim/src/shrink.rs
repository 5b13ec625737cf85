//! Making a failing seed small: as few root programs as still fail, and no faults if it fails without.

use duroxide_sim::{Backing, Report, Setup, simulate};

/// Leaves out of a setup that fails all that it fails without; the smaller setup and its report.
pub(crate) fn shrink(failing: &Setup) -> (Setup, Report) {
    let mut smallest = failing.clone();
    let mut report = simulate(smallest.clone());
    let mut try_it = |setup: Setup, report: &mut Report| -> bool {
        let tried = simulate(setup.clone());
        let fails = !tried.failures.is_empty();
        if fails {
            smallest = setup;
            *report = tried;
        }
        fails
    };
    let mut left_out = failing.leave_out.clone();
    for root in 0..report.roots {
        if left_out.contains(&root) {
            continue;
        }
        left_out.push(root);
        if !try_it(Setup { leave_out: left_out.clone(), ..failing.clone() }, &mut report) {
            left_out.pop();
        }
    }
    try_it(Setup { leave_out: left_out.clone(), fair: true, ..failing.clone() }, &mut report);
    (smallest, report)
}

/// The command that repeats a setup.
pub(crate) fn command(setup: &Setup) -> String {
    let mut command = format!("cargo run --profile sim -p duroxide-sim -- --seed {}", setup.seed);
    if setup.backing != Backing::Memory {
        command += &format!(" --store {}", setup.backing.word());
    }
    if let Some(protection) = setup.without {
        command += &format!(" --switch-off {protection:?}");
    }
    if !setup.leave_out.is_empty() {
        let places: Vec<String> = setup.leave_out.iter().map(ToString::to_string).collect();
        command += &format!(" --leave-out {}", places.join(","));
    }
    if setup.fair {
        command += " --fair";
    }
    command
}

#[cfg(test)]
mod tests {
    use duroxide_sim::{Keep, Protection};

    use super::*;
    use crate::arguments::{Command, parse};

    #[test]
    fn a_failing_seed_becomes_small_and_its_command_repeats_it() {
        Backing::ALL.into_iter().for_each(check_shrinking);
    }

    fn check_shrinking(backing: Backing) {
        let without = Some(Protection::CollisionTellsParent);
        let failing = Setup { keep: Keep::Lines, backing, without, ..Setup::of_seed(1) };
        let (small, report) = shrink(&failing);
        assert!(!report.failures.is_empty(), "it still fails");
        assert!(!small.leave_out.is_empty() && small.leave_out.len() < report.roots, "{small:?}");
        let command = command(&small);
        let (_, arguments) = command.split_once(" -- ").expect("arguments come behind");
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_string).collect();
        assert_eq!(parse(&arguments), Ok(Command::One(small)));
    }
}
