//! A TOML parser that records the position of every value.

use super::{MAX_NODES, ParseResult, SyntaxError};
use crate::node::{MapKey, Mark, Node, TemplateText, TextId, Value};
use serde_json::Number;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Parses a TOML document.
pub(super) fn parse(text: &str, id: TextId) -> ParseResult<Node> {
    let table = DeTable::parse(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        // The messages of the parser are short and refer only to the text.
        SyntaxError { end: span.end.max(span.start + 1), ..SyntaxError::new(error.message(), span.start) }
    })?;
    let mut builder = TomlBuilder { id, nodes: 0 };
    let span = table.span();
    let mut node = builder.table(table.get_ref())?;
    node.mark = Mark::new(id, span.start, span.end);
    Ok(node)
}

struct TomlBuilder {
    id: TextId,
    nodes: usize,
}

impl TomlBuilder {
    fn table(&mut self, table: &DeTable<'_>) -> ParseResult<Node> {
        let mut members = Vec::with_capacity(table.len());
        for (key, value) in table.iter() {
            members.push((self.key(key), self.value(value)?));
        }
        // The parser sorts the keys by name; restore the order of the file.
        members.sort_by_key(|(key, _)| key.mark.start);
        Ok(Node { value: Value::Map(members), mark: Mark::new(self.id, 0, 0) })
    }

    fn key(&self, key: &Spanned<DeString<'_>>) -> MapKey {
        let span = key.span();
        MapKey { text: key.get_ref().to_string(), mark: Mark::new(self.id, span.start, span.end) }
    }

    fn value(&mut self, spanned: &Spanned<DeValue<'_>>) -> ParseResult<Node> {
        self.nodes += 1;
        let span = spanned.span();
        if self.nodes > MAX_NODES {
            return Err(SyntaxError::new(
                format!("the file contains more than {MAX_NODES} values"),
                span.start,
            ));
        }
        let value = match spanned.get_ref() {
            DeValue::String(text) => Value::Text(TemplateText::written(text.as_ref())),
            DeValue::Boolean(truth) => Value::Bool(*truth),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                Value::Number(
                    parsed.map_err(|_| SyntaxError::new("this number is too large", span.start))?.into(),
                )
            }
            DeValue::Float(number) => match number.as_str().parse().ok().and_then(Number::from_f64) {
                Some(number) => Value::Number(number),
                None => return Err(SyntaxError::new("only finite numbers are supported", span.start)),
            },
            DeValue::Datetime(time) => Value::Text(TemplateText::written(time.to_string())),
            DeValue::Array(elements) => {
                Value::List(elements.iter().map(|element| self.value(element)).collect::<ParseResult<_>>()?)
            }
            DeValue::Table(table) => self.table(table)?.value,
        };
        Ok(Node { value, mark: Mark::new(self.id, span.start, span.end) })
    }
}
