//! The payment service: charges once for each key, and fails half of its requests, some of them after charging.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::random::Random;

/// Between the charge and the answer: long enough for kills to fall in between.
const LATENCY: Duration = Duration::from_millis(60);

/// A service on the loopback interface, inside the test's own process: no kill of a worker reaches it.
pub(crate) struct Service {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
}

/// What the service knows.
pub(crate) struct Books {
    random: Random,
    /// By idempotency key.
    pub(crate) charges: BTreeMap<String, Charge>,
    pub(crate) requests: u64,
    /// Failed before anything was charged.
    pub(crate) refused: u64,
    /// Failed although the key was charged, by this request or an earlier one.
    pub(crate) failed_after_charging: u64,
    /// Requests with a key that had been charged.
    pub(crate) repeated: u64,
}

pub(crate) struct Charge {
    pub(crate) order: String,
    pub(crate) receipt: u64,
}

/// What becomes of a request.
enum Reply {
    Paid {
        receipt: u64,
    },
    Refused,
    /// Charged, and the answer says otherwise.
    ErrorAfterCharging,
    /// Charged, and there is no answer.
    SilenceAfterCharging,
}

impl Service {
    pub(crate) fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let books = Books {
            random: Random::new(seed),
            charges: BTreeMap::new(),
            requests: 0,
            refused: 0,
            failed_after_charging: 0,
            repeated: 0,
        };
        let books = Arc::new(Mutex::new(books));
        let served = books.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let books = served.clone();
                std::thread::spawn(move || serve(&books, connection));
            }
        });
        Self { address, books }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("no panic while locked")
    }
}

/// Answers one request: a line with the key and the order. A worker that was killed meanwhile hears nothing.
fn serve(books: &Mutex<Books>, mut connection: TcpStream) {
    let mut line = String::new();
    let read = connection.try_clone().and_then(|reading| BufReader::new(reading).read_line(&mut line));
    let Some((key, order)) = line.trim_end().split_once(' ').filter(|_| read.is_ok()) else { return };
    let reply = books.lock().expect("no panic while locked").pay(key, order);
    let text = match reply {
        Reply::Paid { receipt } => format!("paid {receipt}\n"),
        Reply::Refused | Reply::ErrorAfterCharging => "error\n".to_string(),
        Reply::SilenceAfterCharging => return,
    };
    std::thread::sleep(LATENCY);
    // The worker may be dead by now; its next attempt asks again.
    connection.write_all(text.as_bytes()).ok();
}

impl Books {
    fn pay(&mut self, key: &str, order: &str) -> Reply {
        self.requests += 1;
        let choice = self.random.below(8);
        if choice < 2 {
            self.refused += 1;
            return Reply::Refused;
        }
        let next_receipt = u64::try_from(self.charges.len()).expect("there are few charges") + 1;
        self.repeated += u64::from(self.charges.contains_key(key));
        let charge = self
            .charges
            .entry(key.to_string())
            .or_insert_with(|| Charge { order: order.to_string(), receipt: next_receipt });
        assert_eq!(charge.order, order, "two orders have the key {key}");
        let receipt = charge.receipt;
        match choice {
            2 => {
                self.failed_after_charging += 1;
                Reply::ErrorAfterCharging
            }
            3 => {
                self.failed_after_charging += 1;
                Reply::SilenceAfterCharging
            }
            _ => Reply::Paid { receipt },
        }
    }
}

/// Asks the service to charge an order; the receipt.
pub(crate) fn pay(address: SocketAddr, key: &str, order: &str) -> Result<u64, String> {
    let failed = |cause: std::io::Error| format!("the payment service: {cause}");
    let mut connection = TcpStream::connect(address).map_err(failed)?;
    connection.write_all(format!("{key} {order}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).map_err(failed)?;
    let receipt = line.trim_end().strip_prefix("paid ").and_then(|receipt| receipt.parse().ok());
    receipt.ok_or_else(|| format!("the payment service answered '{}'", line.trim_end()))
}
