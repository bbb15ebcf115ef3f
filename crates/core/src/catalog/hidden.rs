//! Hidden parameters: what the gateway supplies is taken out of the definition that clients see.
//!
//! The rest of the text stays as the server wrote it, byte for byte. Most tools declare nothing of the
//! kind; a search for the names tells, before anything is read.

use crate::cursor::{Cursor, Kind, cuts, without};
use crate::json::RawJson;
use crate::schema::{Extent, MAX_DEPTH, in_place, resolve};
use crate::server::Inject;
use memchr::memmem::Finder;
use std::ops::Range;

/// The argument that lists what a caller may use.
pub const MCP_DATA: &str = "_mcp_data";

/// The arguments of one tool that the gateway supplies or completes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injected {
    /// Arguments that receive the caller's user.
    pub identity: Vec<IdentityArgument>,
    /// Whether `_mcp_data` is declared and supplied.
    pub mcp_data: bool,
    /// Arguments of the caller's whose value may name a file.
    pub files: Vec<Box<str>>,
    /// What is set beside a file's address.
    pub companions: Vec<Companion>,
}

/// An argument that receives the caller's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityArgument {
    /// Its name.
    pub name: Box<str>,
    /// Whether its schema takes a user's name.
    pub fit: Fit,
}

/// Whether a declared parameter takes text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Text,
    /// It wants something else, so no identity can be given and no call can be made.
    Other,
}

/// What is set beside the address of a file, where a tool declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Companion {
    /// `original_filename`: the name the caller gave.
    OriginalFilename,
    /// `file_url`: the address.
    FileUrl,
    /// `original_file_names`: the names the caller gave.
    OriginalFileNames,
    /// `file_urls`: the addresses.
    FileUrls,
}

impl Companion {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::OriginalFilename, Self::FileUrl, Self::OriginalFileNames, Self::FileUrls];

    /// The argument's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OriginalFilename => "original_filename",
            Self::FileUrl => "file_url",
            Self::OriginalFileNames => "original_file_names",
            Self::FileUrls => "file_urls",
        }
    }
}

impl Injected {
    /// Adds what was supplied before and is not declared any more.
    fn take_over(&mut self, before: Self) {
        for argument in before.identity {
            match self.identity.iter_mut().find(|known| known.name == argument.name) {
                Some(known) if argument.fit == Fit::Other => known.fit = Fit::Other,
                Some(_) => {}
                None => self.identity.push(argument),
            }
        }
        self.mcp_data |= before.mcp_data;
        let files = before.files.into_iter().filter(|name| !self.files.contains(name)).collect::<Vec<_>>();
        self.files.extend(files);
        for companion in before.companions {
            if !self.companions.contains(&companion) {
                self.companions.push(companion);
            }
        }
    }

    /// Whether an argument is the gateway's alone to give.
    pub fn hides(&self, name: &str) -> bool {
        self.identity.iter().any(|argument| *argument.name == *name)
            || (self.mcp_data && name == MCP_DATA)
            || self.companions.iter().any(|companion| companion.name() == name)
    }
}

/// A schema mentions what the gateway supplies and is too large to be searched for all places of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsearched;

/// What one server's tools do not show.
pub(super) struct Hiding<'a> {
    inject: &'a Inject,
    /// Texts of which one occurs in every schema that is concerned, unless it is spelled with escapes.
    signs: Vec<Finder<'static>>,
    /// The escape without which no name can be spelled otherwise.
    escape: Finder<'static>,
}

impl<'a> Hiding<'a> {
    pub(super) fn of(inject: &'a Inject) -> Self {
        let mcp_data = inject.mcp_data.then_some(MCP_DATA);
        let names = inject.identity.iter().chain(&inject.files).map(String::as_str).chain(mcp_data);
        let signs: Vec<_> =
            names.clone().chain(["toolbooth-file"]).map(|sign| Finder::new(sign).into_owned()).collect();
        let plain =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let escape = if names.clone().all(plain) { "\\u00" } else { "\\" };
        Self { inject, signs, escape: Finder::new(escape).into_owned() }
    }

    /// Takes what the gateway supplies out of a schema; `None` if the schema has nothing of the kind.
    pub(super) fn apply(&self, schema: &RawJson) -> Result<Option<(RawJson, Injected)>, Unsearched> {
        let bytes = schema.as_bytes();
        let concerned = self.signs.iter().any(|sign| sign.find(bytes).is_some());
        if !concerned && self.escape.find(bytes).is_none() {
            return Ok(None);
        }
        self.apply_over(schema, Injected::default())
    }

