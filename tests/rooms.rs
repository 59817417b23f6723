//! The house rules that a reader relies on, read off the source: who may import whom, where SQL lives, how long a file is.

use std::fs;
use std::path::{Path, PathBuf};

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|has| has == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file: its path below `src`, and its text up to its inline tests.
fn sources() -> Vec<(String, String)> {
    let src = root().join("src");
    files(&src, "rs")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            (name, code)
        })
        .filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/") && !name.ends_with("vectors.rs"))
        .collect()
}

fn room(name: &str) -> &str {
    name.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The rooms that a room's code names by `crate::`, and the libraries that only some may touch.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("address", &["signature"]),
    ("capture", &[]),
    ("certificate", &["hex"]),
    ("claim", &["envelope", "life", "secret", "store", "telemetry"]),
    ("config", &["secret", "store"]),
    (
        "deliver",
        &[
            "address",
            "certificate",
            "claim",
            "clock",
            "config",
            "envelope",
            "history",
            "post",
            "secret",
            "settle",
            "signature",
            "signer",
            "store",
            "telemetry",
            "verdict",
        ],
    ),
    ("envelope", &["hex", "secret"]),
    // Opens no door that a room does not open itself; only fuzzing and tests build it.
    ("fuzz", &["address", "capture", "config", "envelope", "post", "secret", "signature", "verdict"]),
    ("post", &["address", "certificate", "signature", "verdict"]),
    (
        "receive",
        &[
            "hex",
            "address",
            "certificate",
            "config",
            "deliver",
            "envelope",
            "secret",
            "signature",
            "store",
            "telemetry",
        ],
    ),
    ("sealing", &["hex", "address", "config", "deliver", "envelope", "secret", "signer", "telemetry"]),
    ("rekey", &["envelope", "secret", "store"]),
    ("hex", &[]),
    ("history", &["envelope", "verdict"]),
    ("jwks", &["config", "deliver", "receive", "signature", "signer", "telemetry"]),
    ("secret", &[]),
    ("clock", &[]),
    ("life", &[]),
    ("settle", &["claim", "envelope", "history", "life", "store", "telemetry", "verdict"]),
    ("signature", &["hex", "secret"]),
    ("signer", &["certificate", "envelope", "hex", "secret", "signature", "store"]),
    ("store", &["envelope", "secret"]),
    ("steer", &["envelope", "hex", "rekey", "secret", "store"]),
    ("telemetry", &["config", "store"]),
    ("verdict", &[]),
];

#[test]
fn rooms_import_only_what_the_plan_allows() {
    for (name, code) in sources() {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(of, _)| *of == room(&name)) else { continue };
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for used in line.split("crate::").skip(1) {
                let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                assert!(used == room(&name) || allowed.contains(&used), "{name}:{}: uses {used}", number + 1);
            }
        }
    }
}

#[test]
fn pure_rooms_know_no_clock_socket_file_or_runtime() {
    const IMPURE: &[&str] = &[
        "tokio",
        "std::net::Tcp",
        "std::fs",
        "std::env",
        "SystemTime::now",
        "Instant::now",
        "tracing::",
        "metrics",
        "SystemRandom",
    ];
    const PURE_PARTS: &[&str] =
        &["canonical", "capabilities", "checks", "headers", "notification", "openapi", "report"];
    const PURE_OF_WEBHOOK: &[&str] = &["canonical", "checks", "payload", "refusal"];
    let pure = |name: &str| {
        ["capture", "certificate", "clock", "envelope", "hex", "history", "life", "signature", "verdict"]
            .contains(&room(name))
            || ["jwks/publication.rs", "jwks/answer.rs", "signer/keys.rs"].contains(&name)
            || ["class", "embedded", "policy", "ranges", "url"].iter().any(|part| *name == format!("address/{part}.rs"))
            || PURE_PARTS.iter().any(|part| *name == format!("receive/terminal/{part}.rs"))
            || PURE_OF_WEBHOOK.iter().any(|part| *name == format!("receive/webhook/{part}.rs"))
    };
    for (name, code) in sources().into_iter().filter(|(name, _)| pure(name)) {
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in IMPURE {
                // ECDSA signatures need fresh randomness, and ring takes its source as an argument of that type.
                if *word == "SystemRandom" && name.starts_with("signature/key") {
                    continue;
                }
                assert!(!line.contains(word), "{name}:{}: {word}", number + 1);
            }
        }
    }
}

#[test]
fn only_the_store_names_postgres_and_only_sql_files_hold_sql() {
    const STATEMENTS: &[&str] = &["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE TABLE", "LISTEN "];
    for (name, code) in sources() {
        if room(&name) != "store" {
            assert!(!code.contains("tokio_postgres"), "{name} names tokio_postgres");
            assert!(!code.contains("deadpool"), "{name} names deadpool");
        }
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for statement in STATEMENTS {
                assert!(!line.contains(statement), "{name}:{}: SQL in Rust", number + 1);
            }
            assert!(!line.contains("adcp_task_webhook_outbox"), "{name}:{}: a table name in Rust", number + 1);
        }
    }
}

