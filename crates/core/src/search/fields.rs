//! Fields: the texts of a tool that are searched, and which of them a query met.

use crate::catalog::Tool;
use crate::cursor::{Cursor, Kind};
use std::borrow::Cow;
use std::convert::Infallible;

/// Schemas are read no deeper than this.
const MAX_DEPTH: usize = 12;

/// One text of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Its own name.
    Name,
    /// Its server's name.
    Server,
    /// Its description.
    Description,
    /// The names of its parameters.
    Parameters,
    /// What its parameters are and may be.
    Values,
    /// What its server is.
    About,
}

impl Field {
    /// Its place in lists of all fields.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// The fields in which a query's words were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields(pub(super) u8);

impl Fields {
    const NAMES: [&str; 6] = ["name", "server", "description", "parameters", "values", "about"];

    /// The fields by name; none means that only the meaning is alike.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, name)| name)
    }
}

/// Calls `visit` with each text of a tool's definition.
pub(super) fn each_text(tool: &Tool, visit: &mut impl FnMut(Field, &str)) {
    let mut cursor = Cursor::new(tool.definition.as_str(), 0);
    if cursor.kind() != Kind::Object {
        return;
    }
    let Ok(()) = cursor.members(|cursor, key| {
        match (&*key, cursor.kind()) {
            ("description" | "title", Kind::Text) => visit(Field::Description, &cursor.text()),
            ("inputSchema", Kind::Object) => schema(cursor, visit, 0),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}

/// A schema's own words: names of properties, descriptions, values that are listed.
fn schema(cursor: &mut Cursor<'_>, visit: &mut impl FnMut(Field, &str), depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(()) = cursor.members(|cursor, key: Cow<'_, str>| {
        match (&*key, cursor.kind()) {
            ("description" | "const", Kind::Text) => visit(Field::Values, &cursor.text()),
            ("properties", Kind::Object) => properties(cursor, visit, depth),
            ("enum", Kind::Array) => list(cursor, visit, MAX_DEPTH),
            ("anyOf" | "oneOf" | "allOf", Kind::Array) => list(cursor, visit, depth),
            ("items", Kind::Object) => schema(cursor, visit, depth + 1),
            ("$defs" | "definitions", Kind::Object) => definitions(cursor, visit, depth),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}

fn properties(cursor: &mut Cursor<'_>, visit: &mut impl FnMut(Field, &str), depth: usize) {
    let Ok(()) = cursor.members(|cursor, name| {
        visit(Field::Parameters, &name);
        if cursor.kind() == Kind::Object {
            schema(cursor, visit, depth + 1);
        }
        Ok::<(), Infallible>(())
    });
}

fn definitions(cursor: &mut Cursor<'_>, visit: &mut impl FnMut(Field, &str), depth: usize) {
    let Ok(()) = cursor.members(|cursor, _| {
        if cursor.kind() == Kind::Object {
            schema(cursor, visit, depth + 1);
        }
        Ok::<(), Infallible>(())
    });
}

fn list(cursor: &mut Cursor<'_>, visit: &mut impl FnMut(Field, &str), depth: usize) {
    let Ok(()) = cursor.elements(|cursor| {
        match cursor.kind() {
            Kind::Text => visit(Field::Values, &cursor.text()),
            Kind::Object => schema(cursor, visit, depth + 1),
            _ => {}
        }
        Ok::<(), Infallible>(())
    });
}
