//! `deploy/kubernetes`: what kustomize makes of it is what the API servers of all supported versions take, keeps the promises of
//! its comments, and a roll-out as a kubelet does it loses nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::config::{Config, text};
use crate::support::daemon::Daemon;
use crate::support::eventually::{ticks, within};
use crate::support::manifests::{installed, kustomize, read, root, yaml};
use crate::support::metrics::LEASES_LOST;
use crate::support::tool::{outboxd, run};
use crate::support::world::World;

const VERSIONS: &[&str] = &["1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"];
/// Kinds of operators, whose schemas are not the API server's.
const FOREIGN: &[&str] = &["PodMonitor", "PrometheusRule", "ScaledObject"];

/// A copy in which the secrets of the example are there, and an overlay with the other autoscaler.
struct Manifests(TempDir);

impl Manifests {
    fn new() -> Manifests {
        let home = TempDir::new().expect("the temp directory takes another");
        copy(&root().join("deploy/kubernetes"), home.path());
        let example = home.path().join("overlays/example");
        for secret in ["database-password", "envelope.key", "signing.pem", "migrate/owner-password"] {
            fs::write(example.join(secret), "secret").expect("our directory is ours");
        }
        let hpa = home.path().join("overlays/hpa");
        fs::create_dir(&hpa).expect("our directory is ours");
        let overlay = "resources: [../example]\ncomponents: [../../components/hpa]\nnamespace: outboxd\n";
        fs::write(hpa.join("kustomization.yaml"), overlay).expect("our directory is ours");
        Manifests(home)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    async fn objects(&self, name: &str) -> Vec<Value> {
        yaml(&kustomize(&self.path(name)).await).await
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("it is there").map(|entry| entry.expect("it can be read")) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("our directory is ours");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("our directory is ours");
        }
    }
}

fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "of kind {kind}");
    found[0]
}

#[tokio::test]
async fn every_overlay_is_taken_by_the_api_servers_of_all_supported_versions() {
    let manifests = Manifests::new();
    let (mut files, mut objects) = (Vec::new(), 0);
    for overlay in
        ["base", "migrate", "overlays/example", "overlays/example/migrate", "overlays/production", "overlays/hpa"]
    {
        let made = kustomize(&manifests.path(overlay)).await;
        let file = manifests.path(&format!("{}.yaml", overlay.replace('/', "-")));
        objects += made.lines().filter(|line| line.starts_with("kind: ")).count();
        fs::write(&file, made).expect("our directory is ours");
        files.push(file);
    }
    for version in VERSIONS {
        let mut validate = Command::new(installed("kubernetes-validate"));
        validate.args(["--strict", "--kubernetes-version", version]).args(&files);
        let done = run(validate, "").await;
        let output = done.stdout + &done.stderr;
        assert_eq!(done.code, Some(0), "{version}: {output}");
        for line in output.lines().filter(|line| line.contains("WARN")) {
            assert!(FOREIGN.iter().any(|kind| line.to_lowercase().contains(&kind.to_lowercase())), "{version}: {line}");
        }
        let judged =
            output.lines().filter(|line| line.contains(" passed for resource ") || line.contains("WARN")).count();
        assert_eq!(judged, objects, "{version}: {output}");
    }
}

#[tokio::test]
async fn a_mistake_in_a_manifest_is_found() {
    let manifests = Manifests::new();
    let made =
        kustomize(&manifests.path("base")).await.replace("terminationGracePeriodSeconds", "terminationGraceSeconds");
    let file = manifests.path("wrong.yaml");
    fs::write(&file, made).expect("our directory is ours");
    let mut validate = Command::new(installed("kubernetes-validate"));
    validate.args(["--strict", "--kubernetes-version", "1.37"]).arg(&file);
    let done = run(validate, "").await;
    assert!(done.code != Some(0) && (done.stdout + &done.stderr).contains("terminationGraceSeconds"));
}

