//! Settings and files of a server that a test has to itself.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use private_postgres::Server;
use tokio_postgres::NoTls;

pub(crate) async fn configure(server: &Server, settings: &[&str]) {
    let (admin, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    for setting in settings {
        admin.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.expect("set");
    }
    drop(admin);
    server.restart().expect("it starts again");
}

/// Puts a file where the server reads it, as its own.
pub(crate) fn give(data: &Path, name: &str, content: &[u8]) {
    let path = data.join(name);
    std::fs::write(&path, content).expect("written");
    let owner = std::fs::metadata(data).expect("there");
    chown(&path, Some(owner.uid()), Some(owner.gid())).expect("given");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("kept secret");
}
