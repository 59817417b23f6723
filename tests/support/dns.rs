//! A DNS server in this process that answers from a table, which a test may change while it runs.
//! It deliberately forwards nothing: a name outside the table does not exist.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::proto::op::{Metadata, ResponseCode};
use hickory_server::proto::rr::{RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::UdpSocket;

use super::runtime::servers;

/// No name has a star alone as its first label and nothing behind it.
const EVERY_OTHER: &str = "*";

type Table = Arc<Mutex<HashMap<String, Vec<IpAddr>>>>;

pub struct Dns {
    pub address: SocketAddr,
    table: Table,
}

impl Dns {
    pub async fn start() -> Dns {
        Dns::on(std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port")).await
    }

    /// On a socket that may be of another network.
    pub async fn on(socket: std::net::UdpSocket) -> Dns {
        let table = Table::default();
        let answers = Answers(Arc::clone(&table));
        let serving = servers().spawn(async move {
            socket.set_nonblocking(true).expect("a socket can be told");
            let socket = UdpSocket::from_std(socket).expect("the runtime takes sockets");
            let address = socket.local_addr().expect("it is bound");
            let mut server = Server::new(answers);
            server.register_socket(socket);
            servers().spawn(async move { server.block_until_done().await });
            address
        });
        Dns { address: serving.await.expect("binding does not panic"), table }
    }

    /// From now on every name that is not in the table has these addresses.
    pub fn set_all(&self, addresses: &[&str]) {
        self.set(EVERY_OTHER, addresses);
    }

    /// From now on `name` has these addresses and no others.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an IP address")).collect();
        self.table.lock().expect("no holder panics").insert(name.to_string(), addresses);
    }
}

struct Answers(Table);

#[async_trait::async_trait]
impl RequestHandler for Answers {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut response: R) -> ResponseInfo {
        let info = request.request_info().expect("a resolver asks one question");
        let name = info.query.name().to_string();
        let known = {
            let table = self.0.lock().expect("no holder panics");
            table.get(name.trim_end_matches('.')).or_else(|| table.get(EVERY_OTHER)).cloned()
        };
        let mut metadata = Metadata::response_from_request(info.metadata);
        metadata.authoritative = true;
        if known.is_none() {
            metadata.response_code = ResponseCode::NXDomain;
        }
        let owner = info.query.original().name();
        let records: Vec<Record> = known
            .unwrap_or_default()
            .into_iter()
            .filter_map(|address| match (address, info.query.query_type()) {
                (IpAddr::V4(v4), RecordType::A) => Some(RData::A(v4.into())),
                (IpAddr::V6(v6), RecordType::AAAA) => Some(RData::AAAA(v6.into())),
                _ => None,
            })
            .map(|data| Record::from_rdata(owner.clone(), 1, data))
            .collect();
        let reply = MessageResponseBuilder::from_message_request(request).build(metadata, &records, [], [], []);
        response.send_response(reply).await.expect("loopback takes a datagram")
    }
}