/// No cluster is here to run them on; what they name is there.
#[tokio::test]
async fn the_readmes_kubectl_commands_name_what_the_manifests_make() {
    let manifests = Manifests::new();
    let readme = read("README.md");
    let commands: Vec<Vec<&str>> =
        readme.lines().filter(|line| line.starts_with("kubectl ")).map(|line| line.split(' ').collect()).collect();
    let mut made = Vec::new();
    for command in commands.iter().filter(|command| command[1] == "apply") {
        let directory = command.last().and_then(|path| path.strip_prefix("deploy/kubernetes/")).expect("ours");
        made.extend(manifests.objects(directory).await);
    }
    let waits: Vec<&Vec<&str>> = commands.iter().filter(|command| command[1] != "apply").collect();
    assert!(!waits.is_empty() && waits.len() < commands.len(), "{commands:?}");
    for command in waits {
        let (kind, name) = command.last().and_then(|object| object.split_once('/')).expect("kind/name");
        let namespace = command.iter().skip_while(|word| **word != "-n").nth(1).expect("it says which namespace");
        let is_meant = |object: &&Value| object["kind"].as_str().is_some_and(|is| is.to_lowercase() == kind);
        let object = made.iter().filter(is_meant).find(|object| object["metadata"]["name"] == name);
        let object = object.unwrap_or_else(|| panic!("no {kind} {name} is made"));
        assert_eq!(object["metadata"]["namespace"], *namespace, "{command:?}");
    }
}

/// Every pod passes the namespace's `restricted` policy, writes nowhere and holds no token.
#[tokio::test]
async fn pods_are_as_restricted_as_their_namespace_wants_them() {
    let manifests = Manifests::new();
    let mut objects = manifests.objects("overlays/production").await;
    objects.extend(manifests.objects("overlays/example/migrate").await);
    let namespace = objects.iter().find(|object| object["kind"] == "Namespace").expect("there is one");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let pods: Vec<&Value> =
        objects.iter().filter(|object| object["spec"]["template"]["spec"]["containers"].is_array()).collect();
    assert_eq!(pods.len(), 2);
    for pod in pods.iter().map(|object| &object["spec"]["template"]["spec"]) {
        let wide = &pod["securityContext"];
        assert_eq!((&wide["runAsNonRoot"], &wide["seccompProfile"]["type"]), (&true.into(), &"RuntimeDefault".into()));
        assert!(wide["runAsUser"].as_u64() > Some(0) && wide["fsGroup"].as_u64() > Some(0));
        assert_eq!(pod["automountServiceAccountToken"], false);
        for host in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod[host].is_null(), "{host}");
        }
        for volume in pod["volumes"].as_array().expect("there are some") {
            assert!(volume["configMap"].is_object() || volume["secret"].is_object(), "{volume}");
            // Readable by the group, which is the daemon's, and by nobody else: the daemon refuses other secrets.
            assert!(volume["secret"].is_null() || volume["secret"]["defaultMode"] == 0o440, "{volume}");
        }
        for container in pod["containers"].as_array().expect("there are some") {
            let narrow = &container["securityContext"];
            assert_eq!(narrow["allowPrivilegeEscalation"], false);
            assert_eq!(narrow["readOnlyRootFilesystem"], true);
            assert_eq!(narrow["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(
                container["resources"]["limits"]["memory"].is_string()
                    && container["resources"]["requests"]["cpu"].is_string()
            );
        }
    }
    for account in objects.iter().filter(|object| object["kind"] == "ServiceAccount") {
        assert_eq!(account["automountServiceAccountToken"], false);
    }
}

