//! One server: made, started, stopped and removed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::programs::{User, directory};

/// How long a server may take to accept connections.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether it does.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Whether commits wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// As a server of an application does: for benchmarks.
    Full,
    /// No: for tests, which cut no power.
    Relaxed,
}

/// A server with a data directory and a port of its own. Dropping it stops the server and removes the directory.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    user: Option<User>,
    directory: PathBuf,
    port: u16,
    url: String,
    guard: Option<Guard>,
}

/// The shell that stops the server when the pipe to it breaks.
#[derive(Debug)]
struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Server {
    /// Makes a server in the temporary directory and starts it.
    pub fn start(durability: Durability) -> Result<Self, String> {
        Self::start_in(&std::env::temp_dir(), durability)
    }

    /// Makes a server below a directory and starts it.
    pub fn start_in(parent: &Path, durability: Durability) -> Result<Self, String> {
        let programs = directory()?;
        let user = User::for_server()?;
        let directory = new_directory(parent, user)?;
        let port = free_port()?;
        let url = format!("postgres://duroxide@127.0.0.1:{port}/postgres");
        let mut server = Self { programs, user, directory, port, url, guard: None };
        server.initialise(durability)?;
        server.launch()?;
        Ok(server)
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory with everything that belongs to it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Stops the server at once, without telling its clients, and starts it again.
    pub fn restart(&self) -> Result<(), String> {
        self.control(&["restart", "-m", "immediate", "-w", "-t", "60"])
    }

    /// Stops the server at once; the data stay.
    pub fn stop(&self) -> Result<(), String> {
        self.control(&["stop", "-m", "immediate", "-w", "-t", "60"])
    }

    /// Starts a server that was stopped.
    pub fn start_again(&self) -> Result<(), String> {
        self.control(&["start", "-w", "-t", "60"])
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn initialise(&self, durability: Durability) -> Result<(), String> {
        let mut initdb = Command::new(self.programs.join("initdb"));
        initdb.args(["--username=duroxide", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        initdb.arg("-D").arg(self.data());
        self.finish(&mut initdb)?;
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\nmax_connections = 300\n",
            self.port,
            self.directory.display()
        );
        if durability == Durability::Relaxed {
            settings += "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n";
        }
        let file = self.data().join("postgresql.auto.conf");
        std::fs::write(&file, settings).map_err(|cause| format!("{}: {cause}", file.display()))
    }

    fn launch(&mut self) -> Result<(), String> {
        // Stopped the hard way: nobody will read the data again.
        let script = "\"$1/pg_ctl\" start -D \"$2/data\" -l \"$2/log\" -W >/dev/null 2>&1; read _; \
             \"$1/pg_ctl\" stop -D \"$2/data\" -m immediate >/dev/null 2>&1; rm -rf \"$2\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(&self.programs).arg(&self.directory);
        shell.current_dir(&self.directory).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        User::apply(self.user, &mut shell);
        let mut shell = shell.spawn().map_err(|cause| format!("no shell can be started: {cause}"))?;
        let pipe = shell.stdin.take();
        self.guard = Some(Guard { shell, pipe });
        self.wait()
    }

    fn wait(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let mut asked = Command::new(self.programs.join("pg_isready"));
            asked.args(["-q", "-h", "127.0.0.1", "-d", "postgres", "-U", "duroxide", "-p"]);
            asked.arg(self.port.to_string());
            if asked.status().is_ok_and(|status| status.success()) {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                return Err(format!("the server did not start within {PATIENCE:?}:\n{log}"));
            }
            std::thread::sleep(ASK_INTERVAL);
        }
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(self.programs.join("pg_ctl"));
        command.args(arguments).arg("-D").arg(self.data()).arg("-l").arg(self.directory.join("log"));
        self.finish(&mut command)
    }

    fn finish(&self, command: &mut Command) -> Result<(), String> {
        command
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        User::apply(self.user, command);
        let output = command.output().map_err(|cause| format!("{command:?} did not start: {cause}"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?} ended with {}: {text}", output.status))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.pipe.take());
            // Fails only if it has ended already.
            drop(guard.shell.wait());
        }
    }
}

fn new_directory(parent: &Path, user: Option<User>) -> Result<PathBuf, String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("duroxide-postgres-{}-{number}", std::process::id()));
    let failed = |cause: std::io::Error| format!("{}: {cause}", path.display());
    std::fs::create_dir(&path).map_err(failed)?;
    if let Some(user) = user {
        std::os::unix::fs::chown(&path, Some(user.uid), Some(user.gid)).map_err(failed)?;
    }
    Ok(path)
}

/// A port that nobody uses now. Somebody may take it before the server does; then it does not start.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|cause| format!("no port is free: {cause}"))?;
    listener.local_addr().map(|address| address.port()).map_err(|cause| format!("no port: {cause}"))
}
