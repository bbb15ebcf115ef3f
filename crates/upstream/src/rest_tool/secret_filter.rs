//! Masks the operator's secrets in responses of services: some repeat the request they received.

use toolbooth_core::manifest::HttpRequest;

/// Shorter words are too common to be masked.
const SHORTEST: usize = 6;
const REDACTED: &str = "[redacted]";

/// The secrets to mask.
#[derive(Default)]
pub(super) struct SecretFilter(Vec<String>);

impl std::fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretFilter({})", self.0.len())
    }
}

impl SecretFilter {
    /// The secrets of a request, by the same rules as for a server: credentials in the URL, and in headers
    /// every variable that may be one. Responses are data, so other variables are not masked.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let mut words = request.url.credentials();
        for (name, value) in &request.headers {
            words.extend(value.secrets());
            let name = name.to_ascii_lowercase();
            let markers = ["authorization", "cookie", "key", "token", "secret", "password"];
            if markers.iter().any(|marker| name.contains(marker)) {
                // `Bearer …` may be repeated with and without its first word.
                words.extend(value.expose().rsplit(' ').next());
            }
        }
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        words.retain(|word| word.len() >= SHORTEST);
        // The longest first, so that no remainder of one is left.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        Self(words)
    }

    /// Returns the text with the secrets masked.
    pub(super) fn redact(&self, text: String) -> String {
        let mut text = text;
        for word in &self.0 {
            if text.contains(word.as_str()) {
                text = text.replace(word.as_str(), REDACTED);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolbooth_core::manifest::HttpMethod;
    use toolbooth_core::secret::SecretText;

    #[test]
    fn credentials_are_masked_and_plain_values_stay() {
        let url = "https://${HOST}/${TABLE}?key=${K}";
        let value = "https://api.example.com/customers?key=orange-key";
        let header = |name: &str, template: &str, value: &str| {
            (name.to_owned(), SecretText::expanded(template, value))
        };
        let request = HttpRequest {
            method: HttpMethod::Get,
            url: SecretText::expanded(url, value),
            headers: vec![
                header("Authorization", "Bearer ${T}", "Bearer hunter2"),
                header("X-Api-Key", "literal-key", "literal-key"),
                header("X-Org", "${ORG}", "warehouse"),
                header("X-Base", "${BASE:-plain-words}", "plain-words"),
            ],
            query: None,
            body: None,
            allow_private: false,
        };
        let text = "api.example.com customers plain-words orange-key hunter2 literal-key warehouse";
        let masked = SecretFilter::of(&request).redact(text.to_owned());
        let expected = "api.example.com customers plain-words [redacted] [redacted] [redacted] [redacted]";
        assert_eq!(masked, expected);
    }
}
