//! A DNS server in this process, over UDP and TCP, that answers from a script for each name, counts what it is asked, and
//! can be killed and started again. It deliberately forwards nothing: a name without a script does not exist.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_server::Server;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Metadata, ResponseCode};
use hickory_server::proto::rr::rdata::CNAME;
use hickory_server::proto::rr::{Name, RData, Record, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use tokio::net::{TcpListener, UdpSocket};

use super::eventually::eventually;
use super::runtime::servers;

/// No name has a star alone as its first label and nothing behind it.
const EVERY_OTHER: &str = "*";

/// What is said to one question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Those of the asked family, with this time to live.
    Addresses(u32, Vec<IpAddr>),
    /// The name is an alias of the first, that of the second, and so on; the last has the addresses, if any are told.
    Aliases(Vec<String>, Vec<IpAddr>),
    /// Addresses that somebody else's name has.
    Foreign(&'static str, Vec<IpAddr>),
    /// Nothing but the note that it did not fit, unless it is asked over TCP.
    OverTcpOnly(Vec<IpAddr>),
    Code(ResponseCode),
    Silence,
}

/// Shorthands.
pub fn addresses(texts: &[&str]) -> Answer {
    Answer::Addresses(0, ips(texts))
}

pub fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an IP address")).collect()
}

/// One question as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Without its root dot, in lower case; the root is empty.
    pub name: String,
    pub kind: RecordType,
    pub tcp: bool,
}

/// Asked with the family and how many questions for this name and family came before.
type Script = Arc<dyn Fn(RecordType, usize) -> Answer + Send + Sync>;

pub struct Dns {
    pub address: SocketAddr,
    answers: Answers,
    server: Mutex<Option<Server<Answers>>>,
}

impl Dns {
    pub async fn start() -> Dns {
        let answers = Answers::default();
        let (address, server) = serve("127.0.0.1:0".parse().expect("an address"), answers.clone())
            .await
            .expect("loopback has a port that is free for both");
        Dns { address, answers, server: Mutex::new(Some(server)) }
    }

    /// On a socket that may be of another network; over UDP alone.
    pub async fn on(socket: std::net::UdpSocket) -> Dns {
        let answers = Answers::default();
        let answering = answers.clone();
        let serving = servers().spawn(async move {
            socket.set_nonblocking(true).expect("a socket can be told");
            let socket = UdpSocket::from_std(socket).expect("the runtime takes sockets");
            let address = socket.local_addr().expect("it is bound");
            let mut server = Server::new(answering);
            server.register_socket(socket);
            (address, server)
        });
        let (address, server) = serving.await.expect("binding does not panic");
        Dns { address, answers, server: Mutex::new(Some(server)) }
    }

    /// From now on every name that is not in the table has these addresses.
    pub fn set_all(&self, addresses: &[&str]) {
        self.set(EVERY_OTHER, addresses);
    }

    /// From now on `name` has these addresses and no others.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        let answer = Answer::Addresses(1, ips(addresses));
        self.script(name, move |_, _| answer.clone());
    }

    /// From now on `name` is answered so. [`EVERY_OTHER`] is for every name without a script of its own.
    pub fn script(&self, name: &str, script: impl Fn(RecordType, usize) -> Answer + Send + Sync + 'static) {
        self.answers.scripts.lock().expect("no holder panics").insert(name.to_string(), Arc::new(script));
    }

    pub fn questions(&self) -> Vec<Question> {
        self.answers.questions.lock().expect("no holder panics").clone()
    }

    /// How often the addresses of one family of this name were asked for.
    pub fn asked(&self, name: &str, kind: RecordType) -> usize {
        self.questions().iter().filter(|question| question.name == name && question.kind == kind).count()
    }

    /// Nobody listens any more.
    pub fn kill(&self) {
        drop(self.server.lock().expect("no holder panics").take());
    }

    /// The same answers at the same address.
    pub async fn restart(&self) {
        let again = async || serve(self.address, self.answers.clone()).await;
        let (_, server) = eventually("the port is free again", again).await;
        *self.server.lock().expect("no holder panics") = Some(server);
    }
}

