//! The image and the try-out, without an engine that could run them: each step that they are made of is taken here, with the
//! files that they ship and the binary under test, and what judges a Dockerfile judges ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{getgid, getuid};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::cluster::{self, Database};
use crate::support::config::Config;
use crate::support::daemon::Daemon;
use crate::support::dns::{Dns, addresses};
use crate::support::eventually::eventually;
use crate::support::link::Link;
use crate::support::loopback::address_of_its_own;
use crate::support::manifests::{installed, read, root, yaml};
use crate::support::tool::{Done, outboxd, run};
use crate::support::world::World;

const BINARY: &str = env!("CARGO_BIN_EXE_outboxd");

async fn shell(script: &str, arguments: &[&str], environment: &[(&str, String)]) -> Done {
    let mut sh = Command::new("sh");
    sh.arg(script).args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    run(sh, "").await
}

fn script(name: &str) -> String {
    root().join(name).display().to_string()
}

/// Instructions of the Dockerfile, with their continued lines.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').map(|(word, rest)| (word.into(), rest.into())).expect("a word and more"))
        .collect()
}

fn of<'a>(all: &'a [(String, String)], word: &str) -> Vec<&'a str> {
    all.iter().filter(|(instruction, _)| instruction == word).map(|(_, rest)| rest.as_str()).collect()
}

#[tokio::test]
async fn the_dockerfile_pleases_its_linter_and_keeps_its_promises() {
    let mut hadolint = Command::new(installed("hadolint"));
    hadolint.arg(root().join("Dockerfile"));
    let done = run(hadolint, "").await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    let all = instructions();
    let user = of(&all, "USER")[0];
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "by number, and not root: {user}");
    for word in ["ENTRYPOINT", "CMD"] {
        assert!(of(&all, word).iter().all(|rest| rest.starts_with("[\"")), "{word} in exec form");
    }
    assert!(of(&all, "HEALTHCHECK")[0].ends_with("CMD [\"/usr/bin/outboxd\", \"healthcheck\"]"));
    assert!(of(&all, "LABEL")[0].contains(concat!("image.version=\"", env!("CARGO_PKG_VERSION"), "\"")));
    assert_eq!(of(&all, "FROM"), ["${RUST} AS build", "scratch"]);
}

/// What is copied is there, gets past `.dockerignore`, and is a whole package to cargo.
#[tokio::test]
async fn the_build_gets_all_that_it_needs_and_nothing_else() {
    let context = TempDir::new().expect("the temp directory takes another");
    let let_through: Vec<String> =
        read(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(String::from).collect();
    let all = instructions();
    let copied: Vec<&str> = of(&all, "COPY").into_iter().filter(|rest| !rest.starts_with("--from")).collect();
    let mut names: Vec<String> = Vec::new();
    for line in copied {
        let words: Vec<&str> = line.split(' ').collect();
        names.extend(words[..words.len() - 1].iter().map(|name| name.to_string()));
    }
    names.sort();
    let mut expected = let_through.clone();
    expected.sort();
    assert_eq!(names, expected);
    for name in &names {
        let target = context.path().join(name);
        fs::create_dir_all(target.parent().expect("it is below the context")).expect("our directory is ours");
        let copied = Command::new("cp").arg("-r").arg(root().join(name)).arg(&target).status().expect("cp is there");
        assert!(copied.success(), "{name}");
    }
    // Files that the sources take in at build time.
    for (from, text) in sources(&context.path().join("src")) {
        for taken in text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = from.parent().expect("a file is in a directory").join(taken);
            let for_tests_only = taken.contains("tests/");
            assert!(path.exists() || for_tests_only, "{} takes in {taken}", from.display());
        }
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version=1", "--manifest-path"]);
    cargo.arg(context.path().join("Cargo.toml"));
    let done = run(cargo, "").await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("it can be read").path()) {
        match entry.is_dir() {
            true => found.extend(sources(&entry)),
            false => found.push((entry.clone(), fs::read_to_string(&entry).expect("sources are text"))),
        }
    }
    found
}