#[tokio::test]
async fn numbers_and_names_of_the_manifests_fit_together() {
    let manifests = Manifests::new();
    let objects = manifests.objects("overlays/production").await;
    let deployment = one(&objects, "Deployment");
    assert!(deployment["spec"]["replicas"].is_null(), "an autoscaler decides");
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], concat!("registry.example.com/outboxd:", env!("CARGO_PKG_VERSION")));
    let config = objects.iter().find(|object| object["data"]["outboxd.toml"].is_string()).expect("there are settings");
    let config = config["data"]["outboxd.toml"].as_str().expect("a text");
    let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().expect("a number");
    let drain = config.split("drain_timeout = \"").nth(1).and_then(|rest| rest.split('s').next()).expect("it is set");
    assert!(grace >= drain.parse::<u64>().expect("seconds") + 10, "{grace} s for a drain of {drain} s");
    let port = container["ports"][0]["containerPort"].as_u64().expect("a number");
    assert!(config.contains(&format!("listen = \"0.0.0.0:{port}\"")));
    assert_eq!(one(&objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"], port);
    // Whoever selects pods selects these.
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    for selector in [
        &deployment["spec"]["selector"]["matchLabels"],
        &one(&objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        &one(&objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        &one(&objects, "PodMonitor")["spec"]["selector"]["matchLabels"],
    ] {
        let wanted = selector.as_object().expect("there are labels");
        assert!(!wanted.is_empty() && wanted.iter().all(|(name, value)| labels[name] == *value), "{selector}");
    }
    let migration = manifests.objects("overlays/example/migrate").await;
    let migrating = &one(&migration, "Job")["spec"]["template"]["metadata"]["labels"];
    assert_ne!(migrating["app.kubernetes.io/component"], labels["app.kubernetes.io/component"], "a Job is no replica");
    assert_eq!(migrating["app.kubernetes.io/part-of"], labels["app.kubernetes.io/part-of"]);
    for name in ["ScaledObject", "Deployment"] {
        assert_eq!(one(&objects, name)["metadata"]["namespace"], "outboxd");
    }
    let scaled = one(&objects, "ScaledObject");
    assert_eq!(scaled["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    let objects = manifests.objects("overlays/hpa").await;
    assert_eq!(
        one(&objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"],
        deployment["metadata"]["name"]
    );
}

/// The settings that the manifests mount and set, with a database and keys that are there, pass the check.
#[tokio::test]
async fn the_settings_of_the_manifests_are_what_the_daemon_takes() {
    let world = World::new().await;
    let manifests = Manifests::new();
    let objects = manifests.objects("overlays/example").await;
    let config = objects.iter().find(|object| object["data"]["outboxd.toml"].is_string()).expect("there are settings");
    let place = world.config();
    for (name, content) in
        [("envelope.key", world.key.hex()), ("signing.pem", world.signer.pem()), ("database-password", "unused".into())]
    {
        place.file_with_mode(&format!("mounted/{name}"), content, 0o440);
    }
    let mounted = text(&place.path("mounted"));
    let settings = config["data"]["outboxd.toml"].as_str().expect("a text").replace("/run/secrets/outboxd", &mounted);
    let config = Config::empty().extra(&settings).environment("OUTBOXD_DATABASE__URL", &world.database.url);
    let done = outboxd(&config, &["check"], "").await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let done = outboxd(&config, &["migrate", "--check"], "").await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
}

/// What the daemon would refuse, the network refuses too.
#[tokio::test]
async fn the_network_policy_lets_nothing_pass_that_the_address_policy_refuses() {
    let objects = Manifests::new().objects("overlays/example").await;
    let egress = one(&objects, "NetworkPolicy")["spec"]["egress"].as_array().expect("there are rules");
    let to = egress.last().expect("receivers are the last")["to"].as_array().expect("blocks");
    let network = |value: &Value| value.as_str().expect("a network").parse::<ipnet::IpNet>().expect("a network");
    let open: Vec<ipnet::IpNet> = to.iter().map(|block| network(&block["ipBlock"]["cidr"])).collect();
    let closed: Vec<ipnet::IpNet> =
        to.iter().flat_map(|block| block["ipBlock"]["except"].as_array().expect("exceptions")).map(network).collect();
    let passes = |address: std::net::IpAddr| {
        open.iter().any(|net| net.contains(&address)) && !closed.iter().any(|net| net.contains(&address))
    };
    // A network is an exception only where nothing in it may be posted to: its ends, at least, are refused.
    let ends: Vec<std::net::IpAddr> = closed.iter().flat_map(|net| [net.network(), net.broadcast()]).collect();
    let urls: String = ends
        .iter()
        .map(
            |address| {
                if address.is_ipv6() { format!("https://[{address}]/\n") } else { format!("https://{address}/\n") }
            },
        )
        .collect();
    let done = outboxd(&Config::empty(), &["check-url", "-", "--json"], urls).await;
    let verdicts: Vec<Value> = done.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(verdicts.len(), ends.len());
    for (address, verdict) in ends.iter().zip(verdicts) {
        assert_eq!(verdict["verdict"], "refused", "{address}");
    }
    // And no row of the daemon's own table passes but the public one.
    let table = include_str!("../../src/address/ranges.rs");
    let mut seen = 0;
    for row in table.split("v4([").skip(1).filter(|row| !row.contains("], 0, Public")) {
        let octets = row.split(']').next().expect("an array");
        let parts: Vec<u8> = octets.split(", ").map_while(|part| part.parse().ok()).collect();
        let &[a, b, c, d] = &parts[..] else { continue };
        assert!(!passes(std::net::Ipv4Addr::new(a, b, c, d).into()), "{octets} passes");
        seen += 1;
    }
    assert!(seen >= 25, "only {seen}");
    assert!(
        passes("93.184.216.34".parse().expect("an address")) && passes("2606:4700::1".parse().expect("an address"))
    );
}

/// One replica as a kubelet runs it: probed, told to end by SIGTERM, killed when its grace is over.
struct Pod {
    daemon: Daemon,
    grace: Duration,
}

impl Pod {
    /// Resolves when the readiness probe has passed.
    async fn start(config: &Config, grace: Duration, probe: &Value) -> Pod {
        let daemon = Daemon::spawn(config);
        let path = probe["httpGet"]["path"].as_str().expect("it asks for a page");
        let mut period = ticks(Duration::from_secs(probe["periodSeconds"].as_u64().expect("a number")));
        within(Duration::from_secs(60), "the pod is ready", async {
            loop {
                period.tick().await;
                if matches!(daemon.get(path).await, Ok((200, _))) {
                    return;
                }
            }
        })
        .await;
        Pod { daemon, grace }
    }

    async fn stop(self) {
        self.daemon.signal(Signal::SIGTERM);
        let ended = self.daemon.wait_exit(self.grace).await;
        assert_eq!(ended.code, Some(0), "{}", ended.output);
    }
}

#[tokio::test]
async fn a_rolling_restart_loses_nothing_and_sends_nothing_twice() {
    let objects = Manifests::new().objects("overlays/example").await;
    let deployment = &one(&objects, "Deployment")["spec"];
    let template = &deployment["template"]["spec"];
    let grace = Duration::from_secs(template["terminationGracePeriodSeconds"].as_u64().expect("a number"));
    let probe = &template["containers"][0]["readinessProbe"];
    let replicas = deployment["replicas"].as_u64().expect("a number");
    assert_eq!((replicas, &deployment["strategy"]["rollingUpdate"]["maxSurge"]), (2, &1.into()));

    let world = World::new().await;
    let config = world.config();
    let mut pods = Vec::new();
    for _ in 0..replicas {
        pods.push(Pod::start(&config, grace, probe).await);
    }
    let rolling = async move {
        // A new one is ready before an old one is told to end.
        for _ in 0..replicas {
            let new = Pod::start(&config, grace, probe).await;
            pods.remove(0).stop().await;
            pods.push(new);
        }
        pods
    };
    let mut sent = 0;
    let mut rolling = std::pin::pin!(rolling);
    let mut inserts = ticks(Duration::from_millis(20));
    let pods = loop {
        tokio::select! {
            pods = &mut rolling => break pods,
            _ = inserts.tick() => sent += world.insert("/hooks", 5).await.len(),
        }
    };
    sent += world.insert("/hooks", 5).await.len();
    world.all_are("delivered").await;
    let tally = world.receiver.tally();
    assert_eq!((tally.len(), tally.values().sum::<usize>()), (sent, sent), "each once");
    assert!(sent > 100, "only {sent} rows during the roll-out");
    for pod in &pods {
        assert_eq!(pod.daemon.metrics().await.total(LEASES_LOST, &[]), 0.0);
    }
}
