//! Receivers that demand a client certificate: who is shown which, who is refused, and whose connections are whose.

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

impl Authority {
    fn identity(&self, name: &str) -> Arc<ClientIdentity> {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let identity = ClientIdentity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes());
        Arc::new(identity.unwrap())
    }

    /// Of a server that wants certificates of this authority.
    fn demanding(&self, version: &'static rustls::SupportedProtocolVersion) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let (chain, key) = self.leaf(NAME, 2100);
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap()
    }
}

async fn post_as(client: &Client, receiver: &Receiver, identity: Option<&Arc<ClientIdentity>>) -> Posted {
    let destination = destination(NAME, receiver.address.port());
    let pinned = pinned_to(&destination, &["127.0.0.1"]).await;
    client.post(&pinned, identity, request_of(&destination, Bytes::from_static(b"{}")), false, patient()).await
}

/// Answers every request, and tells of each connection whether it came with a certificate.
async fn asking(config: ServerConfig) -> (Receiver, UnboundedReceiver<Option<Vec<u8>>>) {
    let (seen, sees) = unbounded_channel();
    let receiver = Receiver::start(config, move |mut stream| {
        let shown = stream.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec());
        let seen = seen.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                seen.send(shown.clone()).unwrap();
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    (receiver, sees)
}

fn leaf_of(identity: &Arc<ClientIdentity>) -> Option<Vec<u8>> {
    rustls::client::ResolvesClientCert::resolve(&**identity, &[], &[]).map(|certified| certified.cert[0].to_vec())
}

#[tokio::test]
async fn a_demand_that_is_not_met_has_a_fault_of_its_own() {
    let (authority, other) = (Authority::new(), Authority::new());
    for version in VERSIONS {
        let receiver = Receiver::start(authority.demanding(version), |_| async {}).await;
        for identity in [None, Some(other.identity("stranger"))] {
            let posted = post_as(&authority.client(), &receiver, identity.as_ref()).await;
            assert_eq!(failed(&posted).fault, Fault::TlsClientAuth, "{version:?} {identity:?}");
        }
    }
}

#[tokio::test]
async fn a_certificate_is_shown_to_who_asks_and_to_nobody_else() {
    let authority = Authority::new();
    let identity = authority.identity("us");
    for version in VERSIONS {
        let (receiver, mut shown) = asking(authority.demanding(version)).await;
        let posted = post_as(&authority.client(), &receiver, Some(&identity)).await;
        assert_eq!(replied(&posted).status, 200, "{version:?}");
        assert_eq!(shown.recv().await, Some(leaf_of(&identity)));
    }
    let (receiver, mut shown) = asking(authority.server(NAME)).await;
    let posted = post_as(&authority.client(), &receiver, Some(&identity)).await;
    assert_eq!(replied(&posted).status, 200);
    assert_eq!(shown.recv().await, Some(None));
}

#[tokio::test]
async fn a_connection_made_with_one_identity_serves_no_other() {
    let authority = Authority::new();
    let (alpha, beta) = (authority.identity("alpha"), authority.identity("beta"));
    let (receiver, mut shown) = asking(authority.demanding(&rustls::version::TLS13)).await;
    let client = authority.client();
    let turns = [(&alpha, false), (&beta, false), (&alpha, true), (&beta, true), (&alpha, true)];
    for (identity, reused) in turns {
        let posted = post_as(&client, &receiver, Some(identity)).await;
        assert_eq!((replied(&posted).status, posted.reused), (200, reused));
        assert_eq!(shown.recv().await, Some(leaf_of(identity)));
    }
    assert_eq!((receiver.accepted(), client.gauges().idle), (2, 2));
    // Nor does it serve somebody without one.
    assert_eq!(failed(&post_as(&client, &receiver, None).await).fault, Fault::TlsClientAuth);
}

#[tokio::test]
async fn a_receiver_that_does_not_ask_cannot_link_two_identities_by_their_connection() {
    let authority = Authority::new();
    let (alpha, beta) = (authority.identity("alpha"), authority.identity("beta"));
    let (receiver, _shown) = asking(authority.server(NAME)).await;
    let client = authority.client();
    for (identity, reused) in [(Some(&alpha), false), (Some(&beta), false), (None, false), (None, true)] {
        assert_eq!(post_as(&client, &receiver, identity).await.reused, reused);
    }
}
