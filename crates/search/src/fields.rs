//! Fields: the texts of a tool that are searched, and the fields that a query matched.

use std::borrow::Cow;
use std::convert::Infallible;
use toolbooth_core::catalog::Tool;
use toolbooth_core::json::{JsonCursor, JsonKind};

/// Maximum depth to which schemas are read.
const MAX_DEPTH: usize = 12;

/// A field: one kind of text of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolField {
    /// The tool's own name.
    Name,
    /// The name of the tool's server.
    Server,
    /// The tool's description and title.
    Description,
    /// The names of the tool's parameters.
    Parameters,
    /// Descriptions and listed values of the parameters.
    Values,
    /// Descriptions and instructions of the server.
    About,
}

impl ToolField {
    /// The field's position in arrays of all fields.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The set of fields in which words of a query were found, one bit per field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchedFields(pub(crate) u8);

impl MatchedFields {
    const NAMES: [&str; 6] = ["name", "server", "description", "parameters", "values", "about"];

    /// The names of the fields; empty if only the meaning matched.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| name)
    }
}

/// Calls `visit` with each text of a tool's definition and its field.
pub(crate) fn each_text(tool: &Tool, visit: &mut impl FnMut(ToolField, &str)) {
    let mut cursor = JsonCursor::new(tool.definition.as_str(), 0);
    if cursor.kind() != JsonKind::Object {
        return;
    }
    let Ok(()) = cursor.members(|cursor, key| {
        match (&*key, cursor.kind()) {
            ("description" | "title", JsonKind::Text) => visit(ToolField::Description, &cursor.text()),
            ("inputSchema", JsonKind::Object) => schema(cursor, visit, 0),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}

/// Visits the texts of a schema: property names, descriptions and listed values.
fn schema(cursor: &mut JsonCursor<'_>, visit: &mut impl FnMut(ToolField, &str), depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(()) = cursor.members(|cursor, key: Cow<'_, str>| {
        match (&*key, cursor.kind()) {
            ("description" | "const", JsonKind::Text) => visit(ToolField::Values, &cursor.text()),
            ("properties", JsonKind::Object) => properties(cursor, visit, depth),
            ("enum", JsonKind::Array) => list(cursor, visit, MAX_DEPTH),
            ("anyOf" | "oneOf" | "allOf", JsonKind::Array) => list(cursor, visit, depth),
            ("items", JsonKind::Object) => schema(cursor, visit, depth + 1),
            ("$defs" | "definitions", JsonKind::Object) => definitions(cursor, visit, depth),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}

fn properties(cursor: &mut JsonCursor<'_>, visit: &mut impl FnMut(ToolField, &str), depth: usize) {
    let Ok(()) = cursor.members(|cursor, name| {
        visit(ToolField::Parameters, &name);
        if cursor.kind() == JsonKind::Object {
            schema(cursor, visit, depth + 1);
        }
        Ok::<(), Infallible>(())
    });
}

fn definitions(cursor: &mut JsonCursor<'_>, visit: &mut impl FnMut(ToolField, &str), depth: usize) {
    let Ok(()) = cursor.members(|cursor, _| {
        if cursor.kind() == JsonKind::Object {
            schema(cursor, visit, depth + 1);
        }
        Ok::<(), Infallible>(())
    });
}

fn list(cursor: &mut JsonCursor<'_>, visit: &mut impl FnMut(ToolField, &str), depth: usize) {
    let Ok(()) = cursor.elements(|cursor| {
        match cursor.kind() {
            JsonKind::Text => visit(ToolField::Values, &cursor.text()),
            JsonKind::Object => schema(cursor, visit, depth + 1),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}
