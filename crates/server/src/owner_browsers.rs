//! Browsers that the owner of a gateway in `local` mode has opened with `toolbooth console`.
//!
//! In `local` mode a request over TCP has no credential: every program of the user can send one, also a tool that sends
//! requests for a model. `toolbooth console` gets a code over the control socket, which such a tool cannot reach, and opens
//! the console with it. The page exchanges the code for a cookie. The secrets are in memory only, as digests, so they end
//! with the gateway.

use crate::console_cookies::ConsoleCookie;
use crate::peer::Ingress;
use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use toolbooth_core::clock::{Clock, milliseconds};
use toolbooth_core::fault::{Problem, no_randomness};
use toolbooth_core::hex;
use toolbooth_core::secret::SecretText;

/// The operation that fails without random numbers.
const FAILED: &str = "no code could be made";

/// How long a code is valid.
pub const CODE_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// How long a browser counts as the owner's.
pub const BROWSER_LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Maximum number of codes that are not used yet; a new one replaces the oldest.
const MAX_CODES: usize = 4;
/// Maximum number of browsers; a new one replaces the oldest.
const MAX_BROWSERS: usize = 16;
/// The length of a code: 128 bits.
const CODE_BYTES: usize = 16;
/// The length of the secret in a cookie: 256 bits.
const COOKIE_BYTES: usize = 32;

/// The codes and browsers of one run of a gateway.
#[derive(Debug)]
pub struct OwnerBrowsers {
    clock: Arc<Clock>,
    secrets: Mutex<OwnerSecrets>,
}

/// The digests of all valid secrets, the oldest first.
#[derive(Debug, Default)]
struct OwnerSecrets {
    codes: VecDeque<ExpiringDigest>,
    browsers: VecDeque<ExpiringDigest>,
}

/// The digest of a secret that expires.
#[derive(Debug)]
struct ExpiringDigest {
    digest: [u8; 32],
    ends_ms: i64,
}

impl OwnerBrowsers {
    /// No code and no browser yet.
    pub fn new(clock: Arc<Clock>) -> Self {
        Self { clock, secrets: Mutex::default() }
    }

    /// Makes a code that opens one browser.
    pub fn make_code(&self) -> Result<SecretText, Problem> {
        let (mut secrets, now_ms) = self.current();
        add::<CODE_BYTES>(&mut secrets.codes, MAX_CODES, ends_ms(now_ms, CODE_LIFETIME))
    }

    /// Exchanges a code for the secret of a browser's cookie; `None` if the code is not valid. A code works once.
    pub fn exchange(&self, code: &str) -> Result<Option<SecretText>, Problem> {
        let (mut secrets, now_ms) = self.current();
        let Some(index) = position(&secrets.codes, code) else { return Ok(None) };
        secrets.codes.remove(index);
        let ends_ms = ends_ms(now_ms, BROWSER_LIFETIME);
        add::<COOKIE_BYTES>(&mut secrets.browsers, MAX_BROWSERS, ends_ms).map(Some)
    }

    /// Whether a request comes from a page of this gateway in a browser of the owner.
    pub fn sent(&self, headers: &HeaderMap, via: Ingress) -> bool {
        matches!(via, Ingress::Network(_)) && is_own_page(headers) && self.has_cookie(headers)
    }

    /// Whether a request that changes nothing comes from a browser of the owner. Browsers do not name the Origin of such a
    /// request, and do not give its answer to pages of other origins.
    pub fn reads(&self, headers: &HeaderMap, via: Ingress) -> bool {
        let is_own = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin");
        matches!(via, Ingress::Network(_)) && is_own && self.has_cookie(headers)
    }

    /// Whether a request has the cookie of a browser of the owner.
    pub fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let values = ConsoleCookie::Owner.values(headers, None);
        if values.is_empty() {
            return false;
        }
        let (secrets, _) = self.current();
        values.iter().any(|secret| position(&secrets.browsers, secret).is_some())
    }

    /// The secrets that have not expired, and the time.
    fn current(&self) -> (MutexGuard<'_, OwnerSecrets>, i64) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.clock.now_ms();
        secrets.codes.retain(|code| now_ms < code.ends_ms);
        secrets.browsers.retain(|browser| now_ms < browser.ends_ms);
        (secrets, now_ms)
    }
}

/// Whether the page that sent a request has the gateway's own origin. Browsers name the Origin of every request that
/// changes something, and current ones also say how it relates to the gateway.
pub fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN).and_then(|origin| origin.split_once("://"));
    let is_host = origin.zip(text(HOST)).is_some_and(|((_, page), host)| page.eq_ignore_ascii_case(host));
    is_host && headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin")
}

/// Adds a new secret to a list, in place of the oldest if the list is full.
fn add<const BYTES: usize>(
    list: &mut VecDeque<ExpiringDigest>,
    limit: usize,
    ends_ms: i64,
) -> Result<SecretText, Problem> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|_| no_randomness(FAILED))?;
    let secret = hex::encode(&bytes);
    while list.len() >= limit {
        list.pop_front();
    }
    list.push_back(ExpiringDigest { digest: digest_of(&secret), ends_ms });
    Ok(SecretText::expanded("${owner}", secret))
}

