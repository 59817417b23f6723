use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::scope::{file_name, is_scope};
use super::*;
use crate::secret::SecretFileError;
use crate::signature::{Algorithm, KeyError};

const SCOPE: &str = "tenant:alpha/1";
const FILE: &str = "tenant%3Aalpha%2F1.json";
const BOTH: [&str; 2] = ["ed25519", "ecdsa-p256-sha256"];
const PASSPHRASE: &str = "correct horse battery staple";
const D: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA";

fn jwk(kid: &str) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": kid, "adcp_use": "webhook-signing", "d": D})
}

fn entry(kid: &str) -> Value {
    json!({"scope": SCOPE, "algorithms": ["ed25519"], "jwk": jwk(kid)})
}

fn pem(name: &str) -> String {
    let path = format!("{}/tests/vectors/keys/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn write(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o640)).unwrap();
}

struct Fixture {
    dir: TempDir,
    provider: Provider,
}

impl Fixture {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let provider = Provider::Scopes(ScopeDirectory::new(dir.path(), None, Arc::default()));
        Fixture { dir, provider }
    }

    fn holding(content: &Value) -> Self {
        let fixture = Fixture::new();
        fixture.put(FILE, &content.to_string());
        fixture
    }

    fn put(&self, name: &str, content: &str) {
        write(&self.dir.path().join(name), content);
    }

    async fn resolve(&self) -> Result<Signer, ResolveError> {
        self.provider.resolve(0, Some(SCOPE)).await
    }

    async fn fault(&self) -> ResolveError {
        self.resolve().await.unwrap_err()
    }
}

fn fixed(advertised: Algorithms) -> Provider {
    let key = SigningKey::from_jwk(jwk("fixed").to_string().as_bytes()).unwrap();
    Provider::Fixed { keys: SigningKeys::single(key), advertised }
}

#[tokio::test]
async fn a_fixed_key_serves_rows_without_a_scope_only() {
    let provider = fixed(Algorithms::all());
    assert_eq!(provider.resolve(0, None).await.unwrap().key.kid(), "fixed");
    assert_eq!(provider.resolve(0, Some(SCOPE)).await.unwrap_err(), ResolveError::ScopeUnexpected);
}

#[tokio::test]
async fn a_key_of_an_algorithm_that_is_not_advertised_signs_nothing() {
    let p256: Algorithms = [Algorithm::EcdsaP256Sha256].into_iter().collect();
    assert_eq!(fixed(p256).resolve(0, None).await.unwrap_err(), ResolveError::AlgorithmNotAdvertised);
    let fixture = Fixture::holding(&json!({"scope": SCOPE, "algorithms": ["ecdsa-p256-sha256"], "jwk": jwk("k")}));
    assert_eq!(fixture.fault().await, ResolveError::AlgorithmNotAdvertised);
}

#[tokio::test]
async fn a_scope_is_served_by_the_file_that_is_there_at_the_moment() {
    let fixture = Fixture::new();
    assert_eq!(fixture.fault().await, ResolveError::Unknown);
    fixture.put(FILE, &entry("first").to_string());
    let first = fixture.resolve().await.unwrap();
    assert_eq!(first.key.kid(), "first");
    assert!(Arc::ptr_eq(&first.key, &fixture.resolve().await.unwrap().key), "unchanged bytes are parsed once");
    fixture.put(FILE, &entry("second").to_string());
    assert_eq!(fixture.resolve().await.unwrap().key.kid(), "second");
    fixture.put(FILE, &json!({"scope": SCOPE, "decommissioned": true}).to_string());
    assert_eq!(fixture.fault().await, ResolveError::Decommissioned);
    std::fs::remove_file(fixture.dir.path().join(FILE)).unwrap();
    assert_eq!(fixture.fault().await, ResolveError::Unknown);
}

