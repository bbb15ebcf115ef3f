//! Finds the owner of a socket in `/proc/net/tcp` and `tcp6`, for kernels without `sock_diag`.

use super::SocketPair;
use std::net::{IpAddr, SocketAddr};

/// The user who owns a socket; `None` if it does not exist or no process holds it.
pub(super) fn find(pair: SocketPair) -> Option<u32> {
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    let as_v6 = SocketPair { owner: mapped(pair.owner), other: mapped(pair.other) };
    // A client may have connected to an IPv4 address from an IPv6 socket.
    let tables = [("/proc/net/tcp", pair), ("/proc/net/tcp6", as_v6)];
    tables.iter().find_map(|(table, pair)| in_table(&std::fs::read_to_string(table).ok()?, *pair))
}

fn in_table(table: &str, pair: SocketPair) -> Option<u32> {
    let (owner, other) = (written(pair.owner), written(pair.other));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != owner || fields.next()? != other {
            return None;
        }
        // state, queues, timer, retransmissions; then the user, a timeout, and the inode.
        let uid = fields.nth(4)?.parse().ok()?;
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        (inode != 0).then_some(uid)
    })
}

/// An address as the kernel writes it: four-byte words in native byte order, in hexadecimal.
fn written(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| {
        let word: [u8; 4] = word.try_into().unwrap_or_default();
        format!("{:08X}", u32::from_ne_bytes(word))
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:21D9 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 125 1 0 100 0 0 10 0
   1: 0100007F:C350 0100007F:21D9 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 20 4 30 10 -1
   2: 0100007F:C351 0100007F:21D9 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_owner_of_one_exact_socket_is_found() {
        let pair = |port: u16| SocketPair {
            owner: SocketAddr::from(([127, 0, 0, 1], port)),
            other: SocketAddr::from(([127, 0, 0, 1], 8665)),
        };
        assert_eq!(in_table(TABLE, pair(50_000)), Some(1000));
        assert_eq!(in_table(TABLE, pair(50_001)), None, "closed by its process");
        assert_eq!(in_table(TABLE, pair(50_002)), None, "no such socket");
    }
}
