//! Loopback addresses for processes that must be told their port before they have it. A port of 127.0.0.1 that is free now may
//! be another's by the time that it is bound; each of these addresses is given to nobody else.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

pub fn address_of_its_own() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    // By the kernel's choice, since another run of the tests may be under way beside this one.
    let free = TcpListener::bind((Ipv4Addr::new(127, 99, high, low), 0)).and_then(|listener| listener.local_addr());
    free.expect("all of 127.0.0.0/8 is here")
}
