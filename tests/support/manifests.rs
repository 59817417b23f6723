//! Files for other programs, read and judged by those programs: YAML by the parser of the tests' Python, Kubernetes manifests by
//! kustomize, rules by promtool. It deliberately knows nothing of what stands in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::tool::{Done, run};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that tests/needs.sh installs beside the SDK.
pub fn installed(program: &str) -> PathBuf {
    let python = std::env::var_os("OUTBOXD_TEST_PYTHON").map(PathBuf::from);
    let programs = python.and_then(|python| python.parent().map(Path::to_path_buf));
    let path = programs.unwrap_or(root().join("target/venv/bin")).join(program);
    assert!(path.exists(), "{} is missing: sh tests/needs.sh test", path.display());
    path
}

/// Every document of a YAML text.
pub async fn yaml(text: &str) -> Vec<Value> {
    let mut python = Command::new(installed("python"));
    python.args([
        "-c",
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout, default=str)",
    ]);
    let done = run(python, text).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    serde_json::from_str(&done.stdout).expect("Python writes JSON")
}

pub fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What would be applied, as text.
pub async fn kustomize(directory: &Path) -> String {
    let mut kubectl = Command::new(installed("kubectl"));
    kubectl.arg("kustomize").arg(directory);
    let done = run(kubectl, "").await;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", directory.display());
    done.stdout
}

pub async fn promtool(arguments: &[&str], input: &str) -> Done {
    let mut promtool = Command::new("promtool");
    promtool.args(arguments);
    run(promtool, input).await
}
