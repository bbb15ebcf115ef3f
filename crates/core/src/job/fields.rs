//! Reads the fields of a definition from JSON, and collects all faults with their place.

use serde_json::{Map, Value};

/// The maximum length of a short text, such as a name of a tool.
const MAX_SHORT: usize = 256;
/// The maximum length of a long text, such as a description.
const MAX_LONG: usize = 16 * 1024;
/// The maximum number of elements of a list.
pub(super) const MAX_LIST: usize = 200;

/// A fault of a definition, with a JSON pointer to its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFault {
    /// The JSON pointer; empty for the whole definition.
    pub pointer: String,
    /// One sentence.
    pub message: String,
    /// Whether only a field is unknown, so that the definition could be used without it.
    pub is_unknown_field: bool,
}

/// Where a definition comes from, which decides what it must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionSource {
    /// A manifest file: all required fields must be written.
    Manifest,
    /// A request: fields that the gateway can derive may be left out.
    Request,
}

/// The members of an object, with its JSON pointer.
pub(super) struct DefinitionFields<'a> {
    members: &'a Map<String, Value>,
    pointer: String,
}

impl<'a> DefinitionFields<'a> {
    /// A member with its pointer; `null` counts as absent.
    pub(super) fn member(&self, key: &str) -> Option<(&'a Value, String)> {
        let value = self.members.get(key).filter(|value| !value.is_null())?;
        Some((value, self.place(key)))
    }

    pub(super) fn place(&self, key: &str) -> String {
        format!("{}/{}", self.pointer, key.replace('~', "~0").replace('/', "~1"))
    }
}

/// The faults found so far.
#[derive(Default)]
pub(super) struct FaultList(pub(super) Vec<DefinitionFault>);

impl FaultList {
    pub(super) fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.0.push(DefinitionFault {
            pointer: pointer.into(),
            message: message.into(),
            is_unknown_field: false,
        });
    }

    /// The members of a value that must be an object with only known keys.
    pub(super) fn fields<'a>(
        &mut self,
        value: &'a Value,
        pointer: String,
        known: &[&str],
    ) -> Option<DefinitionFields<'a>> {
        let Some(members) = value.as_object() else {
            self.add(pointer, "expected an object");
            return None;
        };
        let fields = DefinitionFields { members, pointer };
        for key in members.keys().filter(|key| !known.contains(&key.as_str())) {
            let shown: String = key.chars().take(64).collect();
            self.0.push(DefinitionFault {
                pointer: fields.place(key),
                message: format!("`{shown}` is unknown"),
                is_unknown_field: true,
            });
        }
        Some(fields)
    }

    pub(super) fn short(&mut self, fields: &DefinitionFields<'_>, key: &str) -> Option<String> {
        self.text(fields, key, MAX_SHORT)
    }

    pub(super) fn long(&mut self, fields: &DefinitionFields<'_>, key: &str) -> Option<String> {
        self.text(fields, key, MAX_LONG)
    }

    fn text(&mut self, fields: &DefinitionFields<'_>, key: &str, most: usize) -> Option<String> {
        let (value, pointer) = fields.member(key)?;
        let Some(text) = value.as_str().map(str::trim) else {
            self.add(pointer, format!("`{key}` must be a string"));
            return None;
        };
        if text.is_empty() || text.len() > most {
            self.add(pointer, format!("`{key}` must have 1 to {most} bytes"));
            return None;
        }
        Some(text.to_owned())
    }

    /// Reports that a required field is missing.
    pub(super) fn missing(&mut self, fields: &DefinitionFields<'_>, key: &str) {
        let pointer = fields.pointer.clone();
        self.add(pointer, format!("`{key}` is missing"));
    }

    /// A list of short texts.
    pub(super) fn texts(&mut self, fields: &DefinitionFields<'_>, key: &str) -> Option<Vec<String>> {
        let (value, pointer) = fields.member(key)?;
        let Some(list) = value.as_array().filter(|list| list.len() <= MAX_LIST) else {
            self.add(pointer, format!("`{key}` must be a list of at most {MAX_LIST} strings"));
            return None;
        };
        let mut texts = Vec::with_capacity(list.len());
        for (index, element) in list.iter().enumerate() {
            match element.as_str().map(str::trim) {
                Some(text) if !text.is_empty() && text.len() <= MAX_SHORT => texts.push(text.to_owned()),
                _ => self.add(
                    format!("{pointer}/{index}"),
                    format!("`{key}` must contain strings of 1 to {MAX_SHORT} bytes"),
                ),
            }
        }
        Some(texts)
    }

    pub(super) fn flag(&mut self, fields: &DefinitionFields<'_>, key: &str) -> Option<bool> {
        let (value, pointer) = fields.member(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.add(pointer, format!("`{key}` must be true or false"));
        }
        flag
    }

    /// A whole number in a range.
    pub(super) fn whole(
        &mut self,
        fields: &DefinitionFields<'_>,
        key: &str,
        least: u64,
        most: u64,
    ) -> Option<u64> {
        let (value, pointer) = fields.member(key)?;
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.add(pointer, format!("`{key}` must be a whole number from {least} to {most}"));
        }
        number
    }
}

/// The name of a job or task: 1 to 128 bytes without control characters and slashes.
pub(super) fn read_name(faults: &mut FaultList, fields: &DefinitionFields<'_>) -> Option<String> {
    let Some((_, pointer)) = fields.member("name") else {
        faults.missing(fields, "name");
        return None;
    };
    let name = faults.short(fields, "name")?;
    if name.len() > super::MAX_NAME || name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\')) {
        let sentence = format!(
            "`name` must have at most {} bytes, without slashes and control characters",
            super::MAX_NAME
        );
        faults.add(pointer, sentence);
        return None;
    }
    Some(name)
}
