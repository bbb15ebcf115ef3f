//! Prompts of the gateway's own: those that the operator writes, and those of personas. Clients get them as MCP prompts.

use crate::json::{ObjectWriter, RawJson};

/// The maximum length of a prompt's name.
pub const MAX_NAME: usize = 64;
/// The maximum size of a prompt's text.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The maximum size of a prompt's description.
pub const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;
/// The maximum number of prompts that the operator writes.
pub const MAX_PROMPTS: usize = 1_000;

/// Whether clients accept a name of a prompt as it is.
pub fn is_valid_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_legal)
}

/// The callers who may see and use a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptAudience {
    /// All callers.
    Everyone,
    /// Members of one of these groups.
    Groups(Vec<String>),
    /// Callers with this persona.
    Persona(String),
}

/// A prompt of the gateway's own.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnPrompt {
    name: String,
    description: Option<String>,
    text: String,
    audience: PromptAudience,
    definition: RawJson,
}

impl OwnPrompt {
    /// A prompt that the operator writes; absent groups mean that it is for all callers.
    pub fn written(
        name: &str,
        description: Option<String>,
        text: String,
        groups: Option<Vec<String>>,
    ) -> Self {
        let audience = groups.map_or(PromptAudience::Everyone, PromptAudience::Groups);
        Self::new(name.to_owned(), description, text, audience)
    }

    /// The prompt of a persona.
    pub fn of_persona(name: String, persona: &str, description: Option<String>, text: String) -> Self {
        Self::new(name, description, text, PromptAudience::Persona(persona.to_owned()))
    }

    fn new(name: String, description: Option<String>, text: String, audience: PromptAudience) -> Self {
        let mut definition = ObjectWriter::with_capacity(64);
        definition.text("name", &name);
        if let Some(description) = &description {
            definition.text("description", description);
        }
        let definition = definition.finish();
        Self { name, description, text, audience, definition }
    }

    /// The name that clients see.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The callers who may see and use it.
    pub fn audience(&self) -> &PromptAudience {
        &self.audience
    }

    /// Its definition in a list.
    pub fn definition(&self) -> &RawJson {
        &self.definition
    }

    /// The result of `prompts/get`: one message of the user with its text.
    pub fn result(&self) -> RawJson {
        let mut result = ObjectWriter::with_capacity(self.text.len() + 128);
        if let Some(description) = &self.description {
            result.text("description", description);
        }
        let content = serde_json::json!({ "type": "text", "text": self.text });
        let messages = serde_json::json!([{ "role": "user", "content": content }]);
        result.raw("messages", &RawJson::from_value(&messages));
        result.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_written_as_mcp_prompts() {
        let weekly = OwnPrompt::written("weekly", Some("Reports.".into()), "Write \"it\".".into(), None);
        assert_eq!(weekly.definition().as_str(), r#"{"name":"weekly","description":"Reports."}"#);
        let expected = r#"{"description":"Reports.","messages":[{"content":{"text":"Write \"it\".","type":"text"},"role":"user"}]}"#;
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(weekly.result().as_str()), value(expected));
    }

    #[test]
    fn names_are_valid_for_every_client() {
        assert!(is_valid_name("weekly-report_2"));
        for bad in ["", "a b", "größe", &"x".repeat(65)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
