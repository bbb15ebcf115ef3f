//! Parses `WWW-Authenticate` headers of refused requests.
//!
//! Written by hand because real servers omit the quotes around URLs, which strict parsers reject.

const MAX_HEADER_BYTES: usize = 8 * 1024;

/// The parameters of the first Bearer challenge; all absent if the header has no such challenge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct BearerChallenge {
    /// The URL of the protected resource's metadata.
    pub(super) resource_metadata: Option<String>,
    /// The scopes that the refused request needs.
    pub(super) scope: Option<String>,
    /// Why it was refused.
    pub(super) error: Option<String>,
}

impl BearerChallenge {
    /// Parses a header; several headers may be joined with commas.
    pub(super) fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        if header.len() > MAX_HEADER_BYTES {
            return challenge;
        }
        let mut in_bearer = false;
        let mut met_bearer = false;
        let mut rest = header;
        while let Some((item, after)) = next_item(rest) {
            rest = after;
            match item {
                ChallengeItem::Scheme(scheme) => {
                    in_bearer = !met_bearer && scheme.eq_ignore_ascii_case("bearer");
                    met_bearer |= in_bearer;
                }
                ChallengeItem::Parameter(name, value) if in_bearer => challenge.take(name, value),
                ChallengeItem::Parameter(..) => {}
            }
        }
        challenge
    }

    fn take(&mut self, name: &str, value: String) {
        let slot = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        // A repeated parameter is malformed. The first one is kept, so that an appended one cannot override
        // it.
        slot.get_or_insert(value);
    }
}

enum ChallengeItem<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// The next scheme or parameter, and the text after it.
fn next_item(text: &str) -> Option<(ChallengeItem<'_>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    match after.trim_start_matches([' ', '\t']).strip_prefix('=') {
        // `=` without a name: skip it, or the loop would not advance.
        Some(after) if word.is_empty() => Some((ChallengeItem::Parameter("", String::new()), after)),
        Some(after) => {
            let (value, after) = value(after.trim_start_matches([' ', '\t']));
            Some((ChallengeItem::Parameter(word, value), after))
        }
        None if word.is_empty() => None,
        None => Some((ChallengeItem::Scheme(word), after)),
    }
}

fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].into(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(resource_metadata: &str, scope: &str, error: &str) -> BearerChallenge {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        BearerChallenge { resource_metadata: some(resource_metadata), scope: some(scope), error: some(error) }
    }

    #[test]
    fn bearer_parameters_are_found_among_others() {
        let cases = [
            ("", challenge("", "", "")),
            ("Bearer", challenge("", "", "")),
            (
                r#"Bearer scope="a b", resource_metadata="https://x/y", error="insufficient_scope""#,
                challenge("https://x/y", "a b", "insufficient_scope"),
            ),
            (
                r#"Basic realm="scope=\"no\"", bearer  scope = "a" , error=invalid_token"#,
                challenge("", "a", "invalid_token"),
            ),
            ("Negotiate YII=, Bearer resource_metadata=https://x/y?z", challenge("https://x/y?z", "", "")),
            (r#"Bearer scope="a", Digest scope="b", Bearer scope="c""#, challenge("", "a", "")),
            (r#"Bearer scope="a", scope="b""#, challenge("", "a", "")),
            (r#"Bearer scope="never closed"#, challenge("", "never closed", "")),
            (r#"Bearer =, ==x scope="a""#, challenge("", "", "")), // `x` ended the challenge
        ];
        for (header, expected) in cases {
            assert_eq!(BearerChallenge::parse(header), expected, "{header}");
        }
    }

    #[test]
    fn malformed_headers_terminate() {
        for header in ["=".repeat(100), ",".repeat(100), "\"".repeat(99), "é=\"\\".into(), "a".repeat(9000)]
        {
            assert_eq!(BearerChallenge::parse(&header), BearerChallenge::default());
        }
    }
}
