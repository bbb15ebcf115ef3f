//! Published servers that need neither keys nor the network, from `interop/servers/published.json`: how each is started, and
//! one harmless call of it. To add one, pin its version in `interop/node` or `interop/python/sdk1.txt` and add an entry.

use super::stage::InteropStage;
use crate::setup::Setup;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

/// The servers that are started, with their calls by the exposed name of the tool.
#[derive(Debug, Default)]
pub struct PublishedServers {
    pub entries: Map<String, Value>,
    pub calls: Map<String, Value>,
}

impl PublishedServers {
    /// All servers of the list; each gets a folder of its own below `folder`.
    pub fn list(setup: &Setup, stage: &InteropStage, folder: &Path) -> Result<Self> {
        let mut servers = Self::default();
        for row in read(&stage.root)? {
            servers.add(setup, folder, &row)?;
        }
        Ok(servers)
    }

    fn add(&mut self, setup: &Setup, folder: &Path, row: &Value) -> Result<()> {
        let name = text(row, "name")?;
        let own = folder.join(name);
        fs::create_dir_all(&own)?;
        fs::write(own.join("name.txt"), format!("folder of {name}\n"))?;
        let words = [
            ("{name}", name.to_owned()),
            ("{own}", own.display().to_string()),
            ("{repo}", folder.join("repo").display().to_string()),
        ];
        let program = text(row, "program")?;
        let mut args = filled(&row["args"], &words);
        let mut entry = match text(row, "registry")? {
            "npm" => {
                let script = json!(setup.servers.join(".bin").join(program));
                args.as_array_mut().context("`args` is not a list")?.insert(0, script);
                json!({ "command": setup.node.node, "args": args, "cwd": own })
            }
            "pypi" => json!({ "command": setup.first.program(program), "args": args, "cwd": own }),
            other => bail!("unknown registry `{other}`"),
        };
        if row["env"].is_object() {
            entry["env"] = filled(&row["env"], &words);
        }
        let call = json!({
            "arguments": filled(&row["arguments"], &words),
            "expected": filled(&row["expected"], &words),
        });
        self.calls.insert(exposed(name, text(row, "tool")?), call);
        self.entries.insert(name.to_owned(), entry);
        Ok(())
    }
}

/// The name of a tool in the gateway's list. The name of its server is not repeated.
fn exposed(server: &str, tool: &str) -> String {
    if tool.starts_with(&format!("{server}_")) { tool.to_owned() } else { format!("{server}_{tool}") }
}

/// The entries of the list.
fn read(root: &Path) -> Result<Vec<Value>> {
    let path = root.join("interop/servers/published.json");
    let content = fs::read(&path).with_context(|| path.display().to_string())?;
    let rows: Vec<Value> = serde_json::from_slice(&content).with_context(|| path.display().to_string())?;
    if rows.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(rows)
}

fn text<'a>(row: &'a Value, key: &str) -> Result<&'a str> {
    row[key].as_str().with_context(|| format!("an entry of published.json has no `{key}`: {row}"))
}

/// The value with the words in its strings replaced.
fn filled(value: &Value, words: &[(&str, String)]) -> Value {
    match value {
        Value::String(text) => {
            words.iter().fold(text.clone(), |text, (word, with)| text.replace(word, with)).into()
        }
        Value::Array(elements) => elements.iter().map(|element| filled(element, words)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| (key.clone(), filled(member, words)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_published_server_is_pinned() -> Result<()> {
        let root = crate::root();
        let node: Value = serde_json::from_slice(&fs::read(root.join("interop/node/package.json"))?)?;
        let python = fs::read_to_string(root.join("interop/python/sdk1.txt"))?;
        let mut packages = HashSet::new();
        for row in read(&root)? {
            assert!(packages.insert(text(&row, "package")?.to_owned()), "{row} is listed twice");
            let (package, version) = (text(&row, "package")?, text(&row, "version")?);
            let is_pinned = match text(&row, "registry")? {
                "npm" => node["dependencies"][package] == version,
                _ => python.lines().any(|line| line == format!("{package}=={version}")),
            };
            assert!(is_pinned, "{package} {version}");
            for key in ["name", "program", "tool", "expected"] {
                text(&row, key)?;
            }
            assert!(row["args"].is_array() && row["arguments"].is_object(), "{row}");
        }
        Ok(())
    }

    #[test]
    fn words_are_replaced_in_all_strings() {
        let words = [("{name}", "a1".to_owned()), ("{own}", "/tmp/a1".to_owned())];
        let value = json!({ "path": "{own}/x", "list": ["{name}", 3, null] });
        assert_eq!(filled(&value, &words), json!({ "path": "/tmp/a1/x", "list": ["a1", 3, null] }));
    }
}
