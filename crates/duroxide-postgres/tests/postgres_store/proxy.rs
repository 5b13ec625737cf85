//! Connections that break between a commit and its answer, and connections that fall silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Stands between a store and the server.
pub(crate) struct Proxy {
    pub(crate) url: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    armed: AtomicBool,
    cuts: AtomicU32,
    /// Connections made before this one was raised are silent.
    generation: AtomicU32,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (user, rest) = server.split_once('@').expect("a URL with a user");
        let (address, database) = rest.split_once('/').expect("a URL with a database");
        let url = format!("{user}@127.0.0.1:{port}/{database}");
        let state = Arc::new(State::default());
        let proxy = Self { url, state: state.clone() };
        let address = address.to_string();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                tokio::spawn(forward(client, server, state.clone()));
            }
        });
        proxy
    }

    /// The next answer to a commit does not arrive, and its connection breaks.
    pub(crate) fn cut_next_commit(&self) {
        self.state.armed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Nothing comes through the connections that are open now, and nobody hears that they are dead.
    pub(crate) fn silence(&self) {
        self.state.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl State {
    /// Holds a silent connection for ever.
    async fn pass(&self, generation: u32) {
        if self.generation.load(Ordering::SeqCst) != generation {
            std::future::pending::<()>().await;
        }
    }
}

async fn forward(client: TcpStream, server: TcpStream, state: Arc<State>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let generation = state.generation.load(Ordering::SeqCst);
    let of_requests = state.clone();
    let requests = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            of_requests.pass(generation).await;
            if to_server.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        state.pass(generation).await;
        let answer = &buffer[..read];
        // The tag of the command that was completed.
        let commits = answer.windows(7).any(|window| window == b"COMMIT\0");
        if commits && state.armed.swap(false, Ordering::SeqCst) {
            state.cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to_client.write_all(answer).await.is_err() {
            break;
        }
    }
    requests.abort();
}
