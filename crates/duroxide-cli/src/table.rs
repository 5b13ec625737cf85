//! Rows in columns, for people.

use unicode_width::UnicodeWidthStr as _;

use crate::escape::escaped;

/// How wide a cell of the narrow form may be.
const NARROW: usize = 60;

/// What is listed.
pub(crate) struct Listing {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
}

/// One column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) shown: Shown,
    pub(crate) fit: Fit,
}

/// Whether the narrow form cuts long cells of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Cut,
    Whole,
}

/// In which form a column is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Always,
    Wide,
}

/// A column of both forms.
pub(crate) const fn column(title: &'static str) -> Column {
    Column { title, shown: Shown::Always, fit: Fit::Cut }
}

/// A column of the wide form.
pub(crate) const fn wide(title: &'static str) -> Column {
    Column { title, shown: Shown::Wide, fit: Fit::Whole }
}

/// A column of both forms that is never cut.
pub(crate) const fn whole(title: &'static str) -> Column {
    Column { title, shown: Shown::Always, fit: Fit::Whole }
}

/// One row: for `ids`, for people, for programs.
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) cells: Vec<String>,
    pub(crate) json: serde_json::Value,
}

/// How a table looks.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) shown: Shown,
    pub(crate) colour: bool,
}

/// The table as text; nothing where there are no rows.
pub(crate) fn render(listing: &Listing, look: Look) -> String {
    if listing.rows.is_empty() {
        return String::new();
    }
    let columns: Vec<usize> = (0..listing.columns.len())
        .filter(|at| look.shown == Shown::Wide || listing.columns[*at].shown == Shown::Always)
        .collect();
    let titles: Vec<String> = columns.iter().map(|at| listing.columns[*at].title.to_string()).collect();
    let rows = listing.rows.iter().map(|row| {
        let cell = |at: &usize| {
            row.cells.get(*at).map_or(String::new(), |text| {
                let fit = if look.shown == Shown::Wide { Fit::Whole } else { listing.columns[*at].fit };
                fitted(text, fit)
            })
        };
        columns.iter().map(cell).collect::<Vec<_>>()
    });
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let widths: Vec<usize> =
        (0..columns.len()).map(|at| lines.iter().map(|line| line[at].width()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let padding = " ".repeat(width - cell.width() + 2);
            shown.push_str(&coloured(cell, look.colour));
            shown.push_str(&padding);
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// The text without control characters.
fn fitted(text: &str, fit: Fit) -> String {
    let text = escaped(text);
    if fit == Fit::Whole || text.chars().count() <= NARROW {
        return text;
    }
    text.chars().take(NARROW - 1).chain(['…']).collect()
}

/// The words that say how something is, in colour.
pub(crate) fn coloured(text: &str, colour: bool) -> String {
    let code = match text {
        _ if !colour => return text.to_string(),
        "Running" | "live" => 36,
        "Completed" | "ok" => 32,
        "Failed" | "silent" => 31,
        _ => return text.to_string(),
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
