//! A connection that breaks between a commit and its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Stands between a store and the server.
pub(crate) struct Proxy {
    pub(crate) url: String,
    armed: Arc<AtomicBool>,
    cuts: Arc<AtomicU32>,
}

impl Proxy {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (user, rest) = server.split_once('@').expect("a URL with a user");
        let (address, database) = rest.split_once('/').expect("a URL with a database");
        let url = format!("{user}@127.0.0.1:{port}/{database}");
        let (armed, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let proxy = Self { url, armed: armed.clone(), cuts: cuts.clone() };
        let address = address.to_string();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else { continue };
                tokio::spawn(forward(client, server, armed.clone(), cuts.clone()));
            }
        });
        proxy
    }

    /// The next answer to a commit does not arrive, and its connection breaks.
    pub(crate) fn cut_next_commit(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.cuts.load(Ordering::SeqCst)
    }
}

async fn forward(client: TcpStream, server: TcpStream, armed: Arc<AtomicBool>, cuts: Arc<AtomicU32>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        let answer = &buffer[..read];
        // The tag of the command that was completed.
        let commits = answer.windows(7).any(|window| window == b"COMMIT\0");
        if commits && armed.swap(false, Ordering::SeqCst) {
            cuts.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to_client.write_all(answer).await.is_err() {
            break;
        }
    }
    requests.abort();
}