#[tokio::test]
async fn a_key_file_beside_the_scope_file_is_read_anew_too() {
    let content = |kid: &str| json!({"scope": SCOPE, "algorithms": BOTH, "key_file": "alpha.pem", "key_id": kid});
    let fixture = Fixture::holding(&content("k"));
    let absent = ScopeFault::KeyFile(SecretFileError::Unreadable(std::io::ErrorKind::NotFound));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(absent));
    fixture.put("alpha.pem", &pem("ed25519"));
    assert_eq!(fixture.resolve().await.unwrap().key.algorithm(), Algorithm::Ed25519);
    fixture.put("alpha.pem", &pem("p256-sec1"));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::KeyChanged));
    fixture.put(FILE, &content("k-2").to_string());
    let key = fixture.resolve().await.unwrap().key;
    assert_eq!((key.algorithm(), key.kid()), (Algorithm::EcdsaP256Sha256, "k-2"));
}

#[tokio::test]
async fn a_row_without_a_scope_needs_a_default() {
    let fixture = Fixture::holding(&entry("k"));
    assert_eq!(fixture.provider.resolve(0, None).await.unwrap_err(), ResolveError::ScopeRequired);
    let provider = Provider::Scopes(ScopeDirectory::new(fixture.dir.path(), Some(SCOPE.to_owned()), Arc::default()));
    assert_eq!(provider.resolve(0, None).await.unwrap().key.kid(), "k");
    assert_eq!(provider.resolve(0, Some("tenant:beta")).await.unwrap_err(), ResolveError::Unknown);
}

#[tokio::test]
async fn faulty_files_make_a_scope_unavailable_for_a_reason() {
    let with = |member: &str, value: Value| {
        let mut content = entry("k");
        content[member] = value;
        content.to_string()
    };
    let mut other_use = entry("k");
    other_use["jwk"]["adcp_use"] = json!("response-signing");
    for (content, fault) in [
        ("{".to_owned(), ScopeFault::Malformed),
        ("[]".to_owned(), ScopeFault::Malformed),
        (with("surprise", json!(1)), ScopeFault::Malformed),
        (with("algorithms", json!(["rsa"])), ScopeFault::Malformed),
        (format!("{{\"scope\":\"{SCOPE}\",{}", &entry("k").to_string()[1..]), ScopeFault::Malformed),
        (with("scope", json!("tenant:alpha")), ScopeFault::OtherScope),
        (with("algorithms", json!([])), ScopeFault::Incomplete),
        (with("algorithms", Value::Null), ScopeFault::Incomplete),
        (with("jwk", Value::Null), ScopeFault::Incomplete),
        (with("key_id", json!("k")), ScopeFault::Incomplete),
        (other_use.to_string(), ScopeFault::Key(KeyError::Purpose)),
        (" ".repeat(65_537), ScopeFault::File(SecretFileError::TooLarge)),
    ] {
        let fixture = Fixture::new();
        fixture.put(FILE, &content);
        let error = fixture.fault().await;
        assert_eq!(error, ResolveError::Unavailable(fault));
        assert!(!error.to_string().contains(&D[..6]) && !error.to_string().contains("alpha"), "{error}");
    }
}

#[tokio::test]
async fn a_tombstone_of_another_scope_decommissions_nothing() {
    let fixture = Fixture::holding(&json!({"scope": "tenant:beta", "decommissioned": true}));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::OtherScope));
}

#[tokio::test]
async fn a_file_that_others_can_read_is_not_trusted() {
    let fixture = Fixture::holding(&entry("k"));
    let path = fixture.dir.path().join(FILE);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let fault = ScopeFault::File(SecretFileError::OpenToOthers(0o644));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(fault));
}

#[tokio::test]
async fn a_missing_directory_is_not_mistaken_for_unknown_scopes() {
    let dir = TempDir::new().unwrap();
    let provider = Provider::Scopes(ScopeDirectory::new(dir.path().join("unmounted"), None, Arc::default()));
    let error = provider.resolve(0, Some(SCOPE)).await.unwrap_err();
    assert_eq!(error, ResolveError::Unavailable(ScopeFault::NoDirectory));
}

#[tokio::test]
async fn a_text_that_is_no_scope_is_malformed_before_any_file_is_touched() {
    let fixture = Fixture::new();
    let error = fixture.provider.resolve(0, Some("a\nb")).await.unwrap_err();
    assert_eq!(error, ResolveError::ScopeMalformed);
}

