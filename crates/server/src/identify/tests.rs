#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use toolbooth_core::caller::{Admin, CallerKind};
use toolbooth_core::fault::Problem;
use toolbooth_core::persona::{Inherit, Persona};
use toolbooth_core::secret::SecretText;
use toolbooth_core::token::TokenRecord;
use toolbooth_engine::clock::system_clock;
use toolbooth_upstream::oauth::{HttpError, HttpFetch};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers
            .append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// A refusal whose reason does not matter.
const REFUSED: Unidentified = Unidentified::Refused(RefusalReason::Other(""));

fn unexplained(unidentified: Unidentified) -> Unidentified {
    match unidentified {
        Unidentified::Refused(_) => REFUSED,
        other => other,
    }
}

static CLOCK: LazyLock<Arc<Clock>> = LazyLock::new(system_clock);

/// A gateway that issued no tokens.
struct NoBook;

#[async_trait]
impl TokenBook for NoBook {
    fn clock(&self) -> &Clock {
        &CLOCK
    }

    async fn find(&self, _: &str) -> Result<Option<TokenRecord>, Problem> {
        Ok(None)
    }
}

/// A gateway with one token, `good`, that the test may change.
struct Book(Mutex<TokenRecord>);

#[async_trait]
impl TokenBook for Book {
    fn clock(&self) -> &Clock {
        &CLOCK
    }

    async fn find(&self, bearer: &str) -> Result<Option<TokenRecord>, Problem> {
        let record = self.0.lock().unwrap().clone();
        Ok((TokenRecord::hash_of(bearer) == record.hash).then_some(record))
    }
}

#[tokio::test]
async fn a_token_is_valid_until_it_is_revoked() {
    let now = CLOCK.now_ms();
    let record = TokenRecord {
        id: "1".into(),
        hash: TokenRecord::hash_of("good"),
        user: "ann".into(),
        groups: vec!["ops".into()],
        persona: Some("dev".into()),
        note: None,
        created_ms: 0,
        expires_ms: Some(now + 60_000),
        revoked_ms: None,
    };
    let book = Book(Mutex::new(record.clone()));
    let authenticator = Authenticator::new(IdentifyMode::Token, "me", directory(), Resource::default());
    let identify = async |token: &str, persona| {
        let headers = headers(&[("authorization", &format!("Bearer {token}"))]);
        authenticator
            .identify(
                IdentifyRequest::Http {
                    headers: &headers,
                    resource: RequestedResource::Mcp { persona },
                    via: Ingress::Inside,
                },
                &book,
            )
            .await
            .map_err(unexplained)
    };
    let ann = identify("good", None).await.unwrap();
    assert_eq!((&*ann.user, ann.persona_name()), ("ann", Some("dev")));
    assert!(ann.groups.contains("ops") && ann.groups.contains("staff"), "the token's groups and the file's");
    assert!(identify("good", Some("dev")).await.is_ok());
    assert_eq!(
        identify("good", Some("audit")).await,
        Err(Unidentified::persona("audit")),
        "the token is bound to another persona"
    );
    assert_eq!(identify("bad", None).await, Err(REFUSED));
    *book.0.lock().unwrap() = record.revoke(now);
    authenticator.revoke("ann");
    assert_eq!(identify("good", None).await, Err(REFUSED), "revoked");
    *book.0.lock().unwrap() = TokenRecord { expires_ms: Some(now), ..record };
    assert_eq!(identify("good", None).await, Err(REFUSED), "expired");
}

fn directory() -> Directory {
    let persona = |name: &str, groups: Option<&[&str]>| {
        let groups = groups.map(|groups| groups.iter().map(|g| (*g).to_owned()).collect());
        (name.to_owned(), Arc::new(Persona::new(name, None, Inherit::Shared, groups).unwrap()))
    };
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    Directory {
        groups_of: [("ann".to_owned(), groups(&["staff"])), ("root".to_owned(), groups(&["keepers"]))].into(),
        admin_group: "keepers".into(),
        personas: [persona("dev", None), persona("audit", Some(&["auditors"]))].into(),
        ..Directory::default()
    }
}

fn proxied() -> Authenticator {
    let proxy = Proxy::new("X-User-Email", "X-Proxy-Secret", &SecretText::plain("let me in"));
    Authenticator::new(IdentifyMode::Header(proxy), "me", directory(), Resource::default())
}

