//! The client of a call as the called server sees it: its capabilities, and who answers the server's questions.

use toolbooth_core::call::Sealed;
use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::RawJson;
use toolbooth_upstream::CallLink;

/// The method by which a server requests a completion from a model.
pub(crate) const SAMPLING: &str = "sampling/createMessage";

/// The client of a call as the called server sees it.
pub(crate) struct ClientChannel<'a> {
    /// The capabilities that the server is shown.
    pub(crate) client: &'a ClientFacts,
    /// The link that the server's questions are sent over.
    pub(crate) link: &'a CallLink,
    /// The party that answers sampling requests.
    pub(crate) sampling: SamplingBy,
}

/// The party that answers a server's sampling requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SamplingBy {
    /// The client, if it declared that it can.
    Client,
    /// The gateway's own model.
    Gateway,
}

impl<'a> ClientChannel<'a> {
    /// A channel on which the client answers all questions.
    pub(crate) fn to_client(call: &'a Sealed, link: &'a CallLink) -> Self {
        Self { client: call.client(), link, sampling: SamplingBy::Client }
    }

    /// Whether the gateway itself answers any of these questions of a modern server.
    pub(crate) fn gateway_answers(&self, requests: &RawJson) -> bool {
        let is_sampling = |request: &RawJson| {
            let method = request.member("method");
            method.as_ref().and_then(RawJson::string).is_some_and(|method| method == SAMPLING)
        };
        self.sampling == SamplingBy::Gateway
            && requests.members().unwrap_or_default().iter().any(|member| is_sampling(&member.value))
    }
}
