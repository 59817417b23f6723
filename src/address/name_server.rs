//! A name server for tests, on a loopback port: answers come from a closure, and every question is counted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Metadata, ResponseCode};
use hickory_server::proto::rr::rdata::{A, AAAA, CNAME};
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo, Server};
use hickory_server::zone_handler::MessageResponseBuilder;

use super::Resolver;
use super::lookup::ResolverLimits;

/// What is said to one question.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// The addresses of the asked family among these, with this TTL.
    Addresses(u32, Vec<IpAddr>),
    /// An alias, then the addresses.
    Alias(&'static str, Vec<IpAddr>),
    Code(ResponseCode),
    Silence,
}

type Script = dyn Fn(&str, RecordType, usize) -> Answer + Send + Sync;

/// Stops with its last handle.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    questions: Arc<AtomicUsize>,
    _server: Server<Handler>,
}

impl NameServer {
    /// `script` is given the name without its root dot, the family, and how many questions came before.
    pub(crate) async fn start(
        script: impl Fn(&str, RecordType, usize) -> Answer + Send + Sync + 'static,
    ) -> NameServer {
        let questions = Arc::new(AtomicUsize::new(0));
        let handler = Handler { script: Arc::new(script), questions: Arc::clone(&questions) };
        let mut server = Server::new(handler);
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // A UDP port whose TCP twin is free: truncated answers are asked again over TCP.
        let (udp, tcp) = loop {
            let udp = tokio::net::UdpSocket::bind(loopback).await.unwrap();
            if let Ok(tcp) = tokio::net::TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        server.register_socket(udp);
        server.register_listener(tcp, Duration::from_secs(5), 4096);
        NameServer { address, questions, _server: server }
    }

    /// Every name has these addresses.
    pub(crate) async fn with_addresses(addresses: &[&str]) -> NameServer {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        NameServer::start(move |_, _, _| Answer::Addresses(60, addresses.clone())).await
    }

    pub(crate) fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }

    pub(crate) fn resolver(&self) -> Resolver {
        Resolver::with_servers(&[self.address]).unwrap()
    }

    /// For tests of silence: gives up soon.
    pub(crate) fn hasty_resolver(&self) -> Resolver {
        let limits = ResolverLimits {
            total: Duration::from_millis(1500),
            question: Duration::from_millis(500),
            ..ResolverLimits::default()
        };
        Resolver::with_limits(&[self.address], limits).unwrap()
    }
}

struct Handler {
    script: Arc<Script>,
    questions: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut reply: R) -> ResponseInfo {
        let before = self.questions.fetch_add(1, Ordering::SeqCst);
        let query = request.request_info().unwrap().query;
        let asked: Name = query.name().into();
        let family = query.query_type();
        let name = asked.to_ascii();
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.authoritative = true;
        let answer = (self.script)(name.trim_end_matches('.'), family, before);
        let records = match answer {
            Answer::Silence => return ResponseInfo::from(header(metadata)),
            Answer::Code(code) => {
                metadata.response_code = code;
                Vec::new()
            }
            Answer::Addresses(ttl, addresses) => records(&asked, ttl, family, &addresses),
            Answer::Alias(alias, addresses) => {
                let alias = Name::from_ascii(alias).unwrap();
                let mut all = vec![Record::from_rdata(asked.clone(), 60, RData::CNAME(CNAME(alias.clone())))];
                all.extend(records(&alias, 60, family, &addresses));
                all
            }
        };
        let response = MessageResponseBuilder::from_message_request(request).build(metadata, &records, [], [], []);
        reply.send_response(response).await.unwrap()
    }
}

fn header(metadata: Metadata) -> hickory_server::proto::op::Header {
    hickory_server::proto::op::Header { metadata, counts: Default::default() }
}

fn records(name: &Name, ttl: u32, family: RecordType, addresses: &[IpAddr]) -> Vec<Record> {
    let data = addresses.iter().filter_map(|address| match (address, family) {
        (IpAddr::V4(address), RecordType::A) => Some(RData::A(A(*address))),
        (IpAddr::V6(address), RecordType::AAAA) => Some(RData::AAAA(AAAA(*address))),
        _ => None,
    });
    data.map(|data| Record::from_rdata(name.clone(), ttl, data)).collect()
}