#[tokio::test]
async fn a_proxy_is_trusted_only_with_its_secret() {
    let authenticator = proxied();
    let user = ("x-user-email", "ann");
    let secret = ("x-proxy-secret", "let me in");
    let long = "a".repeat(300);
    let direct = || Unidentified::NotProxied {
        user_header: "X-User-Email".into(),
        secret_header: "X-Proxy-Secret".into(),
    };
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Headers<'_>, Result<&str, Unidentified>); 13] = [
        (&[user, secret], Ok("ann")),
        (&[("X-User-Email", " ann "), secret], Ok("ann")),
        (&[user], Err(direct())),
        (&[secret], Err(direct())),
        (&[], Err(direct())),
        (&[user, ("x-proxy-secret", "let me")], Err(REFUSED)),
        (&[user, ("x-proxy-secret", "")], Err(REFUSED)),
        (&[user, secret, secret], Err(REFUSED)),
        (&[user, ("x-user-email", "root"), secret], Err(REFUSED)),
        (&[("x-user-email", "ann, root"), secret], Err(REFUSED)),
        (&[("x-user-email", ""), secret], Err(REFUSED)),
        (&[("x-user-email", &long), secret], Err(REFUSED)),
        (&[("authorization", "Bearer x"), user], Err(direct())),
    ];
    for (shown, expected) in cases {
        let found = authenticator
            .identify(
                IdentifyRequest::Http {
                    headers: &headers(shown),
                    resource: RequestedResource::Api,
                    via: Ingress::Inside,
                },
                &NoBook,
            )
            .await;
        let found = found.map(|caller| caller.user.to_string()).map_err(unexplained);
        assert_eq!(found, expected.map(str::to_owned), "{shown:?}");
    }
}

#[tokio::test]
async fn rights_come_from_the_directory() {
    let authenticator = proxied();
    let as_user = |user| headers(&[("x-user-email", user), ("x-proxy-secret", "let me in")]);
    let identify = async |user| {
        let headers = as_user(user);
        authenticator
            .identify(
                IdentifyRequest::Http {
                    headers: &headers,
                    resource: RequestedResource::Api,
                    via: Ingress::Inside,
                },
                &NoBook,
            )
            .await
            .unwrap()
    };
    let (ann, root, bob) = (identify("ann").await, identify("root").await, identify("bob").await);
    assert!(ann.groups.contains("staff") && ann.groups.contains("users") && !ann.groups.contains("keepers"));
    assert_eq!([ann.admin, root.admin, bob.admin], [Admin::No, Admin::Yes, Admin::No]);
    assert_eq!(ann.kind, CallerKind::Guest);
    let socket = authenticator.identify(IdentifyRequest::Socket { persona: None }, &NoBook).await.unwrap();
    assert_eq!((&*socket.user, socket.admin, socket.kind), ("me", Admin::No, CallerKind::Guest));
    assert!(Arc::ptr_eq(&ann, &identify("ann").await), "cached");
    assert_eq!(authenticator.set_directory(directory()), DirectoryChange::None);
    assert_eq!(authenticator.set_directory(Directory::default()), DirectoryChange::Some);
    assert!(!identify("ann").await.groups.contains("staff"), "a new directory is in force at once");
}

/// The rights that the user of an earlier call has now, if identified by `by`.
async fn later(
    authenticator: &Authenticator,
    user: &str,
    by: Option<IdentifiedBy>,
    tokens: &[TokenRecord],
) -> String {
    let who = AbsentCaller { user, persona: None, session: None, level: None, identified_by: by.as_ref() };
    match authenticator.absent(who, tokens, None, &CLOCK).await.unwrap() {
        Rights::Known(caller) => format!("{} {:?} {:?}", caller.user, caller.kind, caller.admin),
        Rights::Gone => "gone".to_owned(),
        Rights::Unknown(_) => "unknown".to_owned(),
    }
}

fn token_of(user: &str) -> TokenRecord {
    TokenRecord {
        id: "1".into(),
        hash: TokenRecord::hash_of("good"),
        user: user.into(),
        groups: Vec::new(),
        persona: None,
        note: None,
        created_ms: 0,
        expires_ms: None,
        revoked_ms: None,
    }
}