/// The image's file system, laid out by the Dockerfile's own script, in which the binary runs alone and not as root. Made twice,
/// it is the same to the byte and the second.
#[tokio::test]
async fn the_images_file_system_is_enough_for_the_binary_and_the_same_each_time() {
    let mut archives = Vec::new();
    for _ in 0..2 {
        let home = TempDir::new().expect("the temp directory takes another");
        let image = home.path().join("image");
        let made = shell(
            &script("deploy/image/root.sh"),
            &[BINARY, &image.display().to_string()],
            &[("SOURCE_DATE_EPOCH", "1700000000".into())],
        )
        .await;
        assert_eq!(made.code, Some(0), "{}{}", made.stdout, made.stderr);
        for arguments in [&["--version"][..], &["config"], &["codes"]] {
            let mut chroot = Command::new("chroot");
            chroot.args(["--userspec=65532:65532"]).arg(&image).arg("/usr/bin/outboxd").args(arguments).env_clear();
            let done = run(chroot, "").await;
            assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.stdout, done.stderr);
        }
        assert!(!image.join("bin").exists() && !image.join("usr/bin/sh").exists(), "there is no shell");
        let mut tar = Command::new("sh");
        tar.args(["-c", "tar --sort=name --numeric-owner -C \"$0\" -c . | sha256sum"]).arg(&image);
        archives.push(run(tar, "").await.stdout);
    }
    assert_eq!(archives[0], archives[1]);
}

#[tokio::test]
async fn the_list_of_parts_has_every_crate_that_is_compiled_in() {
    let made = shell(&script("deploy/image/sbom.sh"), &[], &[]).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let list: Value = serde_json::from_str(&made.stdout).expect("it is JSON");
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let parts = list["components"].as_array().expect("there are parts");
    let has = |name: &str| parts.iter().any(|part| part["name"] == name);
    for name in ["ring", "rustls", "tokio-postgres", "hyper", "libc6", "ca-certificates"] {
        assert!(has(name), "{name}");
    }
    assert!(!has("proptest") && !has("hickory-server"), "what only tests use");
    let crates: Vec<&Value> =
        parts.iter().filter(|part| part["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/"))).collect();
    assert!(crates.len() > 150, "only {}", crates.len());
    for part in crates {
        assert!(part["hashes"][0]["content"].as_str().is_some_and(|sum| sum.len() == 64), "{part}");
        assert!(part["licenses"][0]["expression"].is_string(), "{part}");
    }
    let again = shell(&script("deploy/image/sbom.sh"), &[], &[]).await;
    assert_eq!(made.stdout, again.stdout);
}

#[tokio::test]
async fn a_health_check_says_what_the_daemon_says() {
    let (world, link) = (World::new().await, Link::down());
    link.mend();
    let daemon = Daemon::start(&world.config().set("database.url", link.url(&world.database.name))).await;
    let admin = daemon.admin().await.to_string();
    let beside = Config::empty().set("admin.listen", admin);
    let ask = async |arguments: &[&str]| outboxd(&beside, arguments, "").await;
    for arguments in [&["healthcheck"][..], &["healthcheck", "--ready"]] {
        let done = ask(arguments).await;
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "ok\n"), "{}", done.stderr);
    }
    link.cut();
    eventually("it is not ready", async || match ask(&["healthcheck", "--ready"]).await {
        Done { code: Some(69), stderr, .. } if stderr.contains("/readyz answers 503: database: ") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(ask(&["healthcheck"]).await.code, Some(0), "a database that is away is no reason to be restarted");
    daemon.kill().await;
    assert_eq!(ask(&["healthcheck"]).await.code, Some(69));
    let nobody = Config::empty().set("admin.listen", "");
    let done = outboxd(&nobody, &["healthcheck"], "").await;
    assert_eq!(done.code, Some(78), "{}", done.stderr);
}

/// What one service says another needs is there, every file that it mounts too, and each command is one of ours.
#[tokio::test]
async fn the_try_out_names_only_what_there_is() {
    let compose = yaml(&read("deploy/compose.yaml")).await.remove(0);
    let services = compose["services"].as_object().expect("there are services");
    let mut commands = 0;
    for (name, service) in services {
        for (needed, condition) in service["depends_on"].as_object().into_iter().flatten() {
            let other = services.get(needed).unwrap_or_else(|| panic!("{name} needs {needed}"));
            match condition["condition"].as_str() {
                Some("service_healthy") => {
                    assert!(other["healthcheck"].is_object(), "{needed} says nothing of its health")
                }
                Some("service_completed_successfully") => assert!(other["restart"].is_null(), "{needed} never ends"),
                other => panic!("{name}: {other:?}"),
            }
        }
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume.as_str().and_then(|text| text.split(':').next()).expect("a text");
            let is_made = source == "./compose/keys" || compose["volumes"].get(source).is_some();
            assert!(is_made || root().join("deploy").join(source).exists(), "{name} mounts {source}");
        }
        if service["image"] != concat!("outboxd:", env!("CARGO_PKG_VERSION")) {
            continue;
        }
        let words: Vec<&str> = service["command"]
            .as_array()
            .expect("exec form")
            .iter()
            .map(|word| word.as_str().expect("a text"))
            .collect();
        let file = words.last().expect("there are some").replace("/etc/outboxd", "deploy/compose/settings");
        assert!(root().join(&file).exists(), "{name}: {file}");
        let done = outboxd(&Config::empty().extra(&read(&file)), &["migrate", "--print"], "").await;
        assert_eq!(done.code, Some(0), "{file}: {}", done.stderr);
        assert_eq!(outboxd(&Config::empty(), &[words[0], "--help"], "").await.code, Some(0), "{name}");
        assert_eq!((&service["read_only"], &service["cap_drop"][0]), (&true.into(), &"ALL".into()), "{name}");
        commands += 1;
    }
    assert_eq!(commands, 4);
    let subnet = compose["networks"]["default"]["ipam"]["config"][0]["subnet"].as_str().expect("a network");
    assert!(read("deploy/compose/settings/outboxd.toml").contains(&format!("allow = [\"{subnet}\"]")));
}

