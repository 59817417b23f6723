use std::os::unix::fs::PermissionsExt;

use clap::{CommandFactory, Parser};

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn keygen(arguments: &[&str]) -> anyhow::Result<()> {
    let line = std::iter::once("keygen").chain(arguments.iter().copied());
    run(Command::try_parse_from(line).expect("the arguments are valid").args)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_command_line_is_well_formed() {
    Command::command().debug_assert();
}

#[test]
fn an_envelope_key_is_64_hex_digits_that_only_the_owner_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("a"), dir.path().join("b"));
    for path in [&first, &second] {
        keygen(&["envelope", "--out", path.to_str().unwrap()]).unwrap();
        assert_eq!(mode(path), 0o600);
        let text = std::fs::read_to_string(path).unwrap();
        let digits = text.strip_suffix('\n').unwrap();
        assert!(digits.len() == 64 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
    }
    assert_ne!(std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
}

#[test]
fn a_signing_key_comes_back_from_its_two_files() {
    for (name, algorithm) in [("ed25519", Algorithm::Ed25519), ("p256", Algorithm::EcdsaP256Sha256)] {
        let dir = tempfile::tempdir().unwrap();
        let (out, jwk) = (dir.path().join("key.pem"), dir.path().join("key.jwk"));
        keygen(&[name, "--out", out.to_str().unwrap(), "--jwk", jwk.to_str().unwrap(), "--kid", "k 1"]).unwrap();
        assert_eq!(mode(&out), 0o600);
        let pem = crate::secret::read_secret_file(&out).unwrap();
        let key = SigningKey::from_pem(&pem, "k 1", Some(algorithm)).unwrap();
        let published: serde_json::Value = serde_json::from_slice(&std::fs::read(jwk).unwrap()).unwrap();
        assert_eq!(published, key.public_jwk());
        assert!(published.get("d").is_none());
        assert_eq!(published["use"], "sig");
        assert_eq!(published["key_ops"], serde_json::json!(["verify"]));
        assert_eq!(published["adcp_use"], "webhook-signing");
    }
}

#[test]
fn a_file_that_exists_is_never_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    std::fs::write(&kept, "precious").unwrap();
    let (kept, fresh) = (kept.to_str().unwrap(), dir.path().join("fresh"));
    for arguments in [
        &["envelope", "--out", kept][..],
        &["ed25519", "--out", kept],
        &["p256", "--out", fresh.to_str().unwrap(), "--jwk", kept],
    ] {
        let error = keygen(arguments).unwrap_err();
        assert!(format!("{error:#}").contains("name another file"), "{error:#}");
        assert_eq!(std::fs::read(kept).unwrap(), b"precious");
    }
    assert!(!fresh.exists(), "a private key without its public half is taken back");
}

#[test]
fn a_key_id_that_cannot_be_signed_under_makes_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("key.pem");
    let error = keygen(&["ed25519", "--out", out.to_str().unwrap(), "--kid", "ké"]).unwrap_err();
    assert!(format!("{error:#}").contains("printable ASCII"), "{error:#}");
    assert!(!out.exists());
}
