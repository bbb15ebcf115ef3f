//! Weighs tools before they are shown, away from the threads that answer where that takes long.

use std::sync::Arc;
use toolbooth_core::catalog::Tool;

/// Definitions up to this size together are weighed in passing: a few milliseconds, once in their life.
const IN_PASSING: usize = 128 * 1024;

/// Sees to it that the cost of all these tools is known.
pub async fn weighed(tools: impl Iterator<Item = &Arc<Tool>>) {
    let unknown: Vec<Arc<Tool>> = tools.filter(|tool| !tool.is_weighed()).cloned().collect();
    let size: usize = unknown.iter().map(|tool| tool.definition.as_bytes().len()).sum();
    let weigh = move || {
        for tool in unknown {
            let _ = tool.token_cost();
        }
    };
    if size <= IN_PASSING {
        weigh();
    } else {
        // If the thread is lost, whoever asks for a cost counts it then.
        let _ = tokio::task::spawn_blocking(weigh).await;
    }
}
