//! The addresses of this machine's interfaces, as they are at the moment of asking. Judges none of them.

use std::io;
use std::net::IpAddr;

/// Both families, every interface, up or down. An address that comes later is seen at the next reload.
pub(crate) fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    for address in nix::ifaddrs::getifaddrs()?.filter_map(|interface| interface.address) {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        found.extend(v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
