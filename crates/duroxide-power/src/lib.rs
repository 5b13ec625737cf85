//! A layer under SQLite that remembers what was written and not synced, so that a test can see which files a power cut
//! would leave behind.
//!
//! [`install`] puts the layer under every connection that is opened afterwards in this process. [`cut`] copies a
//! database as a power cut at this moment would leave it: with everything that was synced, and with any part, or
//! nothing, of what was not.

mod layer;
mod unsynced;

use std::path::{Path, PathBuf};

pub use unsynced::Keep;

/// Puts the layer under every connection opened from now on. Doing it again changes nothing.
///
/// # Panics
/// If SQLite refuses the layer.
pub fn install() {
    layer::install();
}

/// Copies the database `from` to `to` as a power cut at this moment would leave it.
///
/// # Errors
/// If a file cannot be read or written.
pub fn cut(from: &Path, to: &Path, keep: Keep) -> std::io::Result<()> {
    const SUFFIXES: [&str; 3] = ["", "-wal", "-journal"];
    let files = SUFFIXES.map(|suffix| with_suffix(from, suffix));
    // All of them at the same moment: the power goes for all at once.
    let contents = unsynced::after_cut(&files, keep)?;
    for (suffix, content) in SUFFIXES.iter().zip(contents) {
        if let Some(content) = content {
            std::fs::write(with_suffix(to, suffix), content)?;
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}