/// The place of a secret in a list. All digests are compared, in constant time.
fn position(list: &VecDeque<ExpiringDigest>, secret: &str) -> Option<usize> {
    let digest = digest_of(secret);
    list.iter().enumerate().fold(None, |found, (index, one)| match bool::from(one.digest.ct_eq(&digest)) {
        true => Some(index),
        false => found,
    })
}

/// The secret is random and long, so one pass of the hash is enough.
fn digest_of(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn ends_ms(now_ms: i64, lifetime: Duration) -> i64 {
    now_ms.saturating_add(milliseconds(lifetime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::COOKIE;
    use std::net::{IpAddr, Ipv4Addr};
    use toolbooth_engine::clock::system_clock;

    const NETWORK: Ingress = Ingress::Network(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn browsers() -> OwnerBrowsers {
        OwnerBrowsers::new(system_clock())
    }

    fn code(browsers: &OwnerBrowsers) -> String {
        browsers.make_code().expect("a code").expose().to_owned()
    }

    fn exchange(browsers: &OwnerBrowsers, code: &str) -> Option<String> {
        browsers.exchange(code).expect("random numbers").map(|secret| secret.expose().to_owned())
    }

    /// The headers of a request that the console's page sends with this cookie.
    fn request(secret: &str) -> HeaderMap {
        let cookie = format!("toolbooth-owner-8665={secret}");
        [
            (HOST, HeaderValue::from_static("127.0.0.1:8665")),
            (ORIGIN, HeaderValue::from_static("http://127.0.0.1:8665")),
            (COOKIE, HeaderValue::from_str(&cookie).expect("ASCII")),
        ]
        .into_iter()
        .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_works_once_and_for_five_minutes() {
        let browsers = browsers();
        let (used, late) = (code(&browsers), code(&browsers));
        let secret = exchange(&browsers, &used).expect("valid");
        assert!(browsers.has_cookie(&request(&secret)));
        assert_eq!(exchange(&browsers, &used), None, "once");
        for guess in ["", &used[1..], &*secret] {
            assert_eq!(exchange(&browsers, guess), None, "{guess}");
        }
        for guess in ["", &used, &secret[1..]] {
            assert!(!browsers.has_cookie(&request(guess)), "{guess}");
        }
        tokio::time::advance(CODE_LIFETIME).await;
        assert_eq!(exchange(&browsers, &late), None, "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_is_the_owners_for_twelve_hours() {
        let browsers = browsers();
        let secret = exchange(&browsers, &code(&browsers)).expect("valid");
        tokio::time::advance(BROWSER_LIFETIME / 2).await;
        assert!(browsers.has_cookie(&request(&secret)), "half of the time");
        tokio::time::advance(BROWSER_LIFETIME / 2).await;
        assert!(!browsers.has_cookie(&request(&secret)), "all of the time");
    }

    #[tokio::test]
    async fn new_codes_and_browsers_replace_the_oldest() {
        let browsers = browsers();
        let codes: Vec<String> = (0..=MAX_CODES).map(|_| code(&browsers)).collect();
        assert_eq!(exchange(&browsers, &codes[0]), None);
        let opened: Vec<String> = codes[1..].iter().filter_map(|code| exchange(&browsers, code)).collect();
        assert_eq!(opened.len(), MAX_CODES);
        for _ in 0..MAX_BROWSERS {
            exchange(&browsers, &code(&browsers)).expect("valid");
        }
        assert!(opened.iter().all(|secret| !browsers.has_cookie(&request(secret))));
    }

    #[tokio::test]
    async fn only_the_own_page_in_a_browser_of_the_owner_counts() {
        let browsers = browsers();
        let secret = exchange(&browsers, &code(&browsers)).expect("valid");
        let cases: [(Option<&str>, Option<&str>, bool); 8] = [
            (Some("http://127.0.0.1:8665"), None, true),
            (Some("http://127.0.0.1:8665"), Some("same-origin"), true),
            (Some("http://127.0.0.1:8665"), Some("same-site"), false),
            (Some("http://127.0.0.1:8665"), Some("none"), false),
            (Some("http://127.0.0.1:3000"), None, false),
            (Some("http://localhost:8665"), None, false),
            (Some("null"), None, false),
            (None, None, false),
        ];
        for (origin, site, expected) in cases {
            let mut headers = request(&secret);
            headers.remove(ORIGIN);
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            if let Some(site) = site {
                headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            }
            assert_eq!(browsers.sent(&headers, NETWORK), expected, "{origin:?} {site:?}");
            assert!(!browsers.sent(&headers, Ingress::Inside));
            // Only the site counts for a request that changes nothing.
            let may_read = matches!(site, None | Some("same-origin"));
            assert_eq!(browsers.reads(&headers, NETWORK), may_read, "{origin:?} {site:?}");
        }
        assert!(!browsers.sent(&request("0"), NETWORK), "another cookie");
        assert!(
            !browsers.reads(&request("0"), NETWORK) && !browsers.reads(&request(&secret), Ingress::Inside)
        );
        let other_gateway = OwnerBrowsers::new(system_clock());
        assert!(!other_gateway.sent(&request(&secret), NETWORK));
    }
}
