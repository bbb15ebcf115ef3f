//! A running gateway, reached over REST.

use crate::control;
use crate::exit::Exit;
use crate::failure::{CommandFailure, FaultReport};
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toolbooth_core::secret::SecretText;
use toolbooth_server::identify::{FOLDER_HEADER, PERSONA_HEADER};
use toolbooth_upstream::http::{HttpOrigin, OriginClient, OriginError};

/// A name as one segment of a path.
pub use toolbooth_core::percent::encoded as segment;

/// How long a local gateway may take to answer the health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a gateway may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take: longer than any call.
const ANSWER: Duration = Duration::from_secs(3600 * 24);
/// The maximum size of an answer.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// The reason of a timeout.
const SILENT: &str = "it did not answer";

/// A running gateway.
pub struct RemoteGateway {
    client: Arc<OriginClient>,
    /// Its URL, for messages.
    pub url: String,
    base: String,
    token: Option<SecretText>,
    persona: Option<String>,
    /// The folder of this command, for the servers of its clients.
    folder: Option<String>,
    /// The control socket, if requests use it.
    control: Option<PathBuf>,
}

/// The answer of a gateway.
pub struct GatewayReply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl RemoteGateway {
    /// Whether it answers the health check.
    pub async fn is_alive(&self) -> bool {
        let answer = tokio::time::timeout(HEALTH_TIMEOUT, self.ask(Method::GET, "/health", None)).await;
        matches!(answer, Ok(Ok(reply)) if reply.status.is_success())
    }

    /// The gateway at a URL, such as `http://127.0.0.1:8665`.
    pub fn at(url: &str) -> Result<Self, CommandFailure> {
        // Users often give only host and port.
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let origin = HttpOrigin::parse(&whole).map_err(|error| match error {
            OriginError::OtherKind(_) => CommandFailure::misuse(
                "usage.url",
                format!("`{url}` is not a valid gateway URL"),
                Some("use the form http://HOST:PORT"),
            ),
            OriginError::UserInfo => CommandFailure::misuse(
                "usage.url",
                error.to_string(),
                Some("use a token in TOOLBOOTH_TOKEN instead"),
            ),
        })?;
        let path = origin.path.trim_end_matches('/');
        let base = path.strip_suffix("/mcp").unwrap_or(path).to_owned();
        let url = format!("{}://{}{base}", origin.scheme, origin.authority);
        Ok(Self {
            client: OriginClient::new(origin, CONNECT),
            url,
            base,
            token: None,
            persona: None,
            folder: None,
            control: None,
        })
    }

    /// Sends all further requests over the control socket.
    pub fn set_control(&mut self, socket: Option<PathBuf>) {
        self.control = socket;
    }

    /// Whether requests use the control socket.
    pub fn uses_control(&self) -> bool {
        self.control.is_some()
    }

    /// Sends this token with all further requests. With a token, requests do not use the control socket.
    pub fn set_token(&mut self, token: Option<String>) {
        if token.is_some() {
            self.control = None;
        }
        self.token = token.map(|token| SecretText::expanded("${TOOLBOOTH_TOKEN}", token));
    }

    /// Whether requests have a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sets the persona of all further requests.
    pub fn set_persona(&mut self, persona: Option<String>) {
        self.persona = persona;
    }

    /// Sets the folder of all further requests. A path that is not plain ASCII is not sent.
    pub fn set_folder(&mut self, folder: &Path) {
        let text = folder.to_str().filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        self.folder = text.map(str::to_owned);
    }

