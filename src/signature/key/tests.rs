use serde_json::json;

use super::*;
use crate::signature::vectors::{cases, corpus_key, read, signing_key, text};

fn pem(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/vectors/keys/{name}.pem", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn private_jwk(document: &Value, name: &str) -> Value {
    let mut jwk = document["keys"][name]["public_jwk"].clone();
    // Both keys of the vectors have the counting bytes 01..20 as their private half.
    jwk["d"] = document["keys"]["ed"]["private_jwk_d"].clone();
    jwk
}

fn refusal(jwk: &Value) -> KeyError {
    SigningKey::from_jwk(jwk.to_string().as_bytes()).unwrap_err()
}

#[test]
fn pem_and_jwk_of_one_key_publish_the_same_jwk() {
    let document = read("signing.json");
    for name in ["ed", "es"] {
        let expected = &document["keys"][name]["public_jwk"];
        let from_pem = signing_key(&document, name, text(expected, "kid"));
        assert_eq!(&from_pem.public_jwk(), expected);
        let from_jwk = SigningKey::from_jwk(private_jwk(&document, name).to_string().as_bytes()).unwrap();
        assert_eq!(&from_jwk.public_jwk(), expected);
    }
}

#[test]
fn keys_that_openssl_writes_are_read() {
    for (name, algorithm) in [
        ("ed25519", Algorithm::Ed25519),
        ("p256-pkcs8", Algorithm::EcdsaP256Sha256),
        ("p256-sec1", Algorithm::EcdsaP256Sha256),
        ("p256-sec1-with-parameters", Algorithm::EcdsaP256Sha256),
    ] {
        let key = SigningKey::from_pem(&pem(name), "k", None).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(key.algorithm(), algorithm, "{name}");
    }
    let public = |name| SigningKey::from_pem(&pem(name), "k", None).unwrap().public_jwk();
    assert_eq!(public("p256-pkcs8"), public("p256-sec1-with-parameters"));
}

#[test]
fn keys_of_no_use_here_are_refused_with_their_reason() {
    for (name, error) in [
        ("ed25519-encrypted", KeyError::Encrypted),
        ("p256-sec1-encrypted", KeyError::LegacyEncryption),
        ("p256-sec1-without-public", KeyError::PublicMissing),
        ("p384-sec1", KeyError::Unsupported),
        ("p384-pkcs8", KeyError::Unsupported),
        ("x25519", KeyError::Unsupported),
        ("rsa-pkcs8", KeyError::Unsupported),
        ("rsa-pkcs1", KeyError::Unsupported),
    ] {
        assert_eq!(SigningKey::from_pem(&pem(name), "k", None).unwrap_err(), error, "{name}");
    }
    for text in [&b""[..], b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"{}"] {
        assert_eq!(SigningKey::from_pem(text, "k", None).unwrap_err(), KeyError::Pem);
    }
}

