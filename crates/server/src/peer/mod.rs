//! The peer of a connection: which local user it belongs to, and whether that user may connect.

mod proc_net;
mod sock_diag;
mod user_ids;

use nix::unistd::geteuid;
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// How a request reached the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ingress {
    /// From inside the process: the gateway of a single command.
    #[default]
    Inside,
    /// Over TCP, from this address.
    Network(IpAddr),
    /// Over the control socket. The kernel reported the peer as the gateway's own user or root.
    Control,
}

/// Which local users a gateway in `local` mode accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalAccess {
    /// The user who runs the gateway, and root.
    #[default]
    Own,
    /// All local users.
    Any,
}

/// The user at the other end of a loopback connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// The user with this id.
    Uid(u32),
    /// The kernel does not say. Such a peer is rejected.
    Unknown,
}

impl PeerUser {
    /// Asks the kernel who owns the other end of a loopback connection.
    pub fn of(stream: &TcpStream) -> Self {
        let (Ok(peer), Ok(here)) = (stream.peer_addr(), stream.local_addr()) else { return Self::Unknown };
        let pair = SocketPair { owner: plain(peer), other: plain(here) };
        let found = match sock_diag::find(pair) {
            Ok(found) => found,
            Err(_) => proc_net::find(pair),
        };
        // If the connection was reset meanwhile, its ports may belong to another user's connection by now. A
        // connection that still has a peer is the one that was looked up.
        match (found, stream.peer_addr()) {
            (Some(uid), Ok(_)) => Self::Uid(uid),
            _ => Self::Unknown,
        }
    }

    /// Whether this is the user who runs the gateway, or root.
    pub fn is_own(self) -> bool {
        matches!(self, Self::Uid(uid) if is_own_uid(uid))
    }
}

/// Whether a user id is that of the gateway's own user, or of root.
pub fn is_own_uid(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw() && !user_ids::is_overflow(uid)
}

/// Both ends of a connection, from the point of view of the socket whose owner is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketPair {
    owner: SocketAddr,
    other: SocketAddr,
}

/// Converts an IPv4-mapped IPv6 address (`::ffff:127.0.0.1`) to the IPv4 address.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn the_kernel_reports_the_owner_of_a_connection() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                eprintln!("skipped: no IPv6 here");
                continue;
            };
            let port = listener.local_addr().expect("bound").port();
            let target = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((target, port)).await.expect("it listens");
            let (accepted, _) = listener.accept().await.expect("a client connected");
            let own = PeerUser::Uid(geteuid().as_raw());
            assert_eq!(PeerUser::of(&accepted), own, "{address}");
            let (peer, here) = (accepted.peer_addr().expect("open"), accepted.local_addr().expect("open"));
            let pair = SocketPair { owner: plain(peer), other: plain(here) };
            assert_eq!(sock_diag::find(pair).ok().flatten(), Some(geteuid().as_raw()), "{address}");
            assert_eq!(proc_net::find(pair), Some(geteuid().as_raw()), "{address}");
            drop(client);
            // Closed by its owner: no process owns it any more, and the kernel may report root.
            for _ in 0..200 {
                if PeerUser::of(&accepted) == PeerUser::Unknown {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            assert_eq!(PeerUser::of(&accepted), PeerUser::Unknown, "{address}");
        }
    }

    #[test]
    fn only_the_own_user_and_root_are_own() {
        assert!(PeerUser::Uid(0).is_own());
        assert!(PeerUser::Uid(geteuid().as_raw()).is_own());
        assert!(!PeerUser::Uid(geteuid().as_raw().wrapping_add(4711)).is_own());
        assert!(!PeerUser::Unknown.is_own());
    }
}
