//! The operator's secrets, taken out of whatever a service says: some repeat the request they were sent.

use toolbooth_core::manifest::HttpRequest;
use toolbooth_core::secret::SecretText;

/// Shorter words are too common to be looked for.
const SHORTEST: usize = 6;
const REDACTED: &str = "[redacted]";

/// What must not be repeated.
#[derive(Default)]
pub(super) struct Quiet(Vec<String>);

impl std::fmt::Debug for Quiet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Quiet({})", self.0.len())
    }
}

impl Quiet {
    /// The secrets of a request: what variables stood for, and the values of headers that are credentials.
    pub(super) fn of(request: &HttpRequest) -> Self {
        let mut words = expanded(&request.url);
        for (name, value) in &request.headers {
            words.extend(expanded(value));
            let name = name.to_ascii_lowercase();
            let sounds = ["authorization", "cookie", "key", "token", "secret", "password"];
            if sounds.iter().any(|sound| name.contains(sound)) {
                // `Bearer …` is repeated with and without its first word.
                let last = value.expose().rsplit(' ').next().unwrap_or_default();
                words.push(last.to_owned());
            }
        }
        words.retain(|word| word.len() >= SHORTEST);
        // The longest first, so that no rest of one is left.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        Self(words)
    }

    /// The text without them.
    pub(super) fn hush(&self, text: String) -> String {
        let mut text = text;
        for word in &self.0 {
            if text.contains(word.as_str()) {
                text = text.replace(word.as_str(), REDACTED);
            }
        }
        text
    }
}

/// What the variables of a text stood for.
fn expanded(text: &SecretText) -> Vec<String> {
    let (template, value) = (text.shown(), text.expose());
    if template == value {
        return Vec::new();
    }
    let mut words = Vec::new();
    let mut rest = value;
    let mut pattern = template;
    while let Some((before, after)) = pattern.split_once("${") {
        let Some((_, after)) = after.split_once('}') else { break };
        let Some(tail) = rest.strip_prefix(before) else { return vec![value.to_owned()] };
        let next = after.split("${").next().unwrap_or_default();
        let end = if next.is_empty() { tail.len() } else { tail.find(next).unwrap_or(tail.len()) };
        words.push(tail[..end].to_owned());
        rest = &tail[end..];
        pattern = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_variables_stood_for_is_found() {
        let cases = [
            ("Bearer ${T}", "Bearer hunter2", vec!["hunter2"]),
            ("https://h/?key=${K}&x=${Y}", "https://h/?key=abc&x=d", vec!["abc", "d"]),
            ("plain", "plain", vec![]),
            ("${A}", "everything", vec!["everything"]),
        ];
        for (template, value, expected) in cases {
            assert_eq!(expanded(&SecretText::expanded(template, value)), expected, "{template}");
        }
    }
}
