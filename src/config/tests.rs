//! Every bad setting is refused with one sentence that names the key and what it takes; no secret is in any of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

fn sources(file: Option<&Path>, environment: &[(&str, &str)], sets: &[&str]) -> Sources {
    Sources {
        file: file.map(Path::to_owned),
        sets: sets.iter().map(ToString::to_string).collect(),
        environment: environment
            .iter()
            .map(|(name, value)| (name.to_string(), Secret::from(value.to_string())))
            .collect(),
    }
}

fn load(file: &str, environment: &[(&str, &str)], sets: &[&str]) -> Result<Config, String> {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file).unwrap();
    Config::load(&sources(Some(path.path()), environment, sets)).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_fit_together() {
    let config = Config::load(&Sources::default()).unwrap();
    assert_eq!(config.settings.outbox.table, "adcp_task_webhook_outbox");
    assert_eq!(config.settings.retry.cap, Duration::from_secs(900));
    assert_eq!(config.settings.compat.policy, CompatPolicy::Default);
}

#[test]
fn a_later_layer_overrides_an_earlier_one_key_by_key() {
    let file = "[delivery]\nslots = 10\nclaim_batch = 20\nper_destination = 30\n";
    let environment = [("OUTBOXD_DELIVERY__CLAIM_BATCH", "21"), ("OUTBOXD_DELIVERY__PER_DESTINATION", "31")];
    let delivery = load(file, &environment, &["delivery.per_destination=32"]).unwrap().settings.delivery;
    assert_eq!((delivery.slots, delivery.claim_batch, delivery.per_destination), (10, 21, 32));
    assert_eq!(delivery.lease, Duration::from_secs(60));
}

