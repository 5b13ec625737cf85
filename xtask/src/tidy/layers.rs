//! The engine never sees a store, and a store never sees the engine.

use super::{File, Finding};

/// The contract of stores and those who keep it. What they may depend on says [`super::dependencies`].
const STORES: [&str; 3] =
    ["crates/duroxide-provider/src/", "crates/duroxide-sqlite/src/", "crates/duroxide-postgres/src/"];

/// Names that would tie a side to the other.
pub(super) fn engine_and_providers_do_not_meet(file: &File) -> Vec<Finding> {
    if !file.is_rust() {
        return Vec::new();
    }
    let (names, text): (&[&str], _) = if file.path.starts_with("crates/duroxide-core/src/") {
        (
            &["Provider", "ProviderError", "ProviderAdmin", "providers"],
            "the core names a store; return what shall happen as a value and let the runtime carry it out",
        )
    } else if STORES.iter().any(|store| file.path.starts_with(store)) {
        (
            &["engine", "run_turn", "duroxide::runtime"],
            "a store names the engine or the runtime; it gets what it must index from pure functions of the model",
        )
    } else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for name in names {
        for position in file.words(name) {
            findings.push(Finding::fault(
                file,
                file.line_at(position),
                "layers",
                format!("`{name}`: {text}"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        expect(&engine_and_providers_do_not_meet(&File::new(path, text)), expected);
    }

    #[test]
    fn the_engine_names_no_store() {
        let core = "crates/duroxide-core/src/engine/a.rs";
        check(core, "/// A Provider stores it.\nfn f() {}\n", &[]);
        check(core, "\nfn f(p: &dyn Provider) {}\n", &[(2, "`Provider`")]);
    }

    #[test]
    fn a_store_names_no_engine() {
        let text = "use duroxide_core::columns_of;\nuse crate::engine::Turn;\n";
        check("crates/duroxide-sqlite/src/ack.rs", text, &[(2, "`engine`")]);
        check("crates/duroxide-postgres/src/lib.rs", "run_turn();\n", &[(1, "`run_turn`")]);
        let text_of_runtime = "use duroxide::runtime::Runtime;\n";
        check("crates/duroxide-provider/src/memory/a.rs", text_of_runtime, &[(1, "`duroxide::runtime`")]);
        check("crates/duroxide/src/runtime/a.rs", text, &[]);
    }
}
