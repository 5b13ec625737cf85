//! This program under valgrind's callgrind.

use std::path::Path;
use std::process::Command;

use super::COUNTED;
use super::counted::Orders;
use crate::floor::Failure;

/// Lets the C library copy in steps of a register. It copies larger blocks by one instruction of the processor, which
/// callgrind counts once for each byte: the copies that both styles make would then be half of all that is counted.
const COPIES_BY_REGISTER: (&str, &str) = ("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=100000000");
/// The line of callgrind's file that has the instructions of the whole run.
const TOTAL: &str = "summary: ";

/// The instructions for one more hello world or step: those of twice the count without those of the count, so that the
/// start and the end of the process are not among them.
pub(crate) fn instructions_each(orders: Orders, directory: &Path) -> Result<f64, Failure> {
    let once = instructions(orders, directory)?;
    let twice = instructions(Orders { count: 2 * orders.count, ..orders }, directory)?;
    Ok(twice.saturating_sub(once) as f64 / orders.count as f64)
}

fn instructions(orders: Orders, directory: &Path) -> Result<u64, Failure> {
    let file = directory.join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).env(COPIES_BY_REGISTER.0, COPIES_BY_REGISTER.1);
    valgrind.arg(format!("--callgrind-out-file={}", file.display()));
    valgrind.arg(std::env::current_exe()?).arg(COUNTED).args(orders.arguments());
    let status = valgrind
        .status()
        .map_err(|cause| format!("valgrind did not start (on Debian: apt install valgrind): {cause}"))?;
    if !status.success() {
        return Err(format!("{valgrind:?} ended with {status}").into());
    }
    total(&std::fs::read_to_string(&file)?)
        .ok_or_else(|| format!("{} names no instructions", file.display()).into())
}

fn total(written: &str) -> Option<u64> {
    written.lines().find_map(|line| line.strip_prefix(TOTAL)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_found_in_what_callgrind_writes() {
        let written =
            "version: 1\nevents: Ir\nsummary: 12345\n\nob=(1) /a/b\nfn=(1) main\n1 12345\ntotals: 12345\n";
        assert_eq!(total(written), Some(12_345));
        assert_eq!(total("version: 1\nevents: Ir\n"), None);
    }
}
