//! What each file had when it was last synced, and what was done to it since.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Which of the writes that were not synced have reached the disk all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None of them.
    Nothing,
    /// Some, chosen by this seed: a disk may write in any order.
    Some(u64),
}

/// A change of a file that was not synced.
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Truncate { size: usize },
}

/// A file that has changes which were not synced.
struct Unsynced {
    /// Its content when it was last synced.
    durable: Vec<u8>,
    changes: Vec<Change>,
}

static FILES: LazyLock<Mutex<HashMap<PathBuf, Unsynced>>> = LazyLock::new(Mutex::default);

fn files() -> MutexGuard<'static, HashMap<PathBuf, Unsynced>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a write, before it is made.
pub(crate) fn write(path: &Path, offset: usize, data: &[u8]) {
    note(path, Change::Write { offset, data: data.to_vec() });
}

/// Notes a change of the size, before it is made.
pub(crate) fn truncate(path: &Path, size: usize) {
    note(path, Change::Truncate { size });
}

fn note(path: &Path, change: Change) {
    let mut files = files();
    let file = files.entry(path.to_path_buf()).or_insert_with(|| Unsynced {
        // A file that cannot be read has just been created.
        durable: std::fs::read(path).unwrap_or_default(),
        changes: Vec::new(),
    });
    file.changes.push(change);
}

/// Notes that all is on the disk.
pub(crate) fn sync(path: &Path) {
    files().remove(path);
}

/// Notes that the file is gone.
pub(crate) fn delete(path: &Path) {
    files().remove(path);
}

/// The contents after a power cut; `None` where there is no such file.
pub(crate) fn after_cut(paths: &[PathBuf], keep: Keep) -> std::io::Result<Vec<Option<Vec<u8>>>> {
    let files = files();
    paths.iter().map(|path| content_after_cut(&files, path, keep)).collect()
}

fn content_after_cut(
    files: &HashMap<PathBuf, Unsynced>,
    path: &Path,
    keep: Keep,
) -> std::io::Result<Option<Vec<u8>>> {
    let Some(file) = files.get(path) else {
        return match std::fs::read(path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
    };
    let mut content = file.durable.clone();
    let mut random = match keep {
        Keep::Nothing => return Ok(Some(content)),
        Keep::Some(seed) => seed,
    };
    for change in &file.changes {
        if !next(&mut random).is_multiple_of(2) {
            continue;
        }
        match change {
            Change::Write { offset, data } => {
                let end = offset + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(data);
            }
            Change::Truncate { size } => content.resize(*size, 0),
        }
    }
    Ok(Some(content))
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
