//! Hidden parameters: removes the parameters that the gateway supplies from the definitions that clients see.
//!
//! The rest of the text keeps every byte. Most tools declare no such parameter; a substring search for the names
//! settles that before the schema is parsed.

use crate::json::{JsonCursor, JsonKind, RawJson, cuts, without};
use crate::schema::{MAX_DEPTH, SchemaCompleteness, in_place, resolve};
use crate::server::InjectionSettings;
use memchr::memmem::Finder;
use std::ops::Range;

/// The argument that lists the tools a caller may use.
pub const MCP_DATA: &str = "_mcp_data";

/// The arguments of one tool that the gateway supplies or completes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InjectedArguments {
    /// Arguments that receive the caller's user.
    pub identity: Vec<IdentityArgument>,
    /// Whether `_mcp_data` is declared and supplied.
    pub mcp_data: bool,
    /// Arguments of the caller whose value may name a file.
    pub files: Vec<Box<str>>,
    /// Arguments that are set beside a file's URL.
    pub companions: Vec<Companion>,
}

/// An argument that receives the caller's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityArgument {
    /// Its name.
    pub name: Box<str>,
    /// Whether its schema accepts a user name.
    pub fit: TextFit,
}

/// Whether a declared parameter accepts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFit {
    /// It accepts text.
    Text,
    /// It requires another type, so the identity cannot be supplied and the call fails.
    Other,
}

/// An argument that is set beside the URL of a file, if a tool declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Companion {
    /// `original_filename`: the name given by the caller.
    OriginalFilename,
    /// `file_url`: the URL.
    FileUrl,
    /// `original_file_names`: the names given by the caller.
    OriginalFileNames,
    /// `file_urls`: the URLs.
    FileUrls,
}

impl Companion {
    /// All companions.
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

impl InjectedArguments {
    /// Adds what was supplied before and is no longer declared.
    fn take_over(&mut self, before: Self) {
        let Self { identity, mcp_data, files, companions } = before;
        for argument in identity {
            match self.identity.iter_mut().find(|known| known.name == argument.name) {
                Some(known) if argument.fit == TextFit::Other => known.fit = TextFit::Other,
                Some(_) => {}
                None => self.identity.push(argument),
            }
        }
        self.mcp_data |= mcp_data;
        let files = files.into_iter().filter(|name| !self.files.contains(name)).collect::<Vec<_>>();
        self.files.extend(files);
        for companion in companions {
            if !self.companions.contains(&companion) {
                self.companions.push(companion);
            }
        }
    }

    /// The text that stands for these arguments in the digest of their tool. Approvals are stored with the digest: a
    /// change of this text ends every approval of a tool with injected arguments. Add a new field only where it is set.
    pub(super) fn digest_text(&self) -> String {
        let Self { identity, mcp_data, files, companions } = self;
        let identity = identity.iter().map(|IdentityArgument { name, fit }| {
            let fit = match fit {
                TextFit::Text => "Text",
                TextFit::Other => "Other",
            };
            format!("IdentityArgument {{ name: {name:?}, fit: {fit} }}")
        });
        let companions = companions.iter().map(|companion| match companion {
            Companion::OriginalFilename => "OriginalFilename",
            Companion::FileUrl => "FileUrl",
            Companion::OriginalFileNames => "OriginalFileNames",
            Companion::FileUrls => "FileUrls",
        });
        format!(
            "Injected {{ identity: [{}], mcp_data: {mcp_data}, files: {files:?}, companions: [{}] }}",
            identity.collect::<Vec<_>>().join(", "),
            companions.collect::<Vec<_>>().join(", ")
        )
    }

    /// The arguments without which a call must not be sent.
    pub fn required(&self) -> impl Iterator<Item = &str> {
        let identity = self.identity.iter().map(|argument| &*argument.name);
        identity.chain(self.mcp_data.then_some(MCP_DATA))
    }

    /// Whether only the gateway may supply an argument.
    pub fn hides(&self, name: &str) -> bool {
        self.identity.iter().any(|argument| *argument.name == *name)
            || (self.mcp_data && name == MCP_DATA)
            || self.companions.iter().any(|companion| companion.name() == name)
    }
}

/// A schema mentions a supplied parameter and is too large to be searched completely.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SchemaTooLarge;

/// Hides the supplied parameters of one server's tools.
pub(super) struct ParameterHider<'a> {
    inject: &'a InjectionSettings,
    /// Texts of which at least one occurs in every affected schema, unless it is written with escapes.
    signs: Vec<Finder<'static>>,
    /// The escape sequence that any other spelling of a name must contain.
    escape: Finder<'static>,
}

