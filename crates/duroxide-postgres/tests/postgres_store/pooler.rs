//! A pooler that gives each transaction a session of the server, as PgBouncer does with `pool_mode = transaction`.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What a client says instead of its first message to ask for TLS.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

pub(crate) struct Pooler {
    pub(crate) url: String,
}

struct Pool {
    server: String,
    /// The session that was used last is used next.
    idle: Mutex<Vec<TcpStream>>,
}

impl Pooler {
    pub(crate) async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (user, rest) = server.split_once('@').expect("a URL with a user");
        let (address, database) = rest.split_once('/').expect("a URL with a database");
        let url = format!("{user}@127.0.0.1:{port}/{database}");
        let pool = Arc::new(Pool { server: address.to_string(), idle: Mutex::default() });
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let pool = pool.clone();
                // A client that disconnects ends its task with an error that no test looks at.
                tokio::spawn(async move { drop(pool.serve(client).await) });
            }
        });
        Self { url }
    }
}

impl Pool {
    async fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut startup = read_body(&mut client).await?;
        if startup[4..] == SSL_REQUEST {
            client.write_all(b"N").await?;
            startup = read_body(&mut client).await?;
        }
        let (session, greeting) = self.open(&startup).await?;
        self.idle.lock().await.push(session);
        client.write_all(&greeting).await?;
        let mut held: Option<TcpStream> = None;
        loop {
            let kind = client.read_u8().await?;
            let body = read_body(&mut client).await?;
            if kind == b'X' {
                return Ok(());
            }
            let mut session = match held.take() {
                Some(session) => session,
                None => self.take(&startup).await?,
            };
            session.write_all(&[&[kind], body.as_slice()].concat()).await?;
            let is_free = (kind == b'Q' || kind == b'S') && {
                let (answer, status) = read_answer(&mut session).await?;
                client.write_all(&answer).await?;
                status == b'I'
            };
            if is_free {
                self.idle.lock().await.push(session);
            } else {
                held = Some(session);
            }
        }
    }

    async fn take(&self, startup: &[u8]) -> std::io::Result<TcpStream> {
        let idle = self.idle.lock().await.pop();
        match idle {
            Some(session) => Ok(session),
            None => Ok(self.open(startup).await?.0),
        }
    }

    /// A session, and what the server says first.
    async fn open(&self, startup: &[u8]) -> std::io::Result<(TcpStream, Vec<u8>)> {
        let mut session = TcpStream::connect(&self.server).await?;
        session.write_all(startup).await?;
        let (greeting, _) = read_answer(&mut session).await?;
        Ok((session, greeting))
    }
}

/// A length and what it counts, itself included.
async fn read_body(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut body = length.to_be_bytes().to_vec();
    body.resize(usize::try_from(length).expect("a short message"), 0);
    from.read_exact(&mut body[4..]).await?;
    Ok(body)
}

/// All messages of the server up to the one that says that it is ready, and its state then.
async fn read_answer(from: &mut TcpStream) -> std::io::Result<(Vec<u8>, u8)> {
    let mut all = Vec::new();
    loop {
        let kind = from.read_u8().await?;
        let body = read_body(from).await?;
        all.push(kind);
        all.extend(&body);
        if kind == b'Z' {
            return Ok((all, body[4]));
        }
    }
}
