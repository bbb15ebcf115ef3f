//! The group service: `POST {user_id, group_id}` returns `{is_member}`. Any other response counts as "not a member".

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use toolbooth_core::secret::SecretText;
use toolbooth_upstream::oauth::{HttpFetch, NetworkReach};

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a failed request counts as "not a member", to avoid flooding a service that is down.
const FAILED_FOR: Duration = Duration::from_secs(1);
/// Maximum number of concurrent requests per user.
const AT_ONCE: usize = 8;
/// Maximum number of cached answers.
const MAX_ANSWERS: usize = 50_000;

/// One cached answer and when it expires. Concurrent lookups share one request.
type MembershipCell = Arc<OnceCell<(Membership, Instant)>>;

/// A user and a group.
type MembershipKey = (Arc<str>, Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Yes,
    No,
}

/// A service that knows the members of groups.
pub struct GroupService {
    http: Arc<dyn HttpFetch>,
    url: String,
    token: Option<SecretText>,
    believed_for: Duration,
    answers: Mutex<HashMap<MembershipKey, MembershipCell>>,
}

impl std::fmt::Debug for GroupService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupService").field("url", &self.url).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct MembershipReply {
    is_member: bool,
}

impl GroupService {
    /// The service at a URL, whose answers are cached for `believed_for`.
    pub fn new(
        http: Arc<dyn HttpFetch>,
        url: &str,
        token: Option<SecretText>,
        believed_for: Duration,
    ) -> Self {
        Self { http, url: url.to_owned(), token, believed_for, answers: Mutex::default() }
    }

    /// Those of these groups that the user is a member of.
    pub(super) async fn member_of(&self, user: &str, groups: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let user: Arc<str> = user.into();
        let asking = groups.into_iter().map(|group| {
            let user = user.clone();
            async move { (self.ask(&user, &group).await == Membership::Yes).then_some(group) }
        });
        let answers: Vec<Option<Arc<str>>> =
            futures_util::stream::iter(asking).buffer_unordered(AT_ONCE).collect().await;
        answers.into_iter().flatten().collect()
    }

    async fn ask(&self, user: &Arc<str>, group: &Arc<str>) -> Membership {
        let cell = self.cell(user, group);
        let answer = cell.get_or_init(|| async {
            let asked = tokio::time::timeout(TIMEOUT, self.exchange(user, group)).await;
            let now = Instant::now();
            match asked {
                Ok(Ok(member)) => (member, now + self.believed_for),
                Ok(Err(why)) => {
                    tracing::warn!("the group service failed, so the user does not count as a member: {why}");
                    (Membership::No, now + FAILED_FOR)
                }
                Err(_) => {
                    tracing::warn!(
                        "the group service did not answer in time, so the user does not count as a member"
                    );
                    (Membership::No, now + FAILED_FOR)
                }
            }
        });
        answer.await.0
    }

    fn cell(&self, user: &Arc<str>, group: &Arc<str>) -> MembershipCell {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (user.clone(), group.clone());
        let now = Instant::now();
        let fresh = |cell: &MembershipCell| cell.get().is_none_or(|(_, until)| now < *until);
        if let Some(cell) = answers.get(&key).filter(|cell| fresh(cell)) {
            return cell.clone();
        }
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, cell| fresh(cell));
            if answers.len() >= MAX_ANSWERS {
                answers.clear();
            }
        }
        let cell = MembershipCell::default();
        answers.insert(key, cell.clone());
        cell
    }

    async fn exchange(&self, user: &str, group: &str) -> Result<Membership, String> {
        let body = serde_json::json!({ "user_id": user, "group_id": group }).to_string();
        let mut request = Request::post(self.url.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .extension(NetworkReach::Configured)
            .body(Bytes::from(body))
            .map_err(|_| "its URL is not valid".to_owned())?;
        if let Some(token) = &self.token {
            let text = format!("Bearer {}", token.expose());
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| "its token is not a valid header value".to_owned())?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let response = self.http.fetch(request).await.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let reply: MembershipReply = serde_json::from_slice(response.body())
            .map_err(|_| "its answer has no `is_member`".to_owned())?;
        Ok(if reply.is_member { Membership::Yes } else { Membership::No })
    }
}