#[test]
fn files_open_with_a_sentence_and_stay_short() {
    for (name, code) in sources() {
        assert!(code.starts_with("//! "), "{name} does not say what it does");
        let lines = code.lines().count();
        assert!(lines <= 600, "{name} has {lines} lines");
        for bad in ["utils", "helpers", "common", "misc", "types"] {
            assert!(!name.split('/').any(|part| part.trim_end_matches(".rs") == bad), "{name} names nothing");
        }
    }
}

#[test]
fn functions_stay_under_eighty_lines() {
    for (name, code) in sources() {
        let lines: Vec<&str> = code.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let head = line.trim_start();
            let is_function = [
                "fn ",
                "pub fn ",
                "pub(crate) fn ",
                "pub(super) fn ",
                "async fn ",
                "pub(crate) async fn ",
                "pub(super) async fn ",
            ]
            .iter()
            .any(|opening| head.starts_with(opening));
            if !is_function {
                continue;
            }
            let end = format!("{}}}", " ".repeat(indent));
            let length = lines[start..].iter().position(|line| *line == end).unwrap_or(0);
            assert!(length <= 80, "{name}:{}: a function of {length} lines", start + 1);
        }
    }
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    let mut all = files(&root().join("src"), "rs");
    all.extend(files(&root().join("tests"), "rs"));
    for path in all.into_iter().filter(|path| !path.ends_with("rooms.rs")) {
        let text = fs::read_to_string(&path).unwrap();
        for word in ["todo!(", "unimplemented!(", "#[ignore", "TODO", "FIXME", "dbg!("] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// P1 to P18 are what is promised, and K1 to K13 the points at which a daemon is killed.
#[test]
fn every_promise_and_every_kill_point_has_a_test_by_its_name() {
    let mut named = Vec::new();
    for path in files(&root().join("tests"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let functions =
            text.lines().filter_map(|line| line.split_once("fn ")).filter_map(|(_, rest)| rest.split_once('('));
        named.extend(functions.flat_map(|(name, _)| name.split('_').map(str::to_owned).collect::<Vec<_>>()));
    }
    let wanted = (1..=18).map(|nth| format!("p{nth}")).chain((1..=13).map(|nth| format!("k{nth}")));
    let missing: Vec<String> = wanted.filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "no test is named for {missing:?}");
}

/// A killpoint is for tests: what a release is built with knows none, and nothing else turns on what it is built by.
#[test]
fn no_release_has_a_killpoint() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("debug-assertions"), "a profile would bring the killpoints with it");
    for (name, code) in sources().into_iter().filter(|(name, _)| name != "killpoint.rs" && name != "lib.rs") {
        for (number, line) in code.lines().enumerate().filter(|(_, line)| line.contains("killpoint")) {
            assert!(line.trim_start().starts_with("killpoint!("), "{name}:{}: {line}", number + 1);
        }
    }
    let code = fs::read_to_string(root().join("src/killpoint.rs")).unwrap();
    for item in ["macro_rules! killpoint {\n    ($point:expr) => {\n        $crate", "pub(crate) use", "mod orders {"] {
        let (before, _) = code.split_once(item).expect("it is there");
        assert!(before.ends_with("#[cfg(debug_assertions)]\n"), "{item} is in every build");
    }
}

/// Bytes that are wiped are secret: no derived trait may show them, copy them or write them out. What holds a `Secret`
/// instead has a copy and a `Debug` that are safe.
#[test]
fn what_is_wiped_is_neither_printed_nor_copied_nor_serialized() {
    let mut seen = 0;
    for (name, code) in sources() {
        let lines: Vec<&str> = code.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let head = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            if !head.starts_with("struct ") && !head.starts_with("enum ") {
                continue;
            }
            let end = format!("{}}}", " ".repeat(line.len() - line.trim_start().len()));
            let length = lines[start..].iter().position(|line| *line == end || line.ends_with(';')).unwrap_or(0);
            if !lines[start..=start + length].iter().any(|line| line.contains("Zeroizing<")) {
                continue;
            }
            seen += 1;
            let attributes = lines[..start].iter().rev().map(|line| line.trim_start());
            let attributes = attributes.take_while(|line| line.starts_with(['#', '/']));
            for attribute in attributes.filter(|line| line.starts_with("#[derive")) {
                for derived in ["Debug", "Clone", "Serialize"] {
                    let harmless = head.starts_with("struct Secret(") && derived == "Clone";
                    assert!(harmless || !attribute.contains(derived), "{name}:{}: derives {derived}", start + 1);
                }
            }
        }
    }
    assert!(seen >= 10, "only {seen} types found");
}

#[test]
fn ring_is_the_only_crypto_backend() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for banned in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
        assert!(!lock.contains(&format!("name = \"{banned}\"\n")), "{banned} is in Cargo.lock");
    }
    assert!(lock.contains("name = \"ring\"\n"));
}