    /// Sends a request and reads the answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<GatewayReply, CommandFailure> {
        let mut request = self.head(method, path);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|_| self.unreachable("the request cannot be written"))?;
        if let Some(socket) = &self.control {
            let answer = control::send(socket, request.map(Body::new));
            let answer = tokio::time::timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(SILENT.into()));
            return Ok(GatewayReply::of(answer.map_err(|why| self.unreachable(&why))?).await);
        }
        let asked = tokio::time::timeout(ANSWER, async {
            let (response, _connection) =
                self.client.send(request).await.map_err(|failure| self.unreachable(reason(&failure)))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
            let body = body.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
            Ok(GatewayReply { status, body })
        });
        asked.await.unwrap_or_else(|_| Err(self.unreachable(SILENT)))
    }

    /// Sends a streaming request and returns the response unread.
    pub async fn stream(
        &self,
        method: Method,
        path: &str,
        length: Option<u64>,
        body: Body,
    ) -> Result<Response<Body>, CommandFailure> {
        let mut request = self.head(method, path);
        if let Some(length) = length {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        let request = request.body(body).map_err(|_| self.unreachable("the request cannot be written"))?;
        if let Some(socket) = &self.control {
            return control::send(socket, request).await.map_err(|why| self.unreachable(&why));
        }
        let answer = self.client.send_streaming(request).await;
        Ok(answer.map_err(|failure| self.unreachable(reason(&failure)))?.map(Body::new))
    }

    fn head(&self, method: Method, path: &str) -> http::request::Builder {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::HOST, self.client.origin().authority.as_str())
            .header(header::ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        if let Some(persona) = &self.persona {
            request = request.header(&PERSONA_HEADER, persona);
        }
        if let Some(folder) = &self.folder {
            request = request.header(&FOLDER_HEADER, folder);
        }
        request
    }

    fn unreachable(&self, why: &str) -> CommandFailure {
        let fault = FaultReport {
            code: "gateway.unreachable".to_owned(),
            blame: "gateway".to_owned(),
            message: format!("the gateway at {} cannot be reached: {why}", self.url),
            hint: Some(
                "check that it is running; without --url and TOOLBOOTH_URL the local one is used".to_owned(),
            ),
        };
        CommandFailure::new(Exit::Unreachable, fault)
    }
}

fn reason(failure: &toolbooth_upstream::http::SendError) -> &str {
    match failure {
        toolbooth_upstream::http::SendError::NotSent(why)
        | toolbooth_upstream::http::SendError::Broken(why) => why,
    }
}

impl GatewayReply {
    /// Reads a response into memory; only for short ones.
    pub async fn of(response: Response<Body>) -> Self {
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        Self { status, body: body.map(|body| body.to_bytes()).unwrap_or_default() }
    }

    /// The body of a successful answer, or the fault that the gateway reports.
    pub fn good(self) -> Result<Bytes, CommandFailure> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |key: &str| document[key].as_str().map(str::to_owned);
        let Some(code) = text("code") else { return Err(self.not_a_gateway()) };
        let exit = match code.as_str() {
            "call.refused" | "call.compliance" | "auth.admin-only" | "persona.unknown" => Exit::Refused,
            "call.rejected" | "call.approval-timeout" | "call.rights-gone" | "approval.not-yours" => {
                Exit::Refused
            }
            "auth.required" | "auth.refused" => Exit::Refused,
            "gateway.not-running" => Exit::Unreachable,
            "search.bad-pattern" | "search.pattern-too-large" | "search.blank" | "search.too-many" => {
                Exit::Usage
            }
            "call.invalid-arguments" | "call.arguments-not-object" => Exit::Usage,
            _ => Exit::Failed,
        };
        let fault = FaultReport {
            blame: text("blame").unwrap_or_else(|| "gateway".to_owned()),
            message: text("title").unwrap_or_else(|| format!("the gateway answered {}", self.status)),
            hint: text("hint"),
            code,
        };
        Err(CommandFailure::new(exit, fault))
    }

    /// The failure of an answer that is not a problem document of a gateway.
    fn not_a_gateway(&self) -> CommandFailure {
        let (exit, code, message, hint) = match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (
                Exit::Refused,
                "gateway.not-admitted",
                format!("the gateway refused the request ({})", self.status.as_u16()),
                "store its token with `toolbooth login`, or set TOOLBOOTH_TOKEN",
            ),
            status => (
                Exit::Unreachable,
                "gateway.stranger",
                format!("the answer is not from a Toolbooth gateway (status {})", status.as_u16()),
                "check --url and TOOLBOOTH_URL",
            ),
        };
        CommandFailure::new(
            exit,
            FaultReport {
                code: code.to_owned(),
                blame: "gateway".to_owned(),
                message,
                hint: Some(hint.to_owned()),
            },
        )
    }
}
