//! A YAML parser that records the position of every value.

use super::{MAX_DEPTH, MAX_NODES, ParseResult, SyntaxError};
use crate::node::{MapKey, Mark, Node, TemplateText, TextId, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::Number;
use std::borrow::Cow;
use std::collections::HashMap;

/// Parses a YAML document; an empty document is an empty map.
pub(super) fn parse(text: &str, id: TextId) -> ParseResult<Node> {
    let offsets = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut builder =
        YamlBuilder { events: Parser::new_from_str(text), id, offsets, anchors: HashMap::new(), nodes: 0 };
    let mut document = None;
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if document.is_some() => {
                return Err(builder.error("a file may contain only one document", span));
            }
            event => document = Some(builder.node(event, span, 0)?),
        }
    }
    match document {
        Some(Node { value: Value::Null, mark }) => Ok(Node::empty_map(mark)),
        Some(node) => Ok(node),
        None => Ok(Node::empty_map(Mark::new(id, 0, 0))),
    }
}

struct YamlBuilder<'a> {
    events: Parser<'a, StrInput<'a>>,
    id: TextId,
    /// The byte offset of each character: the parser counts characters, marks count bytes.
    offsets: Vec<usize>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> YamlBuilder<'a> {
    fn next(&mut self) -> ParseResult<(Event<'a>, Span)> {
        match self.events.next_event() {
            Some(Ok(pair)) => Ok(pair),
            Some(Err(error)) => Err(SyntaxError::new(error.info(), self.offset(error.marker().index()))),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn offset(&self, index: usize) -> usize {
        self.offsets.get(index).or(self.offsets.last()).copied().unwrap_or(0)
    }

    fn mark(&self, span: Span) -> Mark {
        Mark::new(self.id, self.offset(span.start.index()), self.offset(span.end.index()))
    }

    fn error(&self, message: impl Into<String>, span: Span) -> SyntaxError {
        SyntaxError::new(message, self.offset(span.start.index()))
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> ParseResult<Node> {
        self.count(1, span)?;
        if depth > MAX_DEPTH {
            return Err(self.error(format!("lists and maps are nested deeper than {MAX_DEPTH}"), span));
        }
        let mark = self.mark(span);
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, Node { value: scalar(text.as_ref(), style, tag.as_ref()), mark })
            }
            Event::SequenceStart(anchor, _) => (anchor, Node { value: self.list(depth)?, mark }),
            Event::MappingStart(anchor, _) => (anchor, Node { value: self.map(depth)?, mark }),
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.error("this alias refers to itself or to nothing", span));
                };
                // Nested aliases can grow exponentially, so count the full size of each use.
                self.count(size(&node), span)?;
                return Ok(node);
            }
            _ => return Err(self.error("expected a value", span)),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn count(&mut self, nodes: usize, span: Span) -> ParseResult<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            return Err(self.error(format!("the file contains more than {MAX_NODES} values"), span));
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> ParseResult<Value> {
        let mut elements = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(elements)),
                (event, span) => elements.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> ParseResult<Value> {
        let mut members: Vec<(MapKey, Node)> = Vec::new();
        let mut inherited = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let Event::Scalar(key, ..) = event else {
                return Err(self.error("keys must be strings", span));
            };
            let key = MapKey { text: key.into_owned(), mark: self.mark(span) };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            match (key.text.as_str(), node.value) {
                ("<<", Value::Map(more)) => inherited.extend(more),
                ("<<", Value::List(maps)) if maps.iter().all(|map| map.members().is_some()) => {
                    inherited.extend(
                        maps.into_iter()
                            .filter_map(|map| match map.value {
                                Value::Map(more) => Some(more),
                                _ => None,
                            })
                            .flatten(),
                    );
                }
                ("<<", _) => return Err(self.error("`<<` takes a map or a list of maps", span)),
                (_, value) => members.push((key, Node { value, mark: node.mark })),
            }
        }
        for (key, node) in inherited {
            if !members.iter().any(|(own, _)| own.text == key.text) {
                members.push((key, node));
            }
        }
        Ok(Value::Map(members))
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(elements) => elements.iter().map(size).sum(),
        Value::Map(members) => members.iter().map(|(_, node)| size(node)).sum(),
        _ => 0,
    }
}

/// Reads a scalar as YAML 1.2 does: only a few plain words are not strings, and `no` is a string.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>) -> Value {
    let tagged_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style != ScalarStyle::Plain || tagged_text {
        return Value::Text(TemplateText::written(text));
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::Text(TemplateText::written(text)), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let plain = text.strip_prefix('+').unwrap_or(text);
    if !plain.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
        return None;
    }
    if let Some(digits) = plain.strip_prefix("0x") {
        return i64::from_str_radix(digits, 16).ok().map(Number::from);
    }
    if let Some(digits) = plain.strip_prefix("0o") {
        return i64::from_str_radix(digits, 8).ok().map(Number::from);
    }
    if let Ok(integer) = plain.parse::<i64>() {
        return Some(integer.into());
    }
    plain.parse::<f64>().ok().and_then(Number::from_f64)
}