#[test]
fn a_damaged_pem_is_refused_and_never_panics() {
    for name in ["ed25519", "p256-pkcs8", "p256-sec1"] {
        let whole = pem(name);
        for end in 0..whole.len() - 1 {
            let cut = SigningKey::from_pem(&whole[..end], "k", None);
            // The last newline and dashes carry nothing.
            assert!(cut.is_err() || whole[..end].windows(9).any(|window| window == b"-----END "), "{name} {end}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let _ = SigningKey::from_pem(&changed, "k", None);
        }
    }
}

#[test]
fn an_expected_algorithm_must_be_that_of_the_key() {
    let other = Some(Algorithm::EcdsaP256Sha256);
    assert_eq!(SigningKey::from_pem(&pem("ed25519"), "k", other).unwrap_err(), KeyError::AlgorithmMismatch);
    assert!(SigningKey::from_pem(&pem("ed25519"), "k", Some(Algorithm::Ed25519)).is_ok());
}

#[test]
fn key_ids_are_printable_ascii() {
    for kid in ["", "ké", "k\n", "k\u{7f}", "k\0"] {
        assert_eq!(SigningKey::from_pem(&pem("ed25519"), kid, None).unwrap_err(), KeyError::Kid, "{kid:?}");
    }
    for kid in [" ", "~", "k\"1\\2"] {
        assert!(SigningKey::from_pem(&pem("ed25519"), kid, None).is_ok(), "{kid:?}");
    }
}

#[test]
fn a_private_jwk_must_agree_with_itself() {
    let document = read("signing.json");
    let (ed, es) = (private_jwk(&document, "ed"), private_jwk(&document, "es"));
    let with = |jwk: &Value, member: &str, value: Value| {
        let mut changed = jwk.clone();
        changed[member] = value;
        changed
    };
    for (jwk, error) in [
        (with(&ed, "alg", json!("ES256")), KeyError::AlgorithmMismatch),
        (with(&es, "alg", json!("ed25519")), KeyError::AlgorithmMismatch),
        (with(&ed, "alg", json!("none")), KeyError::AlgorithmMismatch),
        (with(&ed, "crv", json!("X25519")), KeyError::Unsupported),
        (with(&es, "crv", json!("P-384")), KeyError::Unsupported),
        (with(&ed, "adcp_use", json!("response-signing")), KeyError::Purpose),
        (with(&ed, "adcp_use", Value::Null), KeyError::Purpose),
        (with(&ed, "kid", json!("")), KeyError::Kid),
        (with(&ed, "kid", Value::Null), KeyError::Jwk),
        (with(&ed, "d", Value::Null), KeyError::Jwk),
        (with(&ed, "d", json!("AAAA")), KeyError::Coordinate("d")),
        (with(&ed, "d", json!(format!("{}=", text(&ed, "d")))), KeyError::Coordinate("d")),
        // One stray bit in the last character: the same bytes in a second spelling.
        (with(&ed, "d", json!(text(&ed, "d").replace("HyA", "HyB"))), KeyError::Coordinate("d")),
        (with(&ed, "x", es["x"].clone()), KeyError::Inconsistent),
        (with(&es, "x", ed["x"].clone()), KeyError::Inconsistent),
        (with(&es, "y", Value::Null), KeyError::Coordinate("y")),
        (with(&es, "d", json!("A".repeat(43))), KeyError::Inconsistent),
        (json!([]), KeyError::Jwk),
    ] {
        assert_eq!(refusal(&jwk), error, "{jwk}");
    }
    let accepted = [
        with(&ed, "alg", json!("ed25519")),
        with(&es, "alg", json!("ecdsa-p256-sha256")),
        with(&ed, "x", Value::Null),
        with(&ed, "adcp_use", json!("request-signing")),
    ];
    for jwk in accepted {
        let key = SigningKey::from_jwk(jwk.to_string().as_bytes()).unwrap();
        assert_eq!(key.public_jwk()["adcp_use"], jwk["adcp_use"]);
    }
}

#[test]
fn a_key_published_for_requests_stays_so() {
    let document = read("adcp/webhook-signing/keys.json");
    for jwk in cases(&document, "keys").iter().filter(|jwk| jwk["adcp_use"] != "response-signing") {
        let mut expected = jwk.clone();
        expected.as_object_mut().unwrap().retain(|member, _| !member.starts_with(['$', '_']));
        assert_eq!(corpus_key(jwk).public_jwk(), expected);
    }
}

#[test]
fn a_generated_key_comes_back_from_its_pem() {
    for algorithm in Algorithm::ALL {
        let (key, pem) = SigningKey::generate(algorithm, Some("mine"), &SystemRandom::new()).unwrap();
        let again = SigningKey::from_pem(pem.as_bytes(), "mine", Some(algorithm)).unwrap();
        assert_eq!(key.public_jwk(), again.public_jwk());
        assert_eq!(key.public_jwk()["adcp_use"], "webhook-signing");
        assert!(pem.lines().all(|line| line.len() <= 64));
        let another = SigningKey::generate(algorithm, Some("mine"), &SystemRandom::new()).unwrap().0;
        assert_ne!(key.public_jwk(), another.public_jwk());
    }
}

/// The example of RFC 8037, appendix A.3.
#[test]
fn a_key_without_a_name_is_named_by_its_thumbprint() {
    let jwk = json!({
        "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "x", "adcp_use": "webhook-signing",
        "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    let key = SigningKey::from_jwk(jwk.to_string().as_bytes()).unwrap();
    assert_eq!(key.public().thumbprint(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    for algorithm in Algorithm::ALL {
        let (key, _) = SigningKey::generate(algorithm, None, &SystemRandom::new()).unwrap();
        assert_eq!(key.kid(), key.public().thumbprint());
        assert_eq!(key.kid().len(), 43);
    }
}

#[test]
fn neither_a_key_nor_its_errors_show_private_bytes() {
    let document = read("signing.json");
    let key = signing_key(&document, "ed", "wire-ed25519-1");
    assert_eq!(format!("{key:?}"), "SigningKey { kid: \"wire-ed25519-1\", algorithm: Ed25519, .. }");
    let broken = r#"{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":7,"d":"AQIDBAUGBwgJCgsMDQ4PEBES"}"#;
    let error = SigningKey::from_jwk(broken.as_bytes()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("AQID"));
}

const PASSPHRASE: &[u8] = b"correct horse battery staple";

fn opened(name: &str, passphrase: Option<&[u8]>) -> Result<SigningKey, KeyError> {
    SigningKey::read(&pem(name), Some("k"), passphrase)
}

#[test]
fn keys_that_openssl_and_cryptography_encrypt_are_opened_by_their_passphrase() {
    for (name, plain) in [
        ("ed25519-pbkdf2", "ed25519"),
        ("ed25519-scrypt", "ed25519"),
        ("ed25519-cryptography", "ed25519"),
        ("p256-pbkdf2-sha512", "p256-pkcs8"),
        ("p256-scrypt", "p256-pkcs8"),
    ] {
        let key = opened(name, Some(PASSPHRASE)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(key.public_jwk(), opened(plain, None).unwrap().public_jwk(), "{name}");
        assert_eq!(opened(name, None).unwrap_err(), KeyError::Encrypted, "{name}");
    }
}

#[test]
fn a_wrong_passphrase_is_one_error_however_the_bytes_come_out() {
    // By one chance in 256 the padding looks right, and the key does not.
    for n in 0..600 {
        let wrong = format!("wrong {n}");
        assert_eq!(opened("ed25519-pbkdf2", Some(wrong.as_bytes())).unwrap_err(), KeyError::Passphrase, "{wrong}");
    }
    for wrong in [&b""[..], b"correct horse battery staple\n", b"\xff\0"] {
        assert_eq!(opened("ed25519-scrypt", Some(wrong)).unwrap_err(), KeyError::Passphrase);
    }
}

#[test]
fn what_cannot_or_should_not_be_opened_says_so() {
    for (name, error) in [
        ("p256-sec1-encrypted", KeyError::LegacyEncryption),
        ("ed25519-pbes1", KeyError::EncryptionUnsupported),
        ("ed25519-pbkdf2-3des", KeyError::EncryptionUnsupported),
        ("ed25519-pbkdf2-sha1", KeyError::EncryptionUnsupported),
        ("ed25519-pbkdf2-absurd", KeyError::EncryptionCost),
        ("rsa-pbkdf2", KeyError::Unsupported),
        ("ed25519", KeyError::NotEncrypted),
        ("p256-sec1", KeyError::NotEncrypted),
    ] {
        assert_eq!(opened(name, Some(PASSPHRASE)).unwrap_err(), error, "{name}");
    }
    let jwk = private_jwk(&read("signing.json"), "ed").to_string();
    assert_eq!(SigningKey::read(jwk.as_bytes(), None, Some(PASSPHRASE)).unwrap_err(), KeyError::NotEncrypted);
}

/// r = 127 in place of 8, and p = 127 in place of 1: 254 MiB once, and 16 MiB over and over.
#[test]
fn scrypt_that_wants_too_much_memory_or_time_is_not_begun() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let text = String::from_utf8(pem("ed25519-scrypt")).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    let costs = [0x02, 0x02, 0x40, 0x00, 0x02, 0x01, 0x08, 0x02, 0x01, 0x01];
    let at = der.windows(costs.len()).position(|window| window == costs).unwrap();
    for changed in [at + 6, at + 9] {
        let mut der = der.clone();
        der[changed] = 127;
        let pem = format!(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY-----\n",
            STANDARD.encode(&der)
        );
        let error = SigningKey::read(pem.as_bytes(), Some("k"), Some(PASSPHRASE)).unwrap_err();
        assert_eq!(error, KeyError::EncryptionCost);
    }
}

#[test]
fn a_damaged_encrypted_key_is_refused_and_never_panics() {
    let whole = pem("ed25519-pbkdf2");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let _ = SigningKey::read(&changed, Some("k"), Some(PASSPHRASE));
    }
    for end in 0..whole.len() - 40 {
        assert!(SigningKey::read(&whole[..end], Some("k"), Some(PASSPHRASE)).is_err(), "{end}");
    }
}

#[test]
fn a_file_names_its_key_or_is_named() {
    let jwk = private_jwk(&read("signing.json"), "ed").to_string();
    assert_eq!(SigningKey::read(jwk.as_bytes(), None, None).unwrap().kid(), "wire-ed25519-1");
    assert!(SigningKey::read(jwk.as_bytes(), Some("wire-ed25519-1"), None).is_ok());
    assert_eq!(SigningKey::read(jwk.as_bytes(), Some("other"), None).unwrap_err(), KeyError::KidDiffers);
    assert_eq!(SigningKey::read(&pem("ed25519"), None, None).unwrap_err(), KeyError::KidMissing);
}