/// Its steps, in their order, with names and ports of this machine.
#[tokio::test]
async fn the_try_out_sends_webhooks_and_the_buyer_has_them() {
    let home = TempDir::new().expect("the temp directory takes another");
    let copied =
        Command::new("cp").arg("-r").arg(root().join("deploy")).arg(home.path()).status().expect("cp is there");
    assert!(copied.success());
    let deploy = home.path().join("deploy");
    let setup = deploy.join("compose/setup.sh").display().to_string();
    for _ in 0..2 {
        let done = shell(&setup, &[], &[]).await;
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    }
    let written = fs::read_to_string(deploy.join(".env")).expect("it was written");
    assert_eq!(written, format!("OUTBOXD_UID={}\nOUTBOXD_GID={}\n", getuid(), getgid()));
    let keys = deploy.join("compose/keys").display().to_string();
    let settings = |name: &str| {
        let file = fs::read_to_string(deploy.join("compose/settings").join(name)).expect("it is there");
        Config::empty().extra(&file.replace("/run/secrets/outboxd", &keys))
    };

    let (seller, buyer, dns) = (Database::empty().await, Database::empty().await, Dns::start().await);
    let address = address_of_its_own();
    let (ip, port) = (address.ip().to_string(), address.port());
    dns.script("receiver", move |_, _| addresses(&[ip.as_str()]));
    let receiving = settings("receiver.toml")
        .environment("OUTBOXD_DATABASE__URL", &buyer.url)
        .environment("OUTBOXD_RECEIVE__LISTEN", &address.to_string())
        .environment("OUTBOXD_RECEIVE__WEBHOOK__ORIGIN", &format!("https://receiver:{port}"))
        .environment("OUTBOXD_ADMIN__LISTEN", "127.0.0.1:0");
    let sending = settings("outboxd.toml")
        .environment("OUTBOXD_DATABASE__URL", &seller.url)
        .environment("OUTBOXD_EGRESS__ALLOW", "[\"127.0.0.0/8\"]")
        .environment("OUTBOXD_EGRESS__DNS_SERVERS", &format!("[\"{}\"]", dns.address))
        .environment("OUTBOXD_ADMIN__LISTEN", "127.0.0.1:0");
    for config in [&sending, &receiving] {
        let done = outboxd(config, &["migrate"], "").await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let receiver = Daemon::command(&receiving, &["receive"]);
    receiver.ready().await;
    let _daemon = Daemon::start(&sending).await;

    let psql = cluster::psql("postgres").get_program().to_str().expect("a path").to_string();
    let send = deploy.join("compose/send.sh").display().to_string();
    let environment = [
        ("OUTBOXD", BINARY.to_string()),
        ("SETTINGS", sending.write().display().to_string()),
        ("SELLER", format!("{psql} -X -q -d {}", seller.url)),
        ("BUYER", format!("{psql} -X -q -d {}", buyer.url)),
        ("URL", format!("https://receiver:{port}/hooks")),
    ];
    let done = shell(&send, &["5"], &environment).await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "5 tasks are completed\n5 webhooks are in the buyer's inbox\n");
    // The buyer has a webhook before the seller hears that it does.
    eventually("the seller has settled them", async || match seller.count("delivered").await {
        5 => Ok(()),
        other => Err(format!("{other} of 5")),
    })
    .await;
}
