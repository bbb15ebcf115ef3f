//! Finds the gateway that runs on a data directory.

use crate::gateway_record::GatewayRecord;
use crate::remote_gateway::RemoteGateway;
use std::path::Path;
use toolbooth_core::fault::Problem;

/// The gateway that is running on a data directory and answers. Its file alone is not enough: after a crash the
/// process id may belong to another process.
pub async fn find_running(data_dir: &Path) -> Option<GatewayRecord> {
    let record = GatewayRecord::find(data_dir).filter(|record| !record.stopping)?;
    let remote = RemoteGateway::at(&record.url).ok()?;
    remote.is_alive().await.then_some(record)
}

/// The gateway on a data directory that is stopping: it finishes running calls and answers no command.
pub fn find_stopping(data_dir: &Path) -> Option<GatewayRecord> {
    GatewayRecord::find(data_dir).filter(|record| record.stopping && record.is_alive())
}

/// The problem of opening the store; if a gateway that is stopping still uses it, says so.
pub fn mention_stopping(problem: Problem, data_dir: &Path) -> Problem {
    match find_stopping(data_dir).filter(|_| problem.code == "store.in-use") {
        Some(record) => Problem {
            message: format!("the gateway (process {}) is stopping and still uses the store", record.pid),
            hint: Some("it is stopping; try again".into()),
            ..problem
        },
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::fault::Blame;

    #[test]
    fn a_store_that_a_stopping_gateway_uses_is_free_soon() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut record = GatewayRecord::of_test(folder.path());
        record.announce(folder.path()).expect("written");
        assert_eq!(find_stopping(folder.path()), None);
        record.stopping = true;
        record.announce(folder.path()).expect("written");
        assert_eq!(find_stopping(folder.path()).as_ref(), Some(&record));
        let hint = |code| {
            let problem = Problem { code, blame: Blame::Gateway, message: "no".into(), hint: None };
            mention_stopping(problem, folder.path()).hint
        };
        assert_eq!(hint("store.in-use").as_deref(), Some("it is stopping; try again"));
        assert_eq!(hint("store.full"), None);
        record.remove_file(folder.path());
        assert_eq!(find_stopping(folder.path()), None);
    }
}
