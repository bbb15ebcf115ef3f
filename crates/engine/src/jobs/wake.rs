//! Continues a waiting run as soon as a held call of one of its steps has ended.

use super::Jobs;
use crate::approvals::HeldEndListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use toolbooth_core::fault::Problem;
use toolbooth_core::held::HeldCall;
use toolbooth_core::job::JobRunState;
use uuid::Uuid;

/// How often a run is claimed if another write of it comes first.
const WAKE_TRIES: usize = 2;

impl HeldEndListener for Jobs {
    fn held_ended(self: Arc<Self>, held: &HeldCall) {
        let Some(run) = held.run() else { return };
        // A command that decides without a running gateway does not work on runs: not all servers are connected.
        if !self.looks.load(Ordering::Relaxed) || self.stopping.load(Ordering::Relaxed) {
            return;
        }
        tokio::spawn(async move {
            // The next look finds the run, too.
            if let Err(problem) = self.wake(run).await {
                tracing::warn!(run = %run, "a run could not be continued at once: {}", problem.message);
            }
        });
    }
}

impl Jobs {
    async fn wake(self: &Arc<Self>, id: Uuid) -> Result<(), Problem> {
        // A look that found the call still open may write the run at the same moment.
        for _ in 0..WAKE_TRIES {
            let run = self.run_record(id).await?.filter(|run| run.state == JobRunState::Waiting);
            let Some(run) = run else { break };
            if !self.may_continue(&run).await? {
                break;
            }
            self.start_run(run).await?;
        }
        Ok(())
    }
}
