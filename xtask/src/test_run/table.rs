//! What ran and how long it took.

use std::time::Duration;

/// One line.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
}

/// What became of a part.
pub(super) enum Outcome {
    Ok { took: Duration },
    Failed { took: Duration, reason: String },
    NotRun,
}

/// All lines, and how long the whole run took: less than the sum of its parts, because some ran side by side.
pub(super) fn table(rows: &[Row], whole: Duration) -> String {
    let mut text = format!("\n{:<12} {:<8} {:>9}\n", "part", "result", "time");
    for row in rows {
        let (word, took) = match &row.outcome {
            Outcome::Ok { took } => ("ok", seconds(*took)),
            Outcome::Failed { took, .. } => ("FAILED", seconds(*took)),
            Outcome::NotRun => ("not run", String::new()),
        };
        text += &format!("{:<12} {word:<8} {took:>9}\n", row.name);
    }
    text + &format!("{:<12} {:<8} {:>9}", "all", "", seconds(whole))
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_every_part_with_its_time_also_what_did_not_run() {
        let rows = [
            Row { name: "fmt", outcome: Outcome::Ok { took: Duration::from_millis(1_250) } },
            Row {
                name: "tidy",
                outcome: Outcome::Failed { took: Duration::from_millis(2_000), reason: "findings".into() },
            },
            Row { name: "clippy", outcome: Outcome::NotRun },
        ];
        let text = table(&rows, Duration::from_millis(2_300));
        let lines: Vec<Vec<&str>> =
            text.trim().lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["fmt", "ok", "1.2", "s"]);
        assert_eq!(lines[2], ["tidy", "FAILED", "2.0", "s"]);
        assert_eq!(lines[3], ["clippy", "not", "run"]);
        assert_eq!(lines[4], ["all", "2.3", "s"]);
    }
}
