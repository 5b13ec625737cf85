//! What happened, written down outside the store: one file for all processes, opened to append. The order of its lines
//! is the order in which they were written. A line that was written survives the process.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// The file's name in the run's directory.
const NAME: &str = "acknowledged.log";

/// One thing that happened. Where a call is named, the store had said `Ok`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Orchestration `n` was started.
    Started { n: usize },
    /// It was sent its message with this number.
    Sent { n: usize, message: usize },
    /// It was cancelled.
    Cancelled { n: usize },
    /// A client has seen its end.
    Ended { n: usize, outcome: String },
    /// An activity begins to run.
    Begun { instance: String, stage: u32, key: String },
}

impl Line {
    fn text(&self) -> String {
        match self {
            Self::Started { n } => format!("started {n}"),
            Self::Sent { n, message } => format!("sent {n} {message}"),
            Self::Cancelled { n } => format!("cancelled {n}"),
            Self::Ended { n, outcome } => format!("ended {n} {outcome}"),
            Self::Begun { instance, stage, key } => format!("begun {instance} {stage} {key}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let line = match words.next()? {
            "started" => Self::Started { n: words.next()?.parse().ok()? },
            "sent" => Self::Sent { n: words.next()?.parse().ok()?, message: words.next()?.parse().ok()? },
            "cancelled" => Self::Cancelled { n: words.next()?.parse().ok()? },
            "ended" => {
                let n = words.next()?.parse().ok()?;
                Self::Ended { n, outcome: words.collect::<Vec<_>>().join(" ") }
            }
            "begun" => Self::Begun {
                instance: words.next()?.to_string(),
                stage: words.next()?.parse().ok()?,
                key: words.next()?.to_string(),
            },
            _ => return None,
        };
        Some(line)
    }
}

/// The file, open to append.
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(directory: &Path) -> std::io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(directory.join(NAME)).map(Self)
    }

    pub(crate) fn write(&self, line: &Line) -> std::io::Result<()> {
        // In one write, with an end of its own: a line that a kill cut in two is told from a whole one.
        (&self.0).write_all(format!("\n{};", line.text()).as_bytes())
    }

    /// All whole lines of the file, in their order.
    pub(crate) fn read(directory: &Path) -> std::io::Result<Vec<Line>> {
        Ok(parse_all(&std::fs::read_to_string(directory.join(NAME))?))
    }
}

fn parse_all(text: &str) -> Vec<Line> {
    text.split('\n').filter_map(|line| Line::parse(line.strip_suffix(';')?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_back_and_a_torn_one_is_none() {
        let lines = vec![
            Line::Started { n: 3 },
            Line::Sent { n: 3, message: 1 },
            Line::Cancelled { n: 4 },
            Line::Ended { n: 3, outcome: "completed a b. c d".to_string() },
            Line::Begun { instance: "k3/child".to_string(), stage: 2, key: "k3/child:1:2".to_string() },
        ];
        let directory = tempfile::tempdir().expect("a directory for the file");
        let log = Log::open(directory.path()).expect("it opens");
        for line in &lines {
            (&log.0).write_all(b"\nstarted 99").expect("half a line");
            log.write(line).expect("a whole one");
        }
        assert_eq!(Log::read(directory.path()).expect("it can be read"), lines);
    }
}
