//! Computes token cost and quality of tools before they are shown, on a blocking thread if it takes long.

use std::sync::Arc;
use toolbooth_core::catalog::Tool;

/// Total size of definitions that are weighed inline, which takes a few milliseconds once per tool.
const MAX_INLINE_BYTES: usize = 128 * 1024;

/// Ensures that cost and quality of these tools are known.
pub async fn ensure_weighed(tools: impl Iterator<Item = &Arc<Tool>>) {
    let unknown: Vec<Arc<Tool>> = tools.filter(|tool| !tool.is_weighed()).cloned().collect();
    let size: usize = unknown.iter().map(|tool| tool.definition.as_bytes().len()).sum();
    let weigh = move || {
        for tool in unknown {
            let _ = (tool.token_cost(), tool.quality());
        }
    };
    if size <= MAX_INLINE_BYTES {
        weigh();
    } else {
        // If the thread panics, the cost is computed when it is read.
        let _ = tokio::task::spawn_blocking(weigh).await;
    }
}
