//! What the compiler says about handlers that are wrong: where, and with which remedy.
//!
//! The texts are those of one release of the compiler. With another one the test does nothing; `TRYBUILD=overwrite` writes
//! them anew, after which [`GOLDENS_OF`] is to be changed.
#![cfg(feature = "macros")]

use std::process::Command;

/// The release of the compiler that the goldens in `tests/ui` are of.
const GOLDENS_OF: &str = "1.95.0";

#[test]
fn mistakes_in_handlers_and_calls_are_named_with_their_remedy() {
    let release = compiler_release();
    if release != GOLDENS_OF {
        println!("skipped: the goldens are of rustc {GOLDENS_OF}, and this is {release}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/attribute/*.rs");
    cases.compile_fail("tests/ui/call/*.rs");
}

fn compiler_release() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_string());
    let output = Command::new(rustc).arg("--version").output().expect("the compiler is there");
    let text = String::from_utf8(output.stdout).expect("a version is text");
    text.split(' ').nth(1).expect("`rustc 1.2.3 (..)`").to_string()
}