impl<'a> ParameterHider<'a> {
    pub(super) fn of(inject: &'a InjectionSettings) -> Self {
        let mcp_data = inject.mcp_data.then_some(MCP_DATA);
        let names = inject.identity.iter().chain(&inject.files).map(String::as_str).chain(mcp_data);
        let signs: Vec<_> =
            names.clone().chain(["toolbooth-file"]).map(|sign| Finder::new(sign).into_owned()).collect();
        let plain =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        let escape = if names.clone().all(plain) { "\\u00" } else { "\\" };
        Self { inject, signs, escape: Finder::new(escape).into_owned() }
    }

    /// Removes the supplied parameters from a schema; `None` if it declares none.
    pub(super) fn apply(
        &self,
        schema: &RawJson,
    ) -> Result<Option<(RawJson, InjectedArguments)>, SchemaTooLarge> {
        let bytes = schema.as_bytes();
        let concerned = self.signs.iter().any(|sign| sign.find(bytes).is_some());
        if !concerned && self.escape.find(bytes).is_none() {
            return Ok(None);
        }
        self.apply_over(schema, InjectedArguments::default())
    }

    /// Like [`Self::apply`], for a schema that replaces another: parameters that were supplied before stay supplied.
    pub(super) fn apply_over(
        &self,
        schema: &RawJson,
        before: InjectedArguments,
    ) -> Result<Option<(RawJson, InjectedArguments)>, SchemaTooLarge> {
        let text = schema.as_str();
        let (parts, completeness) = in_place(text);
        if completeness == SchemaCompleteness::Truncated {
            return Err(SchemaTooLarge);
        }
        let mut injected = self.declared(text, &parts);
        injected.take_over(before);
        if injected == InjectedArguments::default() {
            return Ok(None);
        }
        let cuts: Vec<_> = parts.iter().flat_map(|part| hide(text, part, &injected)).collect();
        let public = if cuts.is_empty() { schema.clone() } else { RawJson::trusted(without(text, cuts)) };
        Ok(Some((public, injected)))
    }

