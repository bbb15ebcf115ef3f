//! The task of a test connection.

/// The task that drives a connection; dropping it closes the connection.
#[derive(Debug)]
pub struct ConnectionTask(pub(super) tokio::task::AbortHandle);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
