//! The files that the rules look at.

use std::path::Path;

use super::mask::mask;

/// A text file of the workspace.
pub(super) struct File {
    /// From the root of the workspace, with `/`.
    pub(super) path: String,
    /// As it stands.
    pub(super) text: String,
    /// For Rust, the text with comments, strings and characters blanked out; line and column stay.
    pub(super) code: String,
}

impl File {
    pub(super) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { mask(&text) } else { String::new() };
        Self { path, text, code }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The line of a position in the text or the code, counted from 1.
    pub(super) fn line_at(&self, position: usize) -> usize {
        self.text.as_bytes()[..position].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Where `needle` stands in the code as whole words.
    pub(super) fn words<'a>(&'a self, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        self.code.match_indices(needle).map(|(position, _)| position).filter(move |position| {
            let bytes = self.code.as_bytes();
            let before = position.checked_sub(1).and_then(|before| bytes.get(before));
            !is_word(before) && !is_word(bytes.get(position + needle.len()))
        })
    }
}

/// Every text file below `root`, in the order of their paths.
pub(super) fn read_all(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    read_directory(root, "", &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn read_directory(directory: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let failed = |cause: std::io::Error| format!("{}: {cause}", directory.display());
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().map_err(failed)?.is_dir() {
            if is_ours(&name) {
                read_directory(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if name != ".git"
            && let Ok(bytes) = std::fs::read(entry.path())
            && let Ok(text) = String::from_utf8(bytes)
        {
            files.push(File::new(path, text));
        }
    }
    Ok(())
}

/// Whether a directory holds files that people write.
fn is_ours(directory: &str) -> bool {
    match directory {
        "target" | "node_modules" => false,
        ".ci" | ".cargo" | ".github" => true,
        other => !other.starts_with('.'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_and_not_in_comments() {
        let file = File::new("a.rs", "// engine\nlet engine2 = 1;\nuse engine::x; my_engine();\n");
        let lines: Vec<usize> = file.words("engine").map(|position| file.line_at(position)).collect();
        assert_eq!(lines, [3]);
    }
}
