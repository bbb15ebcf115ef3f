//! The provider's answer to an authorization request.

use super::error::LoginError;
use url::form_urlencoded::parse;

/// Maximum length of the query with an answer.
const MAX_ANSWER: usize = 8192;
/// Maximum number of parameters in an answer.
const MAX_PARAMETERS: usize = 32;

/// The answer of the provider in the URL to which it sent the browser.
#[derive(Debug, Default)]
pub struct LoginAnswer {
    pub(crate) state: String,
    pub(super) code: Option<String>,
    pub(super) error: Option<String>,
    pub(super) issuer: Option<String>,
}

impl LoginAnswer {
    /// Reads the query of the URL to which the provider sent the browser. Repeated parameters are refused.
    pub fn read(query: &str) -> Result<Self, LoginError> {
        let mut answer = Self::default();
        if query.len() > MAX_ANSWER {
            return Err(LoginError::Foreign);
        }
        let mut state = None;
        for (number, (name, value)) in parse(query.as_bytes()).enumerate() {
            let place = match &*name {
                _ if number >= MAX_PARAMETERS => return Err(LoginError::Foreign),
                "state" => &mut state,
                "code" => &mut answer.code,
                "error" => &mut answer.error,
                "iss" => &mut answer.issuer,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(LoginError::Foreign);
            }
        }
        answer.state = state.ok_or(LoginError::Foreign)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_each_parameter_once() {
        let answer = LoginAnswer::read("code=a%20b&state=s&session_state=x&iss=https%3A%2F%2Fid.example")
            .expect("read");
        assert_eq!((answer.state.as_str(), answer.code.as_deref()), ("s", Some("a b")));
        assert_eq!((answer.issuer.as_deref(), answer.error), (Some("https://id.example"), None));
        let many = "x=1&".repeat(MAX_PARAMETERS + 1);
        let long = format!("state=s&code={}", "x".repeat(MAX_ANSWER));
        let refused = [
            "",
            "code=a",
            "state=s&state=s&code=a",
            "state=s&code=a&code=b",
            &format!("{many}state=s"),
            &long,
        ];
        for query in refused {
            assert!(LoginAnswer::read(query).is_err(), "{query}");
        }
    }
}