    fn declared(&self, text: &str, parts: &[Range<usize>]) -> InjectedArguments {
        let mut injected = InjectedArguments::default();
        let mut companions = Vec::new();
        for property in parts.iter().flat_map(|part| properties(text, part)) {
            let (name, place) = property;
            if self.inject.identity.contains(&name) {
                let fit = if takes_text(text, place, 0) { TextFit::Text } else { TextFit::Other };
                match injected.identity.iter_mut().find(|known| *known.name == *name) {
                    Some(known) if fit == TextFit::Other => known.fit = fit,
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
    let spots = JsonCursor::new(text, part.start).member_spans();
    let lists = spots.into_iter().filter(|spot| spot.key == "properties");
    lists
        .flat_map(|list| JsonCursor::new(text, list.value.start).member_spans())
        .map(|property| (property.key.into_owned(), property.value))
        .collect()
}

/// Whether a parameter declares that it names files.
fn is_marked(text: &str, place: Range<usize>, depth: usize) -> bool {
    depth <= MAX_DEPTH
        && JsonCursor::new(text, place.start).member_spans().into_iter().any(|spot| match &*spot.key {
            "x-toolbooth-file" => &text[spot.value] == "true",
            "format" => JsonCursor::new(text, spot.value.start).text() == "toolbooth-file",
            "items" => is_marked(text, spot.value, depth + 1),
            _ => false,
        })
}

/// Whether a schema accepts text, judging by its types.
fn takes_text(text: &str, place: Range<usize>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let mut cursor = JsonCursor::new(text, place.start);
    if cursor.kind() != JsonKind::Object {
        return &text[place] == "true";
    }
    let takes = |place: Range<usize>| takes_text(text, place, depth + 1);
    cursor.member_spans().into_iter().all(|spot| {
        let mut value = JsonCursor::new(text, spot.value.start);
        match &*spot.key {
            "type" if value.kind() == JsonKind::Text => value.text() == "string",
            "type" => value.element_ranges().into_iter().any(|name| &text[name] == "\"string\""),
            "anyOf" | "oneOf" => value.element_ranges().into_iter().any(takes),
            "allOf" => value.element_ranges().into_iter().all(takes),
            "$ref" => resolve(text, &value.text()).is_some_and(takes),
            _ => true,
        }
    })
}

/// The ranges to remove from one part of the schema.
fn hide(text: &str, part: &Range<usize>, injected: &InjectedArguments) -> Vec<Range<usize>> {
    let mut gone = Vec::new();
    for spot in JsonCursor::new(text, part.start).member_spans() {
        let mut value = JsonCursor::new(text, spot.value.start);
        match &*spot.key {
            "properties" | "dependentSchemas" => gone.extend(hide_members(&mut value, injected)),
            "required" => gone.extend(hide_names(text, &mut value, injected)),
            "dependentRequired" | "dependencies" => {
                gone.extend(hide_members(&mut value, injected));
                for member in JsonCursor::new(text, spot.value.start).member_spans() {
                    gone.extend(hide_names(text, &mut JsonCursor::new(text, member.value.start), injected));
                }
            }
            _ => {}
        }
    }
    gone
}

fn hide_members(object: &mut JsonCursor<'_>, injected: &InjectedArguments) -> Vec<Range<usize>> {
    let spots = object.member_spans();
    let places: Vec<_> = spots.iter().map(|spot| spot.whole.clone()).collect();
    cuts(&places, |index| injected.hides(&spots[index].key))
}

fn hide_names(text: &str, list: &mut JsonCursor<'_>, injected: &InjectedArguments) -> Vec<Range<usize>> {
    let places = list.element_ranges();
    cuts(&places, |index| injected.hides(&JsonCursor::new(text, places[index].start).text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(inject: &InjectionSettings, schema: &str) -> Option<(String, InjectedArguments)> {
        let schema = RawJson::parse(schema.to_owned()).expect("JSON");
        ParameterHider::of(inject)
            .apply(&schema)
            .expect("searched")
            .map(|(public, injected)| (public.to_string(), injected))
    }

    #[test]
    fn supplied_parameters_are_removed_and_the_rest_keeps_every_byte() {
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
            let (public, _) = hidden(&InjectionSettings::all(), schema).expect(schema);
            assert_eq!(public, expected);
        }
    }

    #[test]
    fn other_tools_are_unchanged() {
        let all = InjectionSettings::all();
        for schema in [
            r#"{"properties":{"user":{"description":"the username"}}}"#,
            r#"{"properties":{"user":{"properties":{"username":{}}}}}"#,
            r#"{"properties":{"file_url":{}}}"#,
            r#"{"required":["username"]}"#,
        ] {
            assert_eq!(hidden(&all, schema), None, "{schema}");
        }
        assert_eq!(
            hidden(&InjectionSettings::none(), r#"{"properties":{"username":{},"_mcp_data":{}}}"#),
            None
        );
    }

    #[test]
    fn file_markers_work_on_any_server() {
        let schema = r#"{"properties":{"doc":{"format":"toolbooth-file"},"docs":{"items":{"x-toolbooth-file":true}},"n":{}}}"#;
        let (public, injected) = hidden(&InjectionSettings::none(), schema).expect("marked");
        assert_eq!(public, schema);
        assert_eq!(injected.files, ["doc".into(), "docs".into()] as [Box<str>; 2]);
    }

    #[test]
    fn an_identity_parameter_of_another_type_is_detected() {
        let cases = [
            (r#"{"type":"string"}"#, TextFit::Text),
            (r#"{"type":["null","string"]}"#, TextFit::Text),
            (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, TextFit::Text),
            (r#"{}"#, TextFit::Text),
            (r##"{"$ref":"#/$defs/t"}"##, TextFit::Text),
            (r#"{"type":"array"}"#, TextFit::Other),
            (r#"{"type":["array","object"]}"#, TextFit::Other),
            (r##"{"$ref":"#/$defs/o"}"##, TextFit::Other),
            (r#"{"allOf":[{"type":"string"},{"type":"object"}]}"#, TextFit::Other),
            ("false", TextFit::Other),
        ];
        for (parameter, fit) in cases {
            let schema = format!(
                r#"{{"properties":{{"username":{parameter}}},"$defs":{{"t":{{"type":"string"}},"o":{{"type":"object"}}}}}}"#
            );
            let (_, injected) = hidden(&InjectionSettings::all(), &schema).expect("declared");
            assert_eq!(injected.identity[0].fit, fit, "{parameter}");
        }
    }
}
