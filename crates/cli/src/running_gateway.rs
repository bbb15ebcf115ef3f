//! Finds the gateway that runs on a data directory.

use crate::gateway_record::GatewayRecord;
use crate::remote_gateway::RemoteGateway;
use std::path::Path;

/// The gateway that is running on a data directory and answers. Its file alone is not enough: after a crash the
/// process id may belong to another process.
pub async fn find_running(data_dir: &Path) -> Option<GatewayRecord> {
    let record = GatewayRecord::find(data_dir)?;
    let remote = RemoteGateway::at(&record.url).ok()?;
    remote.is_alive().await.then_some(record)
}