#[test]
fn scopes_are_what_python_calls_printable() {
    for text in ["a", "tenant:alpha/1", "a b", "é", "日本", "😀", "../../etc", "~", &"x".repeat(255)] {
        assert!(is_scope(text), "{text:?}");
    }
    for text in ["", "\t", "a\u{7f}", "\u{85}", "\u{a0}", "\u{ad}", "\u{200b}", "\u{2028}", "\u{2029}", "\u{3000}"] {
        assert!(!is_scope(text), "{text:?}");
    }
    for text in ["\u{e000}", "\u{378}", "\u{feff}", &"x".repeat(256), &"é".repeat(128)] {
        assert!(!is_scope(text), "{text:?}");
    }
}

#[test]
fn no_scope_names_a_file_outside_the_directory() {
    assert_eq!(file_name(SCOPE), FILE);
    assert_eq!(file_name("../x"), "..%2Fx.json");
    assert_eq!(file_name("é %"), "%C3%A9%20%25.json");
    assert_eq!(file_name("A-z_0.~"), "A-z_0.~.json");
    assert_eq!(file_name(&"x".repeat(235)), format!("{}.json", "x".repeat(235)));
    let hashed = file_name(&"x".repeat(236));
    assert!(hashed.starts_with("sha256-") && hashed.len() == 7 + 64 + 5, "{hashed}");
    assert_ne!(hashed, file_name(&"x".repeat(237)));
}

/// Moments around now, far enough that no test is slow enough to reach one.
fn in_hours(hours: i64) -> String {
    let distance = std::time::Duration::from_secs(hours.unsigned_abs() * 3600);
    let moment = if hours < 0 { SystemTime::now() - distance } else { SystemTime::now() + distance };
    humantime::format_rfc3339(moment).to_string()
}

fn scope_with(keys: Value) -> Value {
    json!({"scope": SCOPE, "algorithms": BOTH, "keys": keys})
}

#[tokio::test]
async fn of_the_keys_of_a_scope_the_newest_whose_window_holds_signs() {
    let fixture = Fixture::holding(&scope_with(json!([
        {"jwk": jwk("next"), "not_before": in_hours(2)},
        {"jwk": jwk("now"), "not_before": in_hours(-2)},
        {"jwk": jwk("old"), "not_after": in_hours(1)},
    ])));
    assert_eq!(fixture.resolve().await.unwrap().key.kid(), "now");
    fixture.put(FILE, &scope_with(json!([{"jwk": jwk("next"), "not_before": in_hours(2)}])).to_string());
    assert_eq!(fixture.fault().await, ResolveError::OutsideWindows);
    fixture.put(FILE, &scope_with(json!([{"jwk": jwk("old"), "not_after": in_hours(-2)}])).to_string());
    assert_eq!(fixture.fault().await, ResolveError::OutsideWindows);
}

#[tokio::test]
async fn encrypted_key_files_of_a_scope_are_opened_by_the_passphrase_beside_them() {
    let entry = |passphrase: Option<&str>| json!({"scope": SCOPE, "algorithms": BOTH, "key_file": "a.pem", "key_id": "k", "passphrase_file": passphrase});
    let fixture = Fixture::holding(&entry(Some("a.txt")));
    fixture.put("a.pem", &pem("ed25519-scrypt"));
    let absent = ScopeFault::PassphraseFile(SecretFileError::Unreadable(std::io::ErrorKind::NotFound));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(absent));
    fixture.put("a.txt", "wrong");
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::Key(KeyError::Passphrase)));
    fixture.put("a.txt", &format!("{PASSPHRASE}\n"));
    assert_eq!(fixture.resolve().await.unwrap().key.kid(), "k");
    fixture.put(FILE, &entry(None).to_string());
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::Key(KeyError::Encrypted)));
}