#[test]
fn lists_come_through_the_environment_and_flags() {
    let environment = [("OUTBOXD_EGRESS__ALLOW", r#"["10.0.0.0/8", "127.0.0.1/32"]"#)];
    let egress = load("", &environment, &["egress.ports=[443, 8443]"]).unwrap().settings.egress;
    assert_eq!(egress.allow.len(), 2);
    assert_eq!(egress.ports, [443, 8443]);
}

#[test]
fn a_quoted_value_with_a_backslash_is_taken_whole_or_refused_by_its_name() {
    let table = |value: &str| load("", &[("OUTBOXD_OUTBOX__TABLE", value)], &[]);
    let error = table(r#""\u00e9é\n""#).unwrap_err();
    assert!(error.contains("OUTBOXD_OUTBOX__TABLE") && error.contains("must be ASCII"), "{error}");
    let error = load("", &[], &[r#"log.filter=["Н\\"#]).unwrap_err();
    assert!(error.contains("--set log.filter") && error.contains("must be ASCII"), "{error}");
    let filter = |value: &str| load("", &[], &[&format!("log.filter={value}")]).unwrap().settings.log.filter;
    assert_eq!(filter(r#""\u00e9""#), "é");
    assert_eq!(filter(r#""é""#), "é");
    assert_eq!(filter(r"é\"), r"é\");
}

#[test]
fn what_is_nested_without_an_end_is_refused_by_its_name_before_it_is_read() {
    let (lists, tables, names) = ("[".repeat(20_000), "{a=".repeat(20_000), "a.".repeat(20_000));
    for value in [&lists, &tables] {
        let error = load("", &[("OUTBOXD_EGRESS__DENY", value)], &[]).unwrap_err();
        assert!(error.contains("OUTBOXD_EGRESS__DENY") && error.contains("at most 128 brackets"), "{error}");
        let error = load("", &[], &[&format!("egress.deny={value}")]).unwrap_err();
        assert!(error.contains("--set egress.deny") && error.contains("at most 128 brackets"), "{error}");
    }
    let variable = format!("OUTBOXD_{}A", "A__".repeat(20_000));
    for error in [
        load("", &[], &[&format!("{names}a=1")]).unwrap_err(),
        load("", &[(&variable, "1")], &[]).unwrap_err(),
        load(&format!("{names}a = 1\n"), &[], &[]).unwrap_err(),
        load(&format!("[egress]\ndeny = {lists}\n"), &[], &[]).unwrap_err(),
    ] {
        assert!(error.len() < 300, "{error}");
    }
    let addresses = vec!["\"[2001:db8::1]:53\""; 60].join(",");
    let config = load("", &[], &[&format!("egress.dns_servers=[{addresses}]")]).unwrap();
    assert_eq!(config.settings.egress.dns_servers.len(), 60);
}

#[test]
fn the_sealing_listener_is_a_socket_file_or_a_loopback_address_with_a_token() {
    let listen = |file: &str| load(file, &[], &[]).unwrap().settings.sealing.listen;
    assert_eq!(listen(""), None);
    let unix = listen("[sealing]\nlisten = \"unix:/run/outboxd/seal.sock\"\n");
    assert_eq!(unix, Some(SealingAddress::Unix("/run/outboxd/seal.sock".into())));
    for address in ["127.0.0.1:9465", "127.8.0.1:1", "[::1]:9465"] {
        let tcp = listen(&format!("[sealing]\nlisten = \"{address}\"\ntoken_file = \"token\"\n"));
        assert_eq!(tcp, Some(SealingAddress::Tcp(address.parse().unwrap())));
    }
}

#[test]
fn moments_are_written_as_text_or_as_toml_has_them() {
    let second = "[[signing.keys]]\nkey_file = \"b\"\nnot_before = \"2026-12-01T00:00:00Z\"\nnot_after = \"\"\n";
    let file = format!("[[signing.keys]]\nkey_file = \"a\"\nnot_after = 2026-12-01T00:00:00Z\n{second}");
    let keys = load(&file, &[], &[]).unwrap().settings.signing.keys;
    assert_eq!(keys[0].not_after, keys[1].not_before);
    assert!(keys[0].not_after.is_some() && keys[0].not_before.is_none() && keys[1].not_after.is_none());
    let environment = [("OUTBOXD_SIGNING__KEYS", "[{key_file=\"a\", not_after=\"2026-12-01T00:00:00Z\"}]")];
    assert_eq!(load("", &environment, &[]).unwrap().settings.signing.keys[0].not_after, keys[0].not_after);
}

/// (file, environment, flag, words that the message must have)
type Refusal<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);

const TWO: &str =
    "[[outboxes]]\nname = \"a\"\nurl = \"host=a\"\n[[outboxes]]\nname = \"b\"\nurl = \"host=b\"\nweight = 3\n";
const TWO_ALIKE: &str = "[[outboxes]]\nname = \"a\"\n[[outboxes]]\nname = \"a\"\n";
const TWO_IN_ONE_PLACE: &str =
    "[[outboxes]]\nname = \"a\"\nurl = \"host=a\"\n[[outboxes]]\nname = \"b\"\nurl = \"host=a\"\n";

#[test]
fn each_bad_setting_is_refused_by_a_sentence_that_names_it() {
    let table: &[Refusal<'_>] = &[
        ("[delivery]\nslotz = 1\n", &[], &[], &["delivery", "unknown key `slotz`", "slots"]),
        ("[delivvery]\nslots = 1\n", &[], &[], &["unknown key `delivvery`", "delivery"]),
        ("", &[("OUTBOXD_DELIVERY__SLOTZ", "1")], &[], &["unknown key `slotz`"]),
        ("", &[("OUTBOXD_DELIVERY_SLOTS", "1")], &[], &["OUTBOXD_DELIVERY_SLOTS", "OUTBOXD_DELIVERY__SLOTS"]),
        ("", &[], &["delivery.slotz=1"], &["unknown key `slotz`"]),
        ("", &[], &["delivery.slots"], &["--set delivery.slots", "section.key=value"]),
        ("[delivery\n", &[], &[], &["TOML", "line 1, column 10", "invalid table header"]),
        ("[delivery]\nslots = \"many\"\n", &[], &[], &["delivery.slots", "many"]),
        ("[delivery]\nslots = 0\n", &[], &[], &["delivery.slots", "is 0", "1 to 10000"]),
        (
            "[delivery]\naccount_share = 1.5\n",
            &[],
            &[],
            &["delivery.account_share", "is 1.5", "0 for none, or 0.01 to 1"],
        ),
        ("[delivery]\naccount_share = nan\n", &[], &[], &["delivery.account_share", "0.01 to 1"]),
        ("", &[("OUTBOXD_DELIVERY__ACCOUNT_SHARE", "0.001")], &[], &["delivery.account_share", "is 0.001"]),
        ("[delivery]\nlease = \"14s\"\n", &[], &[], &["delivery.lease", "14s", "at least 15s"]),
        ("[delivery]\nlease = \"soon\"\n", &[], &[], &["delivery.lease", "soon", "\"10s\""]),
        ("[egress]\nattempt_timeout = \"56s\"\n", &[], &[], &["delivery.lease", "at least 1m 1s"]),
        ("[database]\npool_size = 3\n", &[], &[], &["database.pool_size", "is 3", "4 to 1000"]),
        ("[egress]\nallow = [\"10.0.0.0/40\"]\n", &[], &[], &["egress.allow"]),
        ("[admin]\nlisten = \"9464\"\n", &[], &[], &["admin.listen", "127.0.0.1:9464"]),
        ("[sealing]\nlisten = \"/run/seal.sock\"\n", &[], &[], &["sealing.listen", "unix:", "127.0.0.1:9465"]),
        ("[sealing]\nlisten = \"unix:\"\n", &[], &[], &["sealing.listen", "0 bytes", "1 to 100 bytes"]),
        ("[sealing]\nlisten = \"0.0.0.0:9465\"\ntoken_file = \"t\"\n", &[], &[], &["sealing.listen", "other machines"]),
        ("[sealing]\nlisten = \"[::1]:9465\"\n", &[], &[], &["sealing.token_file", "not set"]),
        ("[compat]\npolicy = \"python\"\n", &[], &[], &["compat.policy", "python", "sdk"]),
        ("[log]\nformat = \"xml\"\n", &[], &[], &["log.format", "xml", "json"]),
        ("[retry]\ncap = \"100ms\"\n", &[], &[], &["retry.cap", "1s to 7days"]),
        ("[outbox]\ntable = \"Orders\"\n", &[], &[], &["outbox.table", "1 to 45 of a-z, 0-9 and _"]),
        ("[database]\nsslmode = \"maybe\"\n", &[], &[], &["sslmode", "verify-full"]),
        ("[signing]\nkey_file = \"a\"\nscopes_dir = \"b\"\n", &[], &[], &["signing.key_file", "exactly one"]),
        (
            "[signing]\nkey_file = \"a\"\n[[signing.keys]]\nkey_file = \"b\"\n",
            &[],
            &[],
            &["signing.key_file", "signing.keys", "exactly one"],
        ),
        (
            "[signing]\nscopes_dir = \"a\"\n[[signing.keys]]\nkey_file = \"b\"\n",
            &[],
            &[],
            &["signing.keys", "signing.scopes_dir", "exactly one"],
        ),
        ("[jwks]\nlisten = \"9466\"\n", &[], &[], &["jwks.listen", "127.0.0.1:8443", "unix:/path"]),
        ("[signing]\nkey_id = \"a\"\n", &[], &[], &["signing.key_id", "without signing.key_file"]),
        ("[signing]\npassphrase_file = \"a\"\n", &[], &[], &["signing.passphrase_file", "without signing.key_file"]),
        ("[[signing.keys]]\nkey_id = \"a\"\n", &[], &[], &["signing.keys", "key_file"]),
        ("[[signing.keys]]\nkey_file = \"\"\n", &[], &[], &["signing.keys", "entry 1", "key_file"]),
        ("[[signing.keys]]\nkey_file = \"a\"\nnot_befor = 1\n", &[], &[], &["signing.keys", "unknown key `not_befor`"]),
        (
            "[[signing.keys]]\nkey_file = \"a\"\nnot_after = \"2026-12-01\"\n",
            &[],
            &[],
            &["signing.keys", "not_after", "2026-12-01T00:00:00Z"],
        ),
        (
            "[[signing.keys]]\nkey_file = \"a\"\nnot_after = 2026-12-01T00:00:00+02:00\n",
            &[],
            &[],
            &["signing.keys", "not_after", "not a moment in UTC"],
        ),
        ("[signing]\ndefault_scope = \"a\"\n", &[], &[], &["signing.default_scope", "scopes_dir"]),
        ("[[outboxes]]\nname = \"a\"\n", &[], &[], &["outboxes.url", "is not set", "OUTBOXD_OUTBOXES__<NAME>__URL"]),
        ("[[outboxes]]\nurl = \"host=a\"\n", &[], &[], &["outboxes", "missing field `name`"]),
        ("[[outboxes]]\nname = \"A\"\n", &[], &[], &["outboxes", "\"A\" in entry 1", "beginning with a letter"]),
        ("[[outboxes]]\nname = \"a\"\nslots = 1\n", &[], &[], &["outboxes", "unknown key `slots`", "weight"]),
        ("[[outboxes]]\nname = \"a\"\nweight = 0\n", &[], &[], &["outboxes", "weight 0 for \"a\"", "1 to 1000"]),
        ("[[outboxes]]\nname = \"a\"\npool_size = 2\n", &[], &[], &["outboxes", "pool_size 2", "4 to 1000"]),
        (TWO_ALIKE, &[], &[], &["outboxes", "two outboxes named \"a\""]),
        (TWO_IN_ONE_PLACE, &[], &[], &["outboxes", "the place of \"b\" twice", "another table"]),
        ("[[outboxes]]\nname = \"a\"\nurl = \"host=a\"\ntable = \"A\"\n", &[], &[], &["outboxes.table", "a-z"]),
        ("[[outboxes]]\nname = \"a\"\nsslmode = \"x\"\n", &[], &[], &["outboxes.sslmode", "verify-full"]),
        (
            "[database]\nurl = \"host=a\"\n[[outboxes]]\nname = \"a\"\n",
            &[],
            &[],
            &["outboxes", "together with database.url", "one of the two"],
        ),
        (
            "[[outboxes]]\nname = \"a\"\n",
            &[("OUTBOXD_DATABASE__PASSWORD", "x")],
            &[],
            &["outboxes", "together with database.password_file"],
        ),
        ("", &[("OUTBOXD_OUTBOXES__EU__URL", "host=a")], &[], &["outboxes", "no outbox named \"eu\""]),
        ("", &[("OUTBOXD_OUTBOXES__EU__TABLE", "a")], &[], &["OUTBOXD_OUTBOXES__EU__TABLE", "__PASSWORD"]),
        (TWO, &[], &["delivery.slots=3"], &["delivery.slots", "too few", "2 outboxes", "4 to 10000"]),
        (TWO, &[], &["delivery.per_destination=1"], &["delivery.per_destination", "2 to 10000"]),
    ];
    for (file, environment, sets, words) in table {
        let error = load(file, environment, sets)
            .and_then(|config| {
                config.tables().and_then(|_| config.outboxes()).map(|_| ()).map_err(|error| error.to_string())
            })
            .expect_err(file);
        for word in *words {
            assert!(error.contains(word), "{file:?} {environment:?} {sets:?}: {error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_password_in_a_file_or_flag_is_refused_without_being_shown() {
    for url in [
        "postgresql://app:hush-1@db/app",
        "postgresql://app:hush-1@/app?host=/run/postgresql",
        "host=db password=hush-1",
        "host=db password = hush-1",
        "postgresql://db/app?password=hush-1",
    ] {
        let file = format!("[database]\nurl = \"{url}\"\n");
        let error = load(&file, &[], &[]).unwrap_err();
        assert!(error.contains("database.url") && error.contains("password_file"), "{error}");
        assert!(!error.contains("hush-1"), "{error}");
        let error = load("", &[], &[&format!("database.url={url}")]).unwrap_err();
        assert!(error.contains("password_file") && !error.contains("hush-1"), "{error}");
    }
}

#[test]
fn a_password_in_the_url_of_a_listed_outbox_is_refused_without_being_shown() {
    let entry = "name = \"a\", url = \"postgresql://app:hush-1@db/app\"";
    let file = format!("outboxes = [{{{entry}}}]\n");
    let flag = format!("outboxes=[{{{entry}}}]");
    let variable = [("OUTBOXD_OUTBOXES", flag.split_once('=').unwrap().1)];
    for error in [load(&file, &[], &[]), load("", &[], &[&flag]), load("", &variable, &[])] {
        let error = error.unwrap_err();
        assert!(error.contains("outboxes.url holds a password") && !error.contains("hush-1"), "{error}");
    }
}

#[test]
fn each_outbox_has_what_it_is_given_and_the_rest_of_the_usual() {
    let file = "[database]\npool_size = 9\nsslmode = \"disable\"\n[outbox]\ntable = \"usual\"\n[[outboxes]]\nname = \"eu\"\n\
                url = \"host=a\"\ntable = \"own\"\npool_size = 5\n[[outboxes]]\nname = \"us_1\"\nweight = 3\n";
    let environment = [("OUTBOXD_OUTBOXES__US_1__URL", "host=hush-1"), ("OUTBOXD_OUTBOXES__EU__PASSWORD", "hush-2")];
    let config = load(file, &environment, &[]).unwrap();
    assert!(!format!("{config:?}").contains("hush"));
    let outboxes = config.outboxes().unwrap();
    let told = |one: &OutboxConfig| (one.name.as_deref().map(str::to_owned), one.weight, one.store.table.to_string());
    assert_eq!(told(&outboxes[0]), (Some("eu".into()), 1, "own".into()));
    assert_eq!(told(&outboxes[1]), (Some("us_1".into()), 3, "usual".into()));
    assert_eq!((outboxes[0].store.pool_size, outboxes[1].store.pool_size), (5, 9));
    assert_eq!(outboxes[0].store.password.as_ref().unwrap().expose(), b"hush-2");
    assert_eq!((outboxes[1].store.url.expose(), outboxes[1].store.password.is_none()), (&b"host=hush-1"[..], true));
    assert!(outboxes.iter().all(|one| one.store.sslmode.is_some()));
    assert!(config.store().unwrap_err().to_string().contains("outboxes is set"));
    assert!(config.outbox_named("eu").is_some() && config.outbox_named("asia").is_none());
    let single = load("[database]\nurl = \"host=a\"\n", &[], &[]).unwrap();
    assert_eq!((single.outbox_names(), single.outboxes().unwrap()[0].weight), (vec![None], 1));
}

#[test]
fn a_secret_in_the_place_of_a_table_or_a_list_is_not_shown() {
    for (file, key) in [
        ("database = \"postgresql://app:hush-1@db/app\"\n", "database"),
        ("[database]\npool_size = \"postgresql://app:hush-1@db/app\"\n", "database.pool_size"),
        ("[envelope]\nkey_files = \"hush-10123456789abcdef\"\n", "envelope.key_files"),
    ] {
        let error = load(file, &[], &[]).unwrap_err();
        assert!(error.contains(key) && error.contains("found a string of") && !error.contains("hush"), "{error}");
    }
}

#[test]
fn a_line_that_does_not_parse_is_not_quoted() {
    let error = load("[database]\npassword = hush-1\n", &[], &[]).unwrap_err();
    assert!(error.contains("line 2") && !error.contains("hush-1"), "{error}");
}

#[test]
fn secrets_of_the_environment_are_kept_apart_and_unprinted() {
    let environment =
        [("OUTBOXD_DATABASE__URL", "postgresql://app:hush-1@db/app"), ("OUTBOXD_ENVELOPE__KEYS", "hush-2")];
    let config = load("", &environment, &[]).unwrap();
    assert_eq!(config.secrets.envelope_keys.as_ref().unwrap().expose(), b"hush-2");
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn variables_that_are_no_text_are_left_alone_or_refused_by_name() {
    let odd = || OsString::from_vec(b"hush-\xff".to_vec());
    let of =
        |name: &str| Sources { environment: Sources::ours([(name.into(), odd())].into_iter()), ..Sources::default() };
    assert!(Config::load(&of("LS_COLORS")).is_ok());
    let error = Config::load(&of("OUTBOXD_DELIVERY__SLOTS")).unwrap_err().to_string();
    assert!(error.contains("OUTBOXD_DELIVERY__SLOTS is not UTF-8") && !error.contains("hush"), "{error}");
    let key = Config::load(&of("OUTBOXD_ENVELOPE__KEYS")).unwrap().secrets.envelope_keys;
    assert_eq!(key.unwrap().expose(), b"hush-\xff", "a raw key is any bytes");
}

#[test]
fn other_variables_with_the_prefix_are_left_alone() {
    assert!(load("", &[("OUTBOXD_CONFIG", "x"), ("OUTBOXD_TEST_PYTHON", "y"), ("PATH", "z")], &[]).is_ok());
}

#[test]
fn every_section_and_key_of_the_defaults_is_explained() {
    let mut explained = false;
    for line in DEFAULTS.lines() {
        match line.trim() {
            comment if comment.starts_with('#') => explained = true,
            "" => explained = false,
            section if section.starts_with('[') => explained = true,
            key => {
                // A key without a comment of its own stands right under one that speaks for it.
                assert!(explained, "{key} has no explanation above it");
            }
        }
    }
}

#[test]
fn an_accounts_share_is_a_part_of_the_slots_and_never_less_than_one() {
    for (slots, share, rows) in
        [("256", "0", None), ("256", "0.25", Some(64)), ("10", "1", Some(10)), ("10", "0.01", Some(1))]
    {
        let sets = [format!("delivery.slots={slots}"), format!("delivery.account_share={share}")];
        let delivery = load("", &[], &sets.each_ref().map(String::as_str)).unwrap().settings.delivery;
        assert_eq!(delivery.account_rows(), rows, "{share} of {slots}");
    }
}
