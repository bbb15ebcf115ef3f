//! Builds a tree with positions from JSON with comments and trailing commas.

mod faults;

use super::{MAX_DEPTH, MAX_NODES, ParseResult, SyntaxError};
use crate::node::{MapKey, Mark, Node, TemplateText, TextId, Value};
use faults::{invalid_escape, not_a_number, not_a_value, number_at, word_at};
use serde_json::Number;
use std::ops::{ControlFlow, Range};
use toolbooth_core::json::{
    ANY_DEPTH, JsonDialect, SyntaxFault, Token, TokenError, TokenKind, Tokenizer, decode,
};

/// Parses a JSON document; an empty document is an empty map.
pub(super) fn parse(text: &str, id: TextId) -> ParseResult<Node> {
    // Some editors write a byte order mark.
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut tree =
        TreeBuilder { text, id, start, nodes: 0, open: Vec::new(), key: None, last_end: start, root: None };
    let mut wrong = None;
    let mut each = |token: Token<'_>| match tree.take(&token) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            wrong = Some(error);
            ControlFlow::Break(())
        }
    };
    // The builder checks the depth, because its error has a position.
    let mut tokenizer = Tokenizer::in_dialect(JsonDialect::Commented, ANY_DEPTH);
    let bytes = &text.as_bytes()[start..];
    let read = tokenizer.push(bytes, &mut each).and_then(|()| tokenizer.finish(&mut each));
    if let Some(error) = wrong {
        return Err(error);
    }
    match (read, tree.root.take()) {
        (Ok(()), Some(root)) => Ok(root),
        (Err(TokenError::Syntax { fault: SyntaxFault::EndBeforeValue, .. }), None)
            if tree.open.is_empty() =>
        {
            Ok(Node::empty_map(Mark::new(id, text.len(), text.len())))
        }
        (Err(TokenError::Syntax { fault, from, at }), _) => {
            Err(tree.explain(fault, start + from, start + at))
        }
        // The text is a string without a depth limit, and it has a value.
        (Err(error), _) => Err(SyntaxError::new(error.to_string(), start)),
        (Ok(()), None) => Err(SyntaxError::new("the file has no value", start)),
    }
}

/// Builds the tree token by token. All positions count from the start of the file.
struct TreeBuilder<'a> {
    text: &'a str,
    id: TextId,
    /// The position at which the tokenizer started.
    start: usize,
    nodes: usize,
    /// The lists and maps that are not closed, outermost first.
    open: Vec<OpenNode>,
    /// The key whose value follows.
    key: Option<MapKey>,
    /// The end of the last token.
    last_end: usize,
    root: Option<Node>,
}

/// A list or map that is not closed.
struct OpenNode {
    start: usize,
    /// Its key in the map around it.
    key: Option<MapKey>,
    value: Value,
}

impl TreeBuilder<'_> {
    fn take(&mut self, token: &Token<'_>) -> ParseResult<()> {
        let place = self.start + token.range.start..self.start + token.range.end;
        self.last_end = place.end;
        match token.kind {
            TokenKind::Key => {
                let text = self.string(&place)?;
                self.key = Some(MapKey { text, mark: self.mark(&place) });
                return Ok(());
            }
            TokenKind::ObjectEnd | TokenKind::ArrayEnd => return self.close(place.end),
            _ => self.count_value(token.depth, place.start)?,
        }
        let value = match token.kind {
            TokenKind::ObjectStart => return self.open(place.start, Value::Map(Vec::new())),
            TokenKind::ArrayStart => return self.open(place.start, Value::List(Vec::new())),
            TokenKind::Number => Value::Number(self.number(&place)?),
            TokenKind::True | TokenKind::False | TokenKind::Null => self.literal(&place)?,
            _ => Value::Text(TemplateText::written(self.string(&place)?)),
        };
        let node = Node { value, mark: self.mark(&place) };
        let key = self.key.take();
        self.add(key, node);
        Ok(())
    }

    fn mark(&self, place: &Range<usize>) -> Mark {
        Mark::new(self.id, place.start, place.end)
    }

    /// Counts a value that starts at `start`, inside of `depth` lists and maps.
    fn count_value(&mut self, depth: usize, start: usize) -> ParseResult<()> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err(SyntaxError::new(
                format!("lists and maps are nested deeper than {MAX_DEPTH}"),
                start,
            ));
        }
        if self.nodes > MAX_NODES {
            return Err(SyntaxError::new(format!("the file contains more than {MAX_NODES} values"), start));
        }
        Ok(())
    }

    fn open(&mut self, start: usize, value: Value) -> ParseResult<()> {
        let key = self.key.take();
        self.open.push(OpenNode { start, key, value });
        Ok(())
    }

    fn close(&mut self, end: usize) -> ParseResult<()> {
        if let Some(OpenNode { start, key, value }) = self.open.pop() {
            let node = Node { value, mark: self.mark(&(start..end)) };
            self.add(key, node);
        }
        Ok(())
    }

    fn add(&mut self, key: Option<MapKey>, node: Node) {
        match (self.open.last_mut().map(|open| &mut open.value), key) {
            (Some(Value::Map(members)), Some(key)) => members.push((key, node)),
            (Some(Value::List(elements)), _) => elements.push(node),
            _ => self.root = Some(node),
        }
    }

    fn string(&self, place: &Range<usize>) -> ParseResult<String> {
        let inside = place.start + 1;
        decode(&self.text[inside..place.end - 1])
            .map(|text| text.into_owned())
            .map_err(|invalid| invalid_escape(inside + invalid.at))
    }

    fn number(&self, place: &Range<usize>) -> ParseResult<Number> {
        // Letters and signs after a number belong to it for a reader, so the error shows all of it.
        let written = number_at(self.text, place.start);
        let number = serde_json::from_str::<Number>(written).ok().filter(|_| written.len() == place.len());
        let number = match number {
            // The standard library rounds correctly; serde_json's fast path does not.
            Some(number) if number.is_f64() => written.parse().ok().and_then(Number::from_f64),
            other => other,
        };
        number.ok_or_else(|| not_a_number(self.text, place.start))
    }

    fn literal(&self, place: &Range<usize>) -> ParseResult<Value> {
        match word_at(self.text, place.start) {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            _ => Err(not_a_value(self.text, place.start)),
        }
    }
}
