//! A round-robin proxy in front of the replicas, as simple as a proxy can be: a client's connection goes to the next
//! replica. A replica that refuses connections is taken out for a moment.
//!
//! A connection is tried at another replica only if it was refused, so before a byte was sent. After that, a request
//! may have been carried out, and only its client can know whether it may be repeated.

use anyhow::Result;
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a replica that refused a connection gets no further ones.
const OUT_FOR: Duration = Duration::from_millis(200);
/// How long a client waits if all replicas are out.
const PATIENCE: Duration = Duration::from_secs(8);

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct RoundRobinProxy {
    /// Where it listens.
    pub address: SocketAddr,
    turns: Arc<ReplicaTurns>,
    stop: Arc<AtomicBool>,
}

impl RoundRobinProxy {
    /// Listens on a free port for clients of these replicas.
    pub fn start(replicas: &[SocketAddr]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, stop) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let turns = Arc::new(ReplicaTurns::new(replicas));
        let (stopped, shared) = (stop.clone(), turns.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let turns = shared.clone();
                thread::spawn(move || serve(client, &turns));
            }
        });
        Ok(Self { address, turns, stop })
    }

    /// Sends no new connections to a replica for this time. Zero ends it.
    pub fn take_out(&self, replica: usize, time: Duration) {
        self.turns.take_out(replica, time);
    }
}

impl Drop for RoundRobinProxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

/// The replicas, whose turn it is, and which are out.
#[derive(Debug)]
struct ReplicaTurns {
    replicas: Vec<(SocketAddr, Mutex<Option<Instant>>)>,
    next: AtomicUsize,
}

impl ReplicaTurns {
    fn new(replicas: &[SocketAddr]) -> Self {
        let replicas = replicas.iter().map(|address| (*address, Mutex::new(None))).collect();
        Self { replicas, next: AtomicUsize::new(0) }
    }

    fn take_out(&self, replica: usize, time: Duration) {
        let until = Some(Instant::now() + time);
        *self.replicas[replica].1.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    /// Connects to the next replica that accepts; `None` if none does in time.
    fn connect(&self, patience: Duration) -> Option<TcpStream> {
        let deadline = Instant::now() + patience;
        loop {
            for _ in 0..self.replicas.len() {
                let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.replicas.len();
                let (address, out_until) = &self.replicas[turn];
                let mut until = out_until.lock().unwrap_or_else(PoisonError::into_inner);
                if until.is_some_and(|until| Instant::now() < until) {
                    continue;
                }
                *until = None;
                // Other connections must not wait for this one.
                drop(until);
                match TcpStream::connect_timeout(address, CONNECT_TIMEOUT) {
                    Ok(stream) => return Some(stream),
                    Err(_) => self.take_out(turn, OUT_FOR),
                }
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn serve(mut client: TcpStream, turns: &ReplicaTurns) {
    // Client and replica notice by themselves that a connection ended early.
    let _ = match turns.connect(PATIENCE) {
        Some(replica) => relay(client, replica),
        None => client
            .read(&mut [0; 16 * 1024])
            .and_then(|_| client.write_all(b"HTTP/1.1 503 No replica\r\nContent-Length: 2\r\n\r\n{}")),
    };
}

/// Copies bytes both ways until the replica's answer ends.
fn relay(client: TcpStream, replica: TcpStream) -> io::Result<()> {
    let _ = (client.set_nodelay(true), replica.set_nodelay(true));
    let (mut from_client, mut to_replica) = (client.try_clone()?, replica.try_clone()?);
    let upward = thread::spawn(move || {
        // A client that has sent its request still waits for the answer.
        if io::copy(&mut from_client, &mut to_replica).is_ok() {
            let _ = to_replica.shutdown(Shutdown::Write);
        }
    });
    let (mut from_replica, mut to_client) = (replica, client);
    let copied = io::copy(&mut from_replica, &mut to_client);
    let _ = (to_client.shutdown(Shutdown::Both), from_replica.shutdown(Shutdown::Both));
    let _ = upward.join();
    copied.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A replica that answers each connection with a word, or closes it after the request.
    fn replica(answer: &'static str) -> Result<(SocketAddr, mpsc::Receiver<String>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut request = [0; 64];
                let count = client.read(&mut request).unwrap_or(0);
                let _ = sender.send(String::from_utf8_lossy(&request[..count]).into_owned());
                let _ = client.write_all(answer.as_bytes());
            }
        });
        Ok((address, seen))
    }

    fn ask(proxy: &RoundRobinProxy, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect(proxy.address)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        // A reset is an answer without bytes.
        let _ = stream.read_to_string(&mut answer);
        Ok(answer)
    }

    /// An address where nothing listens.
    fn refusing() -> Result<SocketAddr> {
        Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
    }

    #[test]
    fn connections_take_turns() -> Result<()> {
        let ((a, _seen_a), (b, _seen_b)) = (replica("a")?, replica("b")?);
        let proxy = RoundRobinProxy::start(&[a, b])?;
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(ask(&proxy, "x")?);
        }
        assert_eq!(answers, ["a", "b", "a", "b"]);
        Ok(())
    }

    #[test]
    fn a_refused_connection_goes_to_the_next_replica() -> Result<()> {
        let (a, _seen) = replica("a")?;
        let proxy = RoundRobinProxy::start(&[refusing()?, a])?;
        for _ in 0..3 {
            assert_eq!(ask(&proxy, "x")?, "a");
        }
        Ok(())
    }

    #[test]
    fn a_request_that_was_sent_is_not_sent_again() -> Result<()> {
        let ((silent, seen), (a, seen_a)) = (replica("")?, replica("a")?);
        let proxy = RoundRobinProxy::start(&[silent, a])?;
        assert_eq!(ask(&proxy, "write")?, "", "the client learns that the replica is gone");
        assert_eq!(seen.recv()?, "write");
        assert!(seen_a.try_recv().is_err(), "no other replica has seen the request");
        Ok(())
    }

    #[test]
    fn a_replica_that_is_out_comes_back() -> Result<()> {
        let (a, _seen) = replica("a")?;
        let turns = ReplicaTurns::new(&[a]);
        turns.take_out(0, OUT_FOR);
        assert!(turns.connect(Duration::ZERO).is_none(), "it is out");
        assert!(turns.connect(OUT_FOR * 5).is_some());
        Ok(())
    }
}
