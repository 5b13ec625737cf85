//! All that is written: data to standard output, everything else to standard error.

use std::io::{IsTerminal as _, Write};

use serde_json::Value;

use crate::escape::{escaped, escaped_json};
use crate::failure::{Exit, Failed};
use crate::table::{Listing, Look, Shown, coloured, render};

/// In which form data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// All columns, nothing cut.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON document a line.
    Jsonl,
    /// One id a line; one with control characters as a JSON string.
    Ids,
}

/// Where a command writes.
pub(crate) struct Output {
    format: Format,
    colour: bool,
}

/// One thing with its fields.
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) json: Value,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        let without = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { format, colour: !without && std::io::stdout().is_terminal() }
    }

    pub(crate) fn listing(&self, listing: &Listing) -> Result<(), Failed> {
        let json = || listing.rows.iter().map(|row| &row.json);
        let text = match self.format {
            Format::Table => render(listing, Look { shown: Shown::Always, colour: self.colour }),
            Format::Wide => render(listing, Look { shown: Shown::Wide, colour: self.colour }),
            Format::Json => pretty(&Value::Array(json().cloned().collect())),
            Format::Jsonl => json().map(line).collect(),
            Format::Ids => listing.rows.iter().map(|row| id_line(&row.id)).collect(),
        };
        self.data(&text)
    }

    pub(crate) fn record(&self, record: &Record) -> Result<(), Failed> {
        let text = match self.format {
            Format::Table | Format::Wide => {
                let width = record.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
                let field = |(name, value): &(&str, String)| {
                    format!("{name:width$}  {}\n", coloured(&escaped(value), self.colour))
                };
                record.fields.iter().map(field).collect()
            }
            Format::Json => pretty(&record.json),
            Format::Jsonl => line(&record.json),
            Format::Ids => id_line(&record.id),
        };
        self.data(&text)
    }

    /// Text that is data itself: scripts, manual pages, trees.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failed> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            // The reader has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failed::new(Exit::Error, format!("cannot write to standard output: {error}"))),
        }
    }

    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// A line for people beside the data.
    pub(crate) fn note(text: &str) {
        let mut err = std::io::stderr().lock();
        // There is nowhere to say that standard error cannot be written.
        drop(writeln!(err, "{text}"));
    }

    pub(crate) fn failed(failed: &Failed) {
        Self::note(&format!("error: {}", escaped(&failed.what)));
        if let Some(help) = &failed.help {
            Self::note(&format!("help: {}", escaped(help)));
        }
    }
}

fn pretty(value: &Value) -> String {
    escaped_json(&format!("{value:#}")) + "\n"
}

fn line(value: &Value) -> String {
    escaped_json(&value.to_string()) + "\n"
}

/// An id as a line that [`read_id`] understands.
fn id_line(id: &str) -> String {
    if escaped(id) == id && !id.starts_with('"') && id.trim() == id {
        return format!("{id}\n");
    }
    line(&Value::String(id.to_string()))
}

/// The id of a line that was written by `-o ids`.
pub(crate) fn read_id(line: &str) -> Result<String, Failed> {
    if !line.starts_with('"') {
        return Ok(line.to_string());
    }
    serde_json::from_str(line)
        .map_err(|_| Failed::usage(format!("the line {line} begins like a JSON string and is none")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_survives_a_pipe() {
        for id in ["order-1", "with space", "\"quoted\"", "two\nlines", "\u{1b}[31m", "it's", " edge "] {
            let line = id_line(id);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert_eq!(read_id(line.trim_end_matches('\n')).expect("read"), id);
        }
    }
}
