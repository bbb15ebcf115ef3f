//! Reads files about language models: `llm {...}`, or `llmconfig.yml` of Atlas UI with several models.

use super::{FileSplitter, is_comment};
use crate::finding::Finding;
use crate::node::{MapKey, Mark, Node, TemplateText, Value};

/// The name of a model at its endpoint, in files of Atlas UI.
const MODEL_NAME: [&str; 2] = ["model_name", "model"];

impl FileSplitter<'_> {
    /// `llm {...}`, only its fields, or a map of models: the first is the default, and all can be selected by name.
    pub(super) fn llm(&mut self, members: Vec<(MapKey, Node)>, mark: Mark) {
        let whole = Node { value: Value::Map(members), mark };
        if let Some((key, node)) = whole.entry("llm") {
            return self.setting(&["llm"], key.mark, node.clone());
        }
        let Some(models) = whole.get("models").and_then(Node::members) else {
            return self.setting(&["llm"], mark, whole);
        };
        for (index, (name, model)) in models.iter().enumerate() {
            let Some(fields) = model.members() else {
                let sentence =
                    format!("the model `{}` must be a map of fields, found {}", name.text, model.kind());
                self.split
                    .findings
                    .push(Finding::error("config.wrong-type", sentence).at(self.texts, model.mark));
                continue;
            };
            for (key, node) in fields {
                self.model_field(index, name, key, node);
            }
            if !fields.iter().any(|(key, _)| MODEL_NAME.contains(&key.text.as_str())) {
                let text = Value::Text(TemplateText::written(name.text.clone()));
                self.model_field(
                    index,
                    name,
                    &MapKey { text: "model".into(), mark: name.mark },
                    &Node { value: text, mark: name.mark },
                );
            }
        }
    }

    /// One field of a model in `llmconfig.yml`.
    fn model_field(&mut self, index: usize, model: &MapKey, key: &MapKey, node: &Node) {
        let field = match key.text.as_str() {
            "model_url" | "base_url" | "url" => "base_url",
            name if MODEL_NAME.contains(&name) => "model",
            "extra_headers" | "headers" => "headers",
            name @ ("api_key" | "max_tokens" | "temperature") => name,
            "description" => return,
            name if is_comment(name) => return,
            name => {
                let sentence = format!("model `{}`: `{name}` is ignored", model.text);
                let finding = Finding::warning("config.ignored-key", sentence).at(self.texts, key.mark);
                self.split.findings.push(finding);
                return;
            }
        };
        if matches!(node.value, Value::Null) {
            return;
        }
        if index == 0 {
            self.setting(&["llm", field], key.mark, node.clone());
        }
        self.setting(&["llm", "endpoints", &model.text, field], key.mark, node.clone());
    }
}
