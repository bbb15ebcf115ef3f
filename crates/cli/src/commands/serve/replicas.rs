//! Follows the other gateways on a shared store.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use toolbooth_engine::servers::RefreshScope;
use toolbooth_server::mcp::FrontEndState;
use toolbooth_store::{StoreNotices, StoreTopic};

/// How long further changed lists are awaited before servers list their tools again.
const REFRESH_DELAY: Duration = Duration::from_secs(1);
/// How often the work of ended gateways is looked for.
const LOST_WORK_EVERY: Duration = Duration::from_secs(3);

/// Takes notice of the changes of other gateways, and ends the work of those that have ended. A gateway that is stopping
/// takes over no more work, but its running requests still need the notices, for example of a cancellation at another
/// gateway.
pub(super) async fn follow(front_end: Arc<FrontEndState>, stop: CancellationToken) {
    let Some(notices) = front_end.engine.store().notices() else { return };
    tokio::select! {
        () = take_notices(&front_end, notices) => {}
        () = take_over(&front_end, &stop) => {}
        () = front_end.engine.send_events() => {}
    }
}

async fn take_over(front_end: &FrontEndState, stop: &CancellationToken) {
    stop.run_until_cancelled(end_lost_work(front_end)).await;
    std::future::pending().await
}

async fn take_notices(front_end: &Arc<FrontEndState>, notices: StoreNotices) {
    // Apart from the notices, so that many messages do not delay them.
    let has_mail = Notify::new();
    let take_mail = async {
        loop {
            has_mail.notified().await;
            front_end.take_mail().await;
        }
    };
    tokio::select! {
        () = act_on_notices(front_end, notices, &has_mail) => {}
        () = take_mail => {}
    }
}

async fn act_on_notices(front_end: &Arc<FrontEndState>, mut notices: StoreNotices, has_mail: &Notify) {
    let mut refresh_at = None;
    loop {
        let notice = tokio::select! {
            notice = notices.next() => notice,
            () = reached(refresh_at) => {
                refresh_at = None;
                let servers = front_end.engine.servers().clone();
                tokio::spawn(async move { servers.refresh(RefreshScope::Connected).await });
                continue;
            }
        };
        let Some(notice) = notice else { return };
        if notice.is_about(StoreTopic::Tokens) {
            front_end.authenticator.forget_callers();
        }
        // A server that changed its list for another gateway has most likely changed it for this one.
        if notice.topic == Some(StoreTopic::Catalog) {
            refresh_at.get_or_insert_with(|| Instant::now() + REFRESH_DELAY);
        }
        if notice.is_about(StoreTopic::Sessions) {
            front_end.refresh_sessions(notice.id).await;
        }
        if notice.is_about(StoreTopic::Mail) && front_end.engine.is_for_this_gateway(notice) {
            has_mail.notify_one();
        }
        front_end.engine.take_notice(notice).await;
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn end_lost_work(front_end: &FrontEndState) {
    let mut turns = interval(LOST_WORK_EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        front_end.engine.end_lost_work().await;
    }
}
