//! Asks the kernel for the owner of a TCP socket with `NETLINK_SOCK_DIAG`, by the addresses of both ends
//! (`sock_diag(7)`).

use super::SocketPair;
use std::io;
use std::net::IpAddr;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// Offsets in a response: the header, then `struct inet_diag_msg`.
const PORTS_AT: usize = HEADER_BYTES + 4;
const UID_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;
const ENOENT: i32 = 2;

/// The user who owns a socket; `None` if it does not exist or no process holds it. An error if the kernel does not
/// support the request.
pub(super) fn find(pair: SocketPair) -> io::Result<Option<u32>> {
    let answer = ask(&request(pair))?;
    read(&answer, pair)
}

fn request(pair: SocketPair) -> Vec<u8> {
    let family = if pair.owner.is_ipv4() { libc_family::INET } else { libc_family::INET6 };
    let mut message = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    message.extend(((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]); // sequence and port: there is one request and one response
    message.extend([family, libc_family::TCP, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes()); // in any state
    message.extend(pair.owner.port().to_be_bytes());
    message.extend(pair.other.port().to_be_bytes());
    message.extend(address_bytes(pair.owner.ip()));
    message.extend(address_bytes(pair.other.ip()));
    message.extend([0; 4]); // on any interface
    message.extend([0xff; 8]); // no cookie
    message
}

fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
    }
}

fn read(answer: &[u8], pair: SocketPair) -> io::Result<Option<u32>> {
    let word = |at: usize| -> io::Result<u32> {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    };
    let half = |at: usize| answer.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    let kind = half(4).map(u16::from_ne_bytes).ok_or(io::ErrorKind::InvalidData)?;
    if kind == ERROR {
        let code = word(HEADER_BYTES)?.cast_signed();
        return match code == -ENOENT {
            true => Ok(None),
            false => Err(io::Error::from_raw_os_error(-code)),
        };
    }
    if kind != BY_FAMILY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // If the connection does not exist, the kernel may answer for a listener on the same port.
    let ports = [half(PORTS_AT), half(PORTS_AT + 2)].map(|bytes| bytes.map(u16::from_be_bytes));
    if ports != [Some(pair.owner.port()), Some(pair.other.port())] {
        return Ok(None);
    }
    // A socket that its process has closed has no inode, and some kernels report root as its owner.
    Ok((word(INODE_AT)? != 0).then_some(word(UID_AT)?))
}

/// Constants of the kernel interface.
mod libc_family {
    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;
    pub(super) const TCP: u8 = 6;
}

#[cfg(target_os = "linux")]
fn ask(message: &[u8]) -> io::Result<Vec<u8>> {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
    use std::os::fd::AsRawFd;
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    send(socket.as_raw_fd(), message, MsgFlags::empty())?;
    // The kernel answers synchronously, so there is nothing to wait for.
    let mut answer = vec![0; 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    answer.truncate(length);
    Ok(answer)
}

#[cfg(not(target_os = "linux"))]
fn ask(_: &[u8]) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn answer(kind: u16, uid: u32, inode: u32) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES + 72];
        bytes[PORTS_AT..PORTS_AT + 4].copy_from_slice(&[0xc3, 0x50, 0x21, 0xd9]);
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[UID_AT..UID_AT + 4].copy_from_slice(&uid.to_ne_bytes());
        bytes[INODE_AT..INODE_AT + 4].copy_from_slice(&inode.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_socket_without_a_process_has_no_owner() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let pair = SocketPair { owner: at(50_000), other: at(8_665) };
        let read = |answer: &[u8]| read(answer, pair);
        assert_eq!(read(&answer(BY_FAMILY, 1000, 7)).ok(), Some(Some(1000)));
        assert_eq!(read(&answer(BY_FAMILY, 0, 0)).ok(), Some(None));
        let mut listener = answer(BY_FAMILY, 0, 7);
        listener[PORTS_AT + 2..PORTS_AT + 4].fill(0);
        assert_eq!(read(&listener).ok(), Some(None));
        let mut missing = answer(ERROR, 0, 0);
        missing[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(-ENOENT).to_ne_bytes());
        assert_eq!(read(&missing).ok(), Some(None));
        assert!(read(&answer(ERROR, 0, 0)[..18]).is_err(), "cut short");
        assert!(read(&answer(3, 0, 7)).is_err(), "another kind of message");
    }
}