    /// The same for a schema that stands in place of another: what was the gateway's to give stays so.
    pub(super) fn apply_over(
        &self,
        schema: &RawJson,
        before: Injected,
    ) -> Result<Option<(RawJson, Injected)>, Unsearched> {
        let text = schema.as_str();
        let (parts, extent) = in_place(text);
        if extent == Extent::Cut {
            return Err(Unsearched);
        }
        let mut injected = self.declared(text, &parts);
        injected.take_over(before);
        if injected == Injected::default() {
            return Ok(None);
        }
        let cuts: Vec<_> = parts.iter().flat_map(|part| hide(text, part, &injected)).collect();
        let public = if cuts.is_empty() { schema.clone() } else { RawJson::trusted(without(text, cuts)) };
        Ok(Some((public, injected)))
    }

    fn declared(&self, text: &str, parts: &[Range<usize>]) -> Injected {
        let mut injected = Injected::default();
        let mut companions = Vec::new();
        for property in parts.iter().flat_map(|part| properties(text, part)) {
            let (name, place) = property;
            if self.inject.identity.contains(&name) {
                let fit = if takes_text(text, place, 0) { Fit::Text } else { Fit::Other };
                match injected.identity.iter_mut().find(|known| *known.name == *name) {
                    Some(known) if fit == Fit::Other => known.fit = fit,
                    Some(_) => {}
                    None => injected.identity.push(IdentityArgument { name: name.into(), fit }),
                }
            } else if self.inject.mcp_data && name == MCP_DATA {
                injected.mcp_data = true;
            } else if self.inject.files.contains(&name) || is_marked(text, place, 0) {
                if !injected.files.iter().any(|known| **known == *name) {
                    injected.files.push(name.into());
                }
            } else if let Some(companion) =
                Companion::ALL.into_iter().find(|companion| companion.name() == name)
                && !companions.contains(&companion)
            {
                companions.push(companion);
            }
        }
        if !injected.files.is_empty() {
            injected.companions = companions;
        }
        injected
    }
}

fn properties(text: &str, part: &Range<usize>) -> Vec<(String, Range<usize>)> {
    let spots = Cursor::new(text, part.start).spots();
    let lists = spots.into_iter().filter(|spot| spot.key == "properties");
    lists
        .flat_map(|list| Cursor::new(text, list.value.start).spots())
        .map(|property| (property.key.into_owned(), property.value))
        .collect()
}

/// Whether a parameter says of itself that it names files.
fn is_marked(text: &str, place: Range<usize>, depth: usize) -> bool {
    depth <= MAX_DEPTH
        && Cursor::new(text, place.start).spots().into_iter().any(|spot| match &*spot.key {
            "x-toolbooth-file" => &text[spot.value] == "true",
            "format" => Cursor::new(text, spot.value.start).text() == "toolbooth-file",
            "items" => is_marked(text, spot.value, depth + 1),
            _ => false,
        })
}

/// Whether a schema lets text through, as far as types tell.
fn takes_text(text: &str, place: Range<usize>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let mut cursor = Cursor::new(text, place.start);
    if cursor.kind() != Kind::Object {
        return &text[place] == "true";
    }
    let takes = |place: Range<usize>| takes_text(text, place, depth + 1);
    cursor.spots().into_iter().all(|spot| {
        let mut value = Cursor::new(text, spot.value.start);
        match &*spot.key {
            "type" if value.kind() == Kind::Text => value.text() == "string",
            "type" => value.places().into_iter().any(|name| &text[name] == "\"string\""),
            "anyOf" | "oneOf" => value.places().into_iter().any(takes),
            "allOf" => value.places().into_iter().all(takes),
            "$ref" => resolve(text, &value.text()).is_some_and(takes),
            _ => true,
        }
    })
}

/// What must be cut from one part of the schema.
fn hide(text: &str, part: &Range<usize>, injected: &Injected) -> Vec<Range<usize>> {
    let mut gone = Vec::new();
    for spot in Cursor::new(text, part.start).spots() {
        let mut value = Cursor::new(text, spot.value.start);
        match &*spot.key {
            "properties" | "dependentSchemas" => gone.extend(hide_members(&mut value, injected)),
            "required" => gone.extend(hide_names(text, &mut value, injected)),
            "dependentRequired" | "dependencies" => {
                gone.extend(hide_members(&mut value, injected));
                for member in Cursor::new(text, spot.value.start).spots() {
                    gone.extend(hide_names(text, &mut Cursor::new(text, member.value.start), injected));
                }
            }
            _ => {}
        }
    }
    gone
}

fn hide_members(object: &mut Cursor<'_>, injected: &Injected) -> Vec<Range<usize>> {
    let spots = object.spots();
    let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
    cuts(&places, |index| injected.hides(&spots[index].key))
}

