//! How large stored forms are, for stores that do not make them.

use serde::Serialize;

/// How many bytes the stored form of a value has, without making it.
pub(crate) fn stored_bytes<T: Serialize + ?Sized>(value: &T) -> usize {
    struct Counted(usize);
    impl std::io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        // What has no stored form is never stored.
        Err(_no_form) => 0,
    }
}