#[tokio::test]
async fn the_operator_shares_no_rights_with_a_user_of_the_same_name() {
    let tokens = [token_of("me")];
    let book = Book(Mutex::new(tokens[0].clone()));
    let authenticator = Authenticator::new(IdentifyMode::Token, "me", directory(), Resource::default());
    let none = headers(&[]);
    let control =
        IdentifyRequest::Http { headers: &none, resource: RequestedResource::Api, via: Ingress::Control };
    let operator = authenticator.identify(control, &book).await.unwrap();
    assert_eq!((operator.admin, operator.kind), (Admin::Yes, CallerKind::Owner));
    let shown = headers(&[("authorization", "Bearer good")]);
    let guest =
        IdentifyRequest::Http { headers: &shown, resource: RequestedResource::Api, via: Ingress::Inside };
    let guest = authenticator.identify(guest, &book).await.unwrap();
    assert_eq!((&*guest.user, guest.admin), ("me", Admin::No));
    assert_ne!(operator.user, guest.user, "they own nothing in common");

    let local = Authenticator::local("me");
    let by_token = || Some(IdentifiedBy::Token("1".into()));
    let other = || Some(IdentifiedBy::Other("passkey".into()));
    let cases = [
        // The mode is `token`.
        (&authenticator, &*operator.user, Some(operator.identified_by.clone()), "operator:me Owner Yes"),
        (&authenticator, &*operator.user, Some(IdentifiedBy::Any), "operator:me Owner Yes"),
        (&authenticator, "operator:you", Some(IdentifiedBy::Operator), "gone"),
        (&authenticator, "me", Some(IdentifiedBy::Operator), "gone"),
        (&authenticator, "me", by_token(), "me Guest No"),
        (&authenticator, "me", Some(IdentifiedBy::Name), "me Guest No"),
        (&authenticator, "ann", Some(IdentifiedBy::Name), "gone"),
        (&authenticator, "me", other(), "gone"),
        // After a restart in `local` mode.
        (&local, &*operator.user, Some(IdentifiedBy::Operator), "operator:me Owner Yes"),
        (&local, "me", Some(IdentifiedBy::Name), "me Owner Yes"),
        (&local, "me", None, "me Owner Yes"),
        (&local, "me", by_token(), "gone"),
        (&local, "me", Some(IdentifiedBy::SignedToken), "gone"),
        (&local, "me", other(), "gone"),
    ];
    for (authenticator, user, by, expected) in cases {
        let found = later(authenticator, user, by.clone(), &tokens).await;
        assert_eq!(found, expected, "{user} {by:?}");
    }
}

#[tokio::test]
async fn no_credential_names_the_operator() {
    let book = Book(Mutex::new(token_of("operator:me")));
    let authenticator = Authenticator::new(IdentifyMode::Token, "me", directory(), Resource::default());
    let shown = headers(&[("authorization", "Bearer good")]);
    let request =
        IdentifyRequest::Http { headers: &shown, resource: RequestedResource::Api, via: Ingress::Inside };
    assert_eq!(authenticator.identify(request, &book).await.map_err(unexplained), Err(REFUSED));
    let shown = headers(&[("x-user-email", "operator:me"), ("x-proxy-secret", "let me in")]);
    let request =
        IdentifyRequest::Http { headers: &shown, resource: RequestedResource::Api, via: Ingress::Inside };
    assert_eq!(proxied().identify(request, &NoBook).await.map_err(unexplained), Err(REFUSED));
}

