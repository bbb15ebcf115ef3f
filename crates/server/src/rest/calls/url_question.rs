//! The page that a server asks a person to open (URL elicitation). Only addresses that a person can judge are shown.

use serde::Serialize;
use url::{Host, Url};
use utoipa::ToSchema;

/// The longest URL of a question, in bytes.
const MAX_URL: usize = 8 << 10;

/// A page that a server asks the caller to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct QuestionPageView {
    /// The address: `https`, or `http` on this machine. Show it and its host, and open it only after a click.
    #[schema(max_length = 8192)]
    url: String,
    /// The host of the address, with its port if it is not the usual one. International names are in ASCII.
    host: String,
    /// Whether the server reported that the person has finished there. Only older servers report it.
    is_complete: bool,
}

impl QuestionPageView {
    /// Reads the URL of a question. Refuses one that a person should not open.
    pub(super) fn of(url: &str) -> Result<Self, &'static str> {
        if url.len() > MAX_URL {
            return Err("its URL is too long");
        }
        let url = Url::parse(url).map_err(|_| "its URL is not valid")?;
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err("its URL has no host"),
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && is_local) {
            return Err("its URL is neither https nor on this machine");
        }
        // The part before the `@` is easily taken for the host.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its URL contains a user name");
        }
        if url.as_str().len() > MAX_URL {
            return Err("its URL is too long");
        }
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok(Self { url: url.into(), host, is_complete: false })
    }

    /// The page after the server reported that the person has finished there.
    pub(super) fn completed(self) -> Self {
        Self { is_complete: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_a_person_can_judge_are_shown() {
        let cases = [
            ("https://bank.example/link?state=1", Ok("bank.example")),
            ("https://bank.example:8443/", Ok("bank.example:8443")),
            ("https://bänk.example/", Ok("xn--bnk-qla.example")),
            ("http://127.0.0.1:8000/done", Ok("127.0.0.1:8000")),
            ("http://localhost/done", Ok("localhost")),
            ("http://[::1]:9/", Ok("[::1]:9")),
            ("http://bank.example/", Err("neither https")),
            ("javascript:alert(1)", Err("no host")),
            ("data:text/html,x", Err("no host")),
            ("file:///etc/passwd", Err("no host")),
            ("ftp://bank.example/", Err("neither https")),
            ("https://bank.example@evil.example/", Err("user name")),
            ("https://", Err("not valid")),
            ("bank.example", Err("not valid")),
        ];
        for (url, expected) in cases {
            match (QuestionPageView::of(url), expected) {
                (Ok(page), Ok(host)) => assert_eq!(page.host, host, "{url}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{url}: {reason}"),
                (found, _) => panic!("{url}: {found:?}"),
            }
        }
        let long = format!("https://bank.example/{}", "a".repeat(MAX_URL));
        assert_eq!(QuestionPageView::of(&long), Err("its URL is too long"));
    }
}
