//! Where PostgreSQL's programs are, and as whom they run.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where distributions of the Debian family keep the versions of the server.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Whether a server is installed.
pub fn is_installed() -> bool {
    directory().is_ok()
}

/// Installs the server from the distribution's packages. Needs the rights to do so.
pub fn install() -> Result<(), String> {
    for arguments in [&["update"][..], &["install", "-y", "--no-install-recommends", "postgresql"]] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let status = command.status().map_err(|cause| format!("apt-get did not start: {cause}"))?;
        if !status.success() {
            return Err(format!("apt-get {} ended with {status}", arguments.join(" ")));
        }
    }
    Ok(())
}

/// Where one of PostgreSQL's programs is, `pg_dump` for example.
pub fn program(name: &str) -> Result<PathBuf, String> {
    Ok(directory()?.join(name))
}

/// The directory of the latest version's programs.
pub(crate) fn directory() -> Result<PathBuf, String> {
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let latest = versions.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path))).max();
    let on_path = std::env::var_os("PATH");
    let on_path = on_path.iter().flat_map(std::env::split_paths).find(|path| path.join("postgres").is_file());
    let found = latest.map(|(_, path)| path.join("bin")).filter(|bin| bin.join("postgres").is_file());
    found.or(on_path).ok_or_else(|| {
        format!(
            "PostgreSQL is not installed: `apt-get install postgresql`, or name a server in {}",
            crate::URL_VARIABLE
        )
    })
}

/// A user of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Whom the server must run as, because it refuses to run as root; `None` when this user will do.
    pub(crate) fn for_server() -> Result<Option<Self>, String> {
        if !is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").map_err(|cause| format!("the users: {cause}"))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| parse(&users, name));
        found.map(Some).ok_or_else(|| "there is no user that the server could run as".to_string())
    }

    /// Lets a program run as this user.
    pub(crate) fn apply(user: Option<Self>, command: &mut Command) {
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn parse(users: &str, name: &str) -> Option<User> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var/lib:/bin/sh\n";
        assert_eq!(parse(users, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(parse(users, "post"), None);
    }
}
