//! Client capabilities announced to legacy servers, reduced to a small set of known flags. Clients choose the
//! text of their capabilities freely, so connections must not be keyed by the text itself.

use toolbooth_core::caller::ClientFacts;
use toolbooth_core::json::{ObjectWriter, RawJson};

/// The capabilities that allow a server to ask a client something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ClientCapabilities(u8);

const FORMS: u8 = 1;
const URLS: u8 = 1 << 1;
const SAMPLING: u8 = 1 << 2;
const SAMPLING_TOOLS: u8 = 1 << 3;
const SAMPLING_CONTEXT: u8 = 1 << 4;
const ROOTS: u8 = 1 << 5;

impl ClientCapabilities {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self(0);
    /// Every capability the gateway can bridge. Some servers offer tools only to clients that can be asked.
    pub(crate) const EVERYTHING: Self = Self(FORMS | URLS | SAMPLING | ROOTS);

    /// Reads the known flags from a client's capabilities.
    pub(crate) fn of(client: &ClientFacts) -> Self {
        let object = |path: &[&str]| client.capabilities.at(path).is_some_and(|value| value.is_object());
        let mut flags = 0;
        if object(&["elicitation"]) {
            flags |= if object(&["elicitation", "url"]) { URLS } else { 0 };
            // An empty object means forms: older revisions defined nothing else.
            flags |= if flags == 0 || object(&["elicitation", "form"]) { FORMS } else { 0 };
        }
        if object(&["sampling"]) {
            flags |= SAMPLING;
            flags |= if object(&["sampling", "tools"]) { SAMPLING_TOOLS } else { 0 };
            flags |= if object(&["sampling", "context"]) { SAMPLING_CONTEXT } else { 0 };
        }
        flags |= if object(&["roots"]) { ROOTS } else { 0 };
        Self(flags)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// The capabilities object sent in the handshake.
    pub(crate) fn to_json(self) -> RawJson {
        let mut writer = ObjectWriter::default();
        let members = |names: &[(&str, u8)]| {
            let mut inner = ObjectWriter::default();
            for (name, flag) in names {
                if self.has(*flag) {
                    inner.raw(name, &RawJson::empty_object());
                }
            }
            inner.finish()
        };
        match (self.has(FORMS), self.has(URLS)) {
            (false, false) => {}
            // Older servers do not know members there.
            (true, false) => drop(writer.raw("elicitation", &RawJson::empty_object())),
            _ => drop(writer.raw("elicitation", &members(&[("form", FORMS), ("url", URLS)]))),
        }
        if self.has(SAMPLING) {
            let inner = members(&[("tools", SAMPLING_TOOLS), ("context", SAMPLING_CONTEXT)]);
            writer.raw("sampling", &inner);
        }
        if self.has(ROOTS) {
            writer.raw("roots", &RawJson::empty_object());
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn askable(capabilities: &str) -> ClientCapabilities {
        let capabilities = RawJson::parse(capabilities.to_owned()).expect("JSON");
        ClientCapabilities::of(&ClientFacts { capabilities, ..ClientFacts::default() })
    }

    #[test]
    fn only_known_capabilities_count() {
        let cases = [
            (r#"{}"#, "{}"),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"form":{"x":1}}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"url":{}}}"#),
            (r#"{"elicitation":{"url":{},"form":{}},"x":{}}"#, r#"{"elicitation":{"form":{},"url":{}}}"#),
            (
                r#"{"sampling":{"tools":{},"y":{}},"roots":{"z":7}}"#,
                r#"{"sampling":{"tools":{}},"roots":{}}"#,
            ),
            (r#"{"elicitation":true,"roots":null}"#, "{}"),
        ];
        for (given, expected) in cases {
            assert_eq!(askable(given).to_json().as_str(), expected, "{given}");
        }
        let everything = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
        assert_eq!(ClientCapabilities::EVERYTHING.to_json().as_str(), everything);
    }

    // M5: 258 variants of capabilities started 256 processes.
    #[test]
    fn unknown_capability_members_do_not_change_the_key() {
        let spelled =
            (0..258).map(|number| askable(&format!(r#"{{"roots":{{"n":{number}}},"n{number}":{{}}}}"#)));
        assert_eq!(spelled.collect::<HashSet<_>>().len(), 1);
    }
}
