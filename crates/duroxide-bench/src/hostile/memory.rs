//! How much memory the process has used.

use crate::floor::Failure;

/// The most that was resident at a time since the process began, in MiB.
pub(super) fn peak_mib() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    let kib: f64 = kib.ok_or("/proc/self/status has no VmHWM in kB")?.trim().parse()?;
    Ok(kib / 1024.0)
}
