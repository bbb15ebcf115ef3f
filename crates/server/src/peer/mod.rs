//! The other end of a connection: which user of this machine it belongs to, and whether that user is let in.

mod proc_net;
mod sock_diag;
mod user_ids;

use nix::unistd::geteuid;
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// How a request reached the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// Inside the process: the gateway of a single command.
    #[default]
    Inside,
    /// Over TCP, from this address.
    Network(IpAddr),
    /// Over the control socket; the kernel said that the peer is the gateway's own user, or root.
    Control,
}

/// Which users of this machine a gateway in `local` mode lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalUsers {
    /// The user who runs the gateway, and root.
    #[default]
    Own,
    /// All of them.
    Any,
}

/// The user at the other end of a loopback connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// The user of this id.
    Uid(u32),
    /// The kernel does not say; such a peer is not let in.
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
        // A connection that was reset meanwhile has freed its ports for another user's connection, and that one
        // may be what was found. One that still has a peer is the one that was looked up.
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
    uid == 0 || uid == geteuid().as_raw() && !user_ids::stands_for_many(uid)
}

/// Both ends of a connection, seen from the socket whose owner is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketPair {
    owner: SocketAddr,
    other: SocketAddr,
}

/// An IPv4 address in IPv6 clothes (`::ffff:127.0.0.1`) as the IPv4 address it is.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn the_kernel_says_whose_a_connection_is() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                eprintln!("skipped: no IPv6 here");
                continue;
            };
            let port = listener.local_addr().expect("bound").port();
            let target = if address.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((target, port)).await.expect("it listens");
            let (accepted, _) = listener.accept().await.expect("it was dialled");
            let own = PeerUser::Uid(geteuid().as_raw());
            assert_eq!(PeerUser::of(&accepted), own, "{address}");
            let (peer, here) = (accepted.peer_addr().expect("open"), accepted.local_addr().expect("open"));
            let pair = SocketPair { owner: plain(peer), other: plain(here) };
            assert_eq!(sock_diag::find(pair).ok().flatten(), Some(geteuid().as_raw()), "{address}");
            assert_eq!(proc_net::find(pair), Some(geteuid().as_raw()), "{address}");
            drop(client);
            // Closed by its owner: no process owns it any more, and the kernel may say root.
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