fn hide_names(text: &str, list: &mut Cursor<'_>, injected: &Injected) -> Vec<Range<usize>> {
    let places = list.places();
    cuts(&places, |index| injected.hides(&Cursor::new(text, places[index].start).text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(inject: &Inject, schema: &str) -> Option<(String, Injected)> {
        let schema = RawJson::parse(schema.to_owned()).expect("JSON");
        Hiding::of(inject)
            .apply(&schema)
            .expect("searched")
            .map(|(public, injected)| (public.to_string(), injected))
    }

    #[test]
    fn what_the_gateway_supplies_is_cut_and_the_rest_keeps_every_byte() {
        let cases = [
            // (schema, what clients see)
            (
                r#"{ "type":"object", "properties": {"a": {"x": 1.50}, "username": {"type":"string"} }, "required":["username", "a"] }"#,
                r#"{ "type":"object", "properties": {"a": {"x": 1.50} }, "required":["a"] }"#,
            ),
            (r#"{"properties":{"user\u006eame":{}}}"#, r#"{"properties":{}}"#),
            (
                r#"{"properties":{"a":{}},"allOf":[{"properties":{"_atlas_user":{}},"required":["_atlas_user"]}]}"#,
                r#"{"properties":{"a":{}},"allOf":[{"properties":{},"required":[]}]}"#,
            ),
            (
                r##"{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"_mcp_data":{},"a":{}},"required":["a","_mcp_data"]},"Other":{"properties":{"username":{}}}}}"##,
                r##"{"$ref":"#/$defs/In","$defs":{"In":{"properties":{"a":{}},"required":["a"]},"Other":{"properties":{"username":{}}}}}"##,
            ),
            (
                r#"{"properties":{"username":{},"a":{}},"dependentRequired":{"username":["a"],"a":["username"]},"dependentSchemas":{"username":{"required":["a"]}},"if":{"required":["username"]},"then":{"properties":{"username":{"const":"x"}}}}"#,
                r#"{"properties":{"a":{}},"dependentRequired":{"a":[]},"dependentSchemas":{},"if":{"required":[]},"then":{"properties":{}}}"#,
            ),
            (
                r#"{"properties":{"filename":{},"original_filename":{},"file_url":{}}}"#,
                r#"{"properties":{"filename":{}}}"#,
            ),
        ];
        for (schema, expected) in cases {
            let (public, _) = hidden(&Inject::contract(), schema).expect(schema);
            assert_eq!(public, expected);
        }
    }

    #[test]
    fn other_tools_are_left_alone() {
        let contract = Inject::contract();
        for schema in [
            r#"{"properties":{"user":{"description":"the username"}}}"#,
            r#"{"properties":{"user":{"properties":{"username":{}}}}}"#,
            r#"{"properties":{"file_url":{}}}"#,
            r#"{"required":["username"]}"#,
        ] {
            assert_eq!(hidden(&contract, schema), None, "{schema}");
        }
        assert_eq!(hidden(&Inject::nothing(), r#"{"properties":{"username":{},"_mcp_data":{}}}"#), None);
    }

    #[test]
    fn files_are_marked_on_any_server() {
        let schema = r#"{"properties":{"doc":{"format":"toolbooth-file"},"docs":{"items":{"x-toolbooth-file":true}},"n":{}}}"#;
        let (public, injected) = hidden(&Inject::nothing(), schema).expect("marked");
        assert_eq!(public, schema);
        assert_eq!(injected.files, ["doc".into(), "docs".into()] as [Box<str>; 2]);
    }

    #[test]
    fn an_identity_that_is_no_text_is_noticed() {
        let cases = [
            (r#"{"type":"string"}"#, Fit::Text),
            (r#"{"type":["null","string"]}"#, Fit::Text),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, Fit::Text),
            (r#"{}"#, Fit::Text),
            (r##"{"$ref":"#/$defs/t"}"##, Fit::Text),
            (r#"{"type":"array"}"#, Fit::Other),
            (r#"{"type":["array","object"]}"#, Fit::Other),
            (r##"{"$ref":"#/$defs/o"}"##, Fit::Other),
            (r#"{"allOf":[{"type":"string"},{"type":"object"}]}"#, Fit::Other),
            ("false", Fit::Other),
        ];
        for (parameter, fit) in cases {
            let schema = format!(
                r#"{{"properties":{{"username":{parameter}}},"$defs":{{"t":{{"type":"string"}},"o":{{"type":"object"}}}}}}"#
            );
            let (_, injected) = hidden(&Inject::contract(), &schema).expect("declared");
            assert_eq!(injected.identity[0].fit, fit, "{parameter}");
        }
    }
}