#[tokio::test]
async fn unknown_and_forbidden_personas_read_the_same() {
    let (proxied, local) = (proxied(), Authenticator::local("me"));
    let _ = local.set_directory(directory());
    let shown = [("x-user-email", "ann"), ("x-proxy-secret", "let me in")];
    type Case<'a> =
        (&'a Authenticator, Option<&'a str>, &'a [(&'a str, &'a str)], Result<Option<&'a str>, &'a str>);
    let cases: [Case<'_>; 9] = [
        (&proxied, None, &[], Ok(None)),
        (&proxied, Some("dev"), &[], Ok(Some("dev"))),
        (&proxied, None, &[(PERSONA_HEADER.as_str(), "dev")], Ok(Some("dev"))),
        (&proxied, Some("dev"), &[(PERSONA_HEADER.as_str(), "audit")], Err("audit")),
        (&proxied, Some("audit"), &[], Err("audit")),
        (&proxied, Some("missing"), &[], Err("missing")),
        (&proxied, None, &[(PERSONA_HEADER.as_str(), "dev"), (PERSONA_HEADER.as_str(), "dev")], Err("?")),
        (&local, Some("audit"), &[], Ok(Some("audit"))),
        (&local, Some("missing"), &[], Err("missing")),
    ];
    for (authenticator, persona, more, expected) in cases {
        let headers = headers(&[&shown, more].concat());
        let found = authenticator
            .identify(
                IdentifyRequest::Http {
                    headers: &headers,
                    resource: RequestedResource::Mcp { persona },
                    via: Ingress::Inside,
                },
                &NoBook,
            )
            .await;
        let found = found.map(|caller| caller.persona_name().map(str::to_owned));
        let expected = expected.map(|name| name.map(str::to_owned)).map_err(Unidentified::persona);
        assert_eq!(found, expected, "{persona:?} {more:?}");
    }
}

#[test]
fn a_bearer_token_must_be_given_once() {
    let cases: [(&[&str], Result<&str, Unidentified>); 8] = [
        (&["Bearer abc.DEF-_~+/="], Ok("abc.DEF-_~+/=")),
        (&["bearer abc"], Ok("abc")),
        (&[], Err(Unidentified::Missing)),
        (&["Basic YTpi"], Err(REFUSED)),
        (&["Bearer"], Err(REFUSED)),
        (&["Bearer a b"], Err(REFUSED)),
        (&["Bearer a", "Bearer a"], Err(REFUSED)),
        (&["Bearer a,Bearer b"], Err(REFUSED)),
    ];
    for (values, expected) in cases {
        let pairs: Vec<_> = values.iter().map(|value| (AUTHORIZATION.as_str(), *value)).collect();
        assert_eq!(bearer::token(&headers(&pairs)).map_err(unexplained), expected, "{values:?}");
    }
}

#[test]
fn a_rejected_client_learns_where_to_get_a_token() {
    use metadata::{AuthChallenge, CredentialState};
    let resource = Resource {
        challenge: AuthChallenge::Bearer,
        public_url: Some("https://booth.example/".into()),
        issuer: Some("https://id.example".into()),
        scopes: Vec::new(),
    };
    let none = HeaderMap::new();
    let well_known = "https://booth.example/.well-known/oauth-protected-resource";
    let challenge = |path, shown| resource.challenge(&none, path, shown).unwrap();
    assert_eq!(
        challenge("/mcp", CredentialState::Missing),
        format!("Bearer resource_metadata=\"{well_known}/mcp\"")
    );
    assert_eq!(
        challenge("/mcp/p/dev", CredentialState::Invalid(None)),
        format!("Bearer error=\"invalid_token\", resource_metadata=\"{well_known}/mcp/p/dev\"")
    );
    assert_eq!(
        challenge("/tools", CredentialState::Missing),
        format!("Bearer resource_metadata=\"{well_known}\"")
    );
    let why = RefusalReason::Expired.for_client();
    let described =
        format!("error_description=\"the token has expired\", resource_metadata=\"{well_known}\"");
    assert_eq!(
        challenge("/tools", CredentialState::Invalid(why)),
        format!("Bearer error=\"invalid_token\", {described}")
    );
    let described = |path: &str| resource.describe(&none, &format!("{}{path}", metadata::WELL_KNOWN));
    let resources: Vec<Value> =
        ["", "/mcp", "/mcp/p/dev"].iter().map(|p| described(p).unwrap()["resource"].clone()).collect();
    assert_eq!(
        resources,
        ["https://booth.example", "https://booth.example/mcp", "https://booth.example/mcp/p/dev"]
    );
    assert_eq!(described("/mcp").unwrap()["authorization_servers"], json!(["https://id.example"]));
    assert_eq!(
        (described("/other"), Resource::default().describe(&none, metadata::WELL_KNOWN)),
        (None, None)
    );
}

/// A group service with a fixed answer that counts its requests.
struct Service {
    answer: &'static str,
    status: u16,
    asked: AtomicUsize,
}

#[async_trait]
impl HttpFetch for Service {
    async fn fetch(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let asked: Value = serde_json::from_slice(request.body()).unwrap();
        let answer = self.answer.replace("STAFF", &(asked["group_id"] == "staff").to_string());
        let mut response = Response::new(Bytes::from(answer));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap();
        Ok(response)
    }
}

#[tokio::test]
async fn a_group_service_is_asked_once_and_its_failures_mean_no_membership() {
    let cases = [
        (r#"{"is_member":STAFF}"#, 200, true),
        (r#"{"is_member":STAFF,"more":1}"#, 200, true),
        (r#"{"is_member":"true"}"#, 200, false),
        (r#"{"is_member":1}"#, 200, false),
        (r#"{}"#, 200, false),
        ("", 200, false),
        (r#"{"is_member":true}"#, 500, false),
        (r#"{"is_member":true}"#, 302, false),
    ];
    for (answer, status, member) in cases {
        let http = Arc::new(Service { answer, status, asked: AtomicUsize::new(0) });
        let service =
            Arc::new(GroupService::new(http.clone(), "http://groups.example", None, Duration::from_secs(60)));
        let directory = Directory {
            named: vec!["staff".into(), "ops".into()],
            service: Some(service),
            ..Directory::default()
        };
        let claimed = || ClaimedIdentity { user: "ann".into(), ..ClaimedIdentity::default() };
        let (one, two) =
            tokio::join!(directory.grant(claimed(), None, None), directory.grant(claimed(), None, None));
        for caller in [one.unwrap(), two.unwrap()] {
            assert_eq!(caller.groups.contains("staff"), member, "{answer} {status}");
            assert!(!caller.groups.contains("ops"), "{answer} {status}");
        }
        assert_eq!(http.asked.load(Ordering::SeqCst), 2, "once per group for concurrent lookups: {answer}");
    }
}
