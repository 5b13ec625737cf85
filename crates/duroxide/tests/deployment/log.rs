//! What a node logs, line by line.
//!
//! One subscriber for the whole process, because those of single threads come and go while other threads decide
//! whether a line is wanted at all. It keeps the lines of a thread that listens.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Once;

thread_local! {
    static LISTENING: RefCell<Option<Rc<RefCell<Vec<u8>>>>> = const { RefCell::new(None) };
}

/// The lines logged on this thread since [`Log::listen`].
pub(crate) struct Log(Rc<RefCell<Vec<u8>>>);

/// Hands the lines to whoever listens on the thread that logs.
struct ToListener;

impl Write for ToListener {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LISTENING.with_borrow(|listening| {
            if let Some(lines) = listening {
                lines.borrow_mut().extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Begins to listen, on a new page. A test in virtual time has all its tasks on its own thread.
    pub(crate) fn listen() -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            tracing_subscriber::fmt()
                .with_max_level(tracing::Level::DEBUG)
                .with_ansi(false)
                .with_writer(|| ToListener)
                .init();
        });
        let lines = Rc::new(RefCell::new(Vec::new()));
        LISTENING.set(Some(lines.clone()));
        Self(lines)
    }

    /// The lines of this level, in their order.
    pub(crate) fn lines(&self, level: &str) -> Vec<String> {
        let mut lines = self.all();
        lines.retain(|line| line.split_whitespace().nth(1) == Some(level));
        lines
    }

    /// All lines, in their order.
    pub(crate) fn all(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.borrow().clone()).expect("logs are text");
        text.lines().map(str::to_string).collect()
    }
}