/// UDP and TCP on one port.
async fn serve(address: SocketAddr, answers: Answers) -> std::io::Result<(SocketAddr, Server<Answers>)> {
    let serving = servers().spawn(async move {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind(address).await?;
            match TcpListener::bind(udp.local_addr()?).await {
                Ok(tcp) => break (udp, tcp),
                Err(error) if address.port() != 0 => return Err(error),
                Err(_) => {}
            }
        };
        let address = udp.local_addr()?;
        let mut server = Server::new(answers);
        server.register_socket(udp);
        server.register_listener(tcp, Duration::from_secs(5), 65_535);
        Ok((address, server))
    });
    serving.await.expect("binding does not panic")
}

#[derive(Clone, Default)]
struct Answers {
    scripts: Arc<Mutex<HashMap<String, Script>>>,
    questions: Arc<Mutex<Vec<Question>>>,
}

impl Answers {
    fn to(&self, question: Question) -> Answer {
        let before = {
            let mut questions = self.questions.lock().expect("no holder panics");
            let same = |other: &&Question| other.name == question.name && other.kind == question.kind;
            let before = questions.iter().filter(same).count();
            questions.push(question.clone());
            before
        };
        let scripts = self.scripts.lock().expect("no holder panics");
        let script = scripts.get(&question.name).or_else(|| scripts.get(EVERY_OTHER)).cloned();
        drop(scripts);
        match script {
            None => Answer::Code(ResponseCode::NXDomain),
            Some(script) => script(question.kind, before),
        }
    }
}

#[async_trait::async_trait]
impl RequestHandler for Answers {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut response: R) -> ResponseInfo {
        let info = request.request_info().expect("a resolver asks one question");
        let (asked, kind) = (Name::from(info.query.name()), info.query.query_type());
        let tcp = request.protocol() == Protocol::Tcp;
        let name = asked.to_ascii().trim_end_matches('.').to_string();
        let mut metadata = Metadata::response_from_request(info.metadata);
        metadata.authoritative = true;
        let records = match self.to(Question { name, kind, tcp }) {
            Answer::Silence => {
                let header = hickory_server::proto::op::Header { metadata, counts: Default::default() };
                return ResponseInfo::from(header);
            }
            Answer::Code(code) => {
                metadata.response_code = code;
                Vec::new()
            }
            Answer::OverTcpOnly(_) if !tcp => {
                metadata.truncation = true;
                Vec::new()
            }
            Answer::OverTcpOnly(all) => records(&asked, 0, kind, &all),
            Answer::Addresses(ttl, all) => records(&asked, ttl, kind, &all),
            Answer::Foreign(owner, all) => records(&Name::from_ascii(owner).expect("a name"), 0, kind, &all),
            Answer::Aliases(chain, all) => {
                let mut owner = asked;
                let mut found = Vec::new();
                for alias in chain {
                    let alias = Name::from_ascii(alias).expect("a name");
                    found.push(Record::from_rdata(owner, 0, RData::CNAME(CNAME(alias.clone()))));
                    owner = alias;
                }
                found.extend(records(&owner, 0, kind, &all));
                found
            }
        };
        let reply = MessageResponseBuilder::from_message_request(request).build(metadata, &records, [], [], []);
        response.send_response(reply).await.expect("loopback takes an answer")
    }
}

fn records(owner: &Name, ttl: u32, kind: RecordType, addresses: &[IpAddr]) -> Vec<Record> {
    let data = addresses.iter().filter_map(|address| match (*address, kind) {
        (IpAddr::V4(v4), RecordType::A) => Some(RData::A(v4.into())),
        (IpAddr::V6(v6), RecordType::AAAA) => Some(RData::AAAA(v6.into())),
        _ => None,
    });
    data.map(|data| Record::from_rdata(owner.clone(), ttl, data)).collect()
}
