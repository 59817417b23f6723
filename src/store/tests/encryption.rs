//! TLS to Postgres by libpq's sslmode, against a server with a certificate of our own making, and SCRAM over it.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::store::dsn::SslMode;
use crate::store::error::Unavailable;

/// A server that speaks TLS for the name `localhost`, on a port of its own.
struct Server {
    cluster: Throwaway,
    port: u16,
    directory: tempfile::TempDir,
}

fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("ring makes a key");
    CertifiedIssuer::self_signed(params, key).expect("it signs itself")
}

/// Postgres reads its key only if it is its own user's, and no one else's.
fn give_to_postgres(path: &Path, mode: u32) {
    use std::os::unix::fs::{PermissionsExt, chown};

    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    if nix::unistd::geteuid().is_root() {
        let user = ["postgres", "nobody"].iter().find_map(|name| nix::unistd::User::from_name(name).ok().flatten());
        let user = user.expect("the cluster runs as one of them");
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
    }
}

impl Server {
    fn start() -> Server {
        let ca = issuer();
        let key = KeyPair::generate().expect("ring makes a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &ca).expect("the issuer signs");
        let directory = tempfile::tempdir().expect("a temp directory");
        let write = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("it can be written");
            path
        };
        write("ca.pem", ca.pem());
        write("other.pem", issuer().pem());
        let certificate = write("server.pem", certificate.pem());
        let key = write("server.key", key.serialize_pem());
        give_to_postgres(&key, 0o600);
        give_to_postgres(directory.path(), 0o755);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let settings = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", port.to_string()),
            ("ssl", "on".to_owned()),
            ("ssl_cert_file", certificate.display().to_string()),
            ("ssl_key_file", key.display().to_string()),
        ];
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let options = Options { settings, ..Options::default() };
        Server { cluster: Throwaway::start(&options).expect("Postgres is installed"), port, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn probe(&self, host: &str, mode: SslMode, root: Option<&str>) -> Result<String, Kind> {
        let url = format!("postgresql://postgres@{host}:{}/postgres", self.port);
        let sslrootcert = root.map(|name| self.file(name));
        let config = StoreConfig { sslmode: Some(mode), sslrootcert, pool_size: 1, ..config(&url) };
        let store = Store::open(&config, silent()).expect("it opens");
        store.probe().await.map_err(|error| error.kind)?;
        let client = store.door.pool.get().await.expect("it is connected");
        let row = client.query_one("select ssl::text from pg_stat_ssl where pid = pg_backend_pid()", &[]).await;
        Ok(row.expect("it has one answer").get(0))
    }
}

#[tokio::test]
async fn each_sslmode_checks_what_libpq_says_it_checks() {
    use SslMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};

    let server = Server::start();
    let refused = Err(Kind::Unavailable(Unavailable::Tls));
    let cases = [
        ("localhost", Disable, None, Ok("false")),
        ("localhost", Prefer, None, Ok("true")),
        ("localhost", Require, None, Ok("true")),
        ("localhost", Require, Some("other.pem"), refused.clone()),
        ("127.0.0.1", Require, Some("ca.pem"), Ok("true")),
        ("127.0.0.1", VerifyCa, Some("ca.pem"), Ok("true")),
        ("localhost", VerifyCa, Some("other.pem"), refused.clone()),
        ("localhost", VerifyFull, Some("ca.pem"), Ok("true")),
        ("127.0.0.1", VerifyFull, Some("ca.pem"), refused.clone()),
        ("localhost", VerifyFull, Some("other.pem"), refused),
    ];
    for (host, mode, root, expected) in cases {
        let answer = server.probe(host, mode, root).await;
        assert_eq!(answer.as_deref().map_err(Clone::clone), expected, "{mode} to {host} with {root:?}");
    }
}

#[tokio::test]
async fn a_password_from_a_file_is_bound_to_the_channel() {
    let server = Server::start();
    let socket = format!("{}&port={}", server.cluster.url("postgres"), server.port);
    let admin = connect(&socket).await;
    admin.batch_execute("create role clerk login password 's3cret word'").await.expect("it works");
    // The cluster trusts everyone; the first matching line decides.
    let hba: String = admin.query_one("select current_setting('hba_file')", &[]).await.expect("one").get(0);
    let rules = std::fs::read_to_string(&hba).expect("it is there");
    std::fs::write(&hba, format!("hostssl all clerk all scram-sha-256\n{rules}")).expect("it can be written");
    admin.batch_execute("select pg_reload_conf()").await.expect("it works");
    // The reload has reached the server once a connection without the password is refused.
    let url =
        format!("postgresql://clerk@localhost:{}/postgres?channel_binding=require&sslmode=verify-full", server.port);
    let with = |password: Option<&str>| StoreConfig {
        password: password.map(|password| Secret::from(password.to_owned())),
        sslrootcert: Some(server.file("ca.pem")),
        ..config(&url)
    };
    let probe = async |password: Option<&str>| {
        let store = Store::open(&with(password), silent()).expect("it opens");
        store.probe().await.map(|_| ()).map_err(|error| error.kind)
    };
    while probe(Some("wrong")).await != Err(Kind::Unavailable(Unavailable::Authentication)) {}
    assert_eq!(probe(Some("s3cret word")).await, Ok(()));
    assert_eq!(probe(None).await, Err(Kind::Unavailable(Unavailable::Handshake)));
}

#[test]
fn a_root_file_that_is_no_certificate_is_refused_at_the_start() {
    let directory = tempfile::tempdir().expect("a temp directory");
    let file = directory.path().join("empty.pem");
    std::fs::write(&file, "nothing").expect("it can be written");
    let config = StoreConfig {
        sslmode: Some(SslMode::VerifyFull),
        sslrootcert: Some(file),
        ..config("postgresql://localhost/x")
    };
    let error = Store::open(&config, silent()).err().expect("it must not open").to_string();
    assert!(error.contains("empty.pem") && error.contains("no certificate"), "{error}");
}
