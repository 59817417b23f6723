//! A certificate authority of the test run and leaves for the names that receivers answer to.
//! It deliberately makes no certificate that a well-behaved client should refuse, except on request.

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{ALL_VERSIONS, RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Names that the receivers' certificate is good for, besides the loopback addresses.
pub const NAMES: [&str; 4] = ["localhost", "buyer.example.com", "other.example.com", "*.hooks.example.com"];

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

pub struct Leaf {
    pub certificate_pem: String,
    pub key_pem: String,
    certificate: CertificateDer<'static>,
    /// What is sent after it.
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    /// The one that the daemons under test trust.
    pub fn shared() -> &'static Authority {
        static SHARED: LazyLock<Authority> = LazyLock::new(|| Authority::new("outboxd test authority"));
        &SHARED
    }

    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let made = params.self_signed(&key).expect("a CA signs itself");
        Authority { certificate: made.der().clone(), pem: made.pem(), issuer: Issuer::new(params, key) }
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn leaf(&self, names: &[&str]) -> Leaf {
        self.sign(names, |_| {})
    }

    /// For a client, with this as its last day.
    pub fn client_leaf(&self, name: &str, (year, month, day): (i32, u8, u8)) -> Leaf {
        self.sign(&[name], |params| {
            params.not_after = rcgen::date_time_ymd(year, month, day);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// Another authority, trusted by whoever trusts this one and is shown its certificate.
    pub fn intermediate(&self, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let made = params.signed_by(&key, &self.issuer).expect("the CA signs");
        Authority { certificate: made.der().clone(), pem: made.pem(), issuer: Issuer::new(params, key) }
    }

    /// A leaf that may be as wrong as the change makes it.
    pub fn odd_leaf(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> Leaf {
        self.sign(names, change)
    }

    fn sign(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> Leaf {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("the names are valid");
        change(&mut params);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let certificate = params.signed_by(&key, &self.issuer).expect("the CA signs");
        Leaf {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate: certificate.der().clone(),
            chain: Vec::new(),
            key: key.serialize_der(),
        }
    }

    /// A leaf for loopback and [`NAMES`].
    pub fn receiver_leaf(&self) -> Leaf {
        let mut names = vec!["127.0.0.1", "::1"];
        names.extend(NAMES);
        self.leaf(&names)
    }
}

impl Leaf {
    /// Signed by itself.
    pub fn of_nobody(names: &[&str]) -> Leaf {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("the names are valid");
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let made = params.self_signed(&key).expect("a key signs");
        let (certificate_pem, key_pem) = (made.pem(), key.serialize_pem());
        Leaf { certificate_pem, key_pem, certificate: made.der().clone(), chain: Vec::new(), key: key.serialize_der() }
    }

    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Leaf {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from_pem_slice(key_pem.as_bytes()).expect("a PKCS#8 key");
        let key = key.secret_pkcs8_der().to_vec();
        Leaf { certificate_pem: certificate_pem.into(), key_pem: key_pem.into(), certificate, chain: Vec::new(), key }
    }

    /// Shows the certificate of who signed it too.
    pub fn after(mut self, authority: &Authority) -> Leaf {
        self.chain.push(authority.certificate.clone());
        self
    }

    pub fn der(&self) -> &[u8] {
        &self.certificate
    }

    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.server(None, ALL_VERSIONS)
    }

    /// Of a server that speaks these versions alone.
    pub fn config_of(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
        self.server(None, versions)
    }

    /// Of a server that talks to no client without a certificate of this authority.
    pub fn demanding_config(&self, clients: &Authority) -> Arc<ServerConfig> {
        self.server(Some(clients), ALL_VERSIONS)
    }

    pub fn demanding_config_of(
        &self,
        clients: &Authority,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        self.server(Some(clients), versions)
    }

    fn server(&self, clients: Option<&Authority>, versions: &[&'static SupportedProtocolVersion]) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("ring speaks TLS 1.2 and 1.3");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.certificate.clone()).expect("a CA is an anchor");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("there is an anchor"))
            }
        };
        let chain = std::iter::once(&self.certificate).chain(&self.chain).cloned().collect();
        let mut config = builder.with_single_cert(chain, key).expect("the key fits the certificate");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}