#[tokio::test]
async fn a_scope_file_describes_one_key_or_lists_several() {
    let single = json!({"jwk": jwk("k"), "not_before": in_hours(-1)});
    for (content, fault) in [
        (json!({"keys": [single], "jwk": jwk("other")}), ScopeFault::Incomplete),
        (json!({"keys": [single], "key_id": "k"}), ScopeFault::Incomplete),
        (json!({"keys": [{"key_file": "a", "jwk": jwk("k")}]}), ScopeFault::Incomplete),
        (json!({"keys": [{"jwk": jwk("k"), "key_id": "k"}]}), ScopeFault::Incomplete),
        (json!({"keys": [{}]}), ScopeFault::Incomplete),
        (json!({"keys": []}), ScopeFault::Keys(keys::KeysError::Empty)),
        (json!({"keys": [single, {"jwk": jwk("k")}]}), ScopeFault::Keys(keys::KeysError::SameKid(1, 2))),
        (
            json!({"keys": [{"jwk": jwk("a")}, {"jwk": jwk("b")}]}),
            ScopeFault::Keys(keys::KeysError::SameBeginning(1, 2)),
        ),
        (json!({"keys": [{"jwk": jwk("k"), "not_before": "2026-12-01"}]}), ScopeFault::Malformed),
        (json!({"keys": [{"jwk": jwk("k"), "not_befor": in_hours(1)}]}), ScopeFault::Malformed),
        (json!({"jwk": jwk("k"), "not_before": in_hours(1)}), ScopeFault::Malformed),
    ] {
        let mut file = json!({"scope": SCOPE, "algorithms": BOTH});
        file.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        let fixture = Fixture::holding(&file);
        assert_eq!(fixture.fault().await, ResolveError::Unavailable(fault), "{content}");
    }
}

#[tokio::test]
async fn a_key_id_whose_key_changed_is_refused_for_as_long_as_the_process_lives() {
    let fixture = Fixture::new();
    let with = |kid: &str, d: &str| {
        let mut entry = entry(kid);
        entry["jwk"]["d"] = json!(d);
        entry.to_string()
    };
    let other = D.replace("AQID", "AQIE");
    fixture.put(FILE, &with("k", D));
    fixture.resolve().await.unwrap();
    fixture.put(FILE, &with("k", &other));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::KeyChanged));
    assert_eq!(fixture.fault().await, ResolveError::Unavailable(ScopeFault::KeyChanged), "remembered as it is");
    fixture.put(FILE, &with("k-2", &other));
    assert_eq!(fixture.resolve().await.unwrap().key.kid(), "k-2");
    fixture.put(FILE, &with("k", D));
    assert_eq!(fixture.resolve().await.unwrap().key.kid(), "k", "what it stood for from the first, it still does");
}

#[tokio::test]
async fn a_reload_forgets_no_key_id() {
    let dir = TempDir::new().unwrap();
    let known: Arc<KnownKids> = Arc::default();
    let open = || Provider::Scopes(ScopeDirectory::new(dir.path(), None, known.clone()));
    write(&dir.path().join(FILE), &entry("k").to_string());
    open().resolve(0, Some(SCOPE)).await.unwrap();
    let mut changed = entry("k");
    changed["jwk"]["d"] = json!(D.replace("AQID", "AQIE"));
    write(&dir.path().join(FILE), &changed.to_string());
    let error = open().resolve(0, Some(SCOPE)).await.unwrap_err();
    assert_eq!(error, ResolveError::Unavailable(ScopeFault::KeyChanged));
}

#[tokio::test]
async fn the_roster_lists_every_scope_and_every_file_at_fault() {
    let fixture = Fixture::holding(&entry("k"));
    fixture.put("beta.json", &json!({"scope": "beta", "algorithms": BOTH, "keys": [{"jwk": jwk("b")}]}).to_string());
    fixture.put("gone.json", &json!({"scope": "gone", "decommissioned": true}).to_string());
    fixture.put("half.json", "{\"scope\": \"ha");
    fixture.put("other.json", &entry("k").to_string());
    fixture.put("a.pem", "no scope file");
    let roster = fixture.provider.roster().await;
    let scopes: Vec<_> = roster.signers.iter().map(|(scope, _)| scope.as_deref().unwrap()).collect();
    assert_eq!(scopes, ["beta", SCOPE]);
    let faults = [("half.json", ScopeFault::Malformed), ("other.json", ScopeFault::OtherScope)];
    let faults = faults.map(|(name, fault)| (name.to_owned(), ResolveError::Unavailable(fault)));
    assert_eq!(roster.faults, faults);
    let fixed = fixed(Algorithms::all()).roster().await;
    assert_eq!((fixed.signers.len(), &fixed.signers[0].0, fixed.faults.len()), (1, &None, 0));
}
