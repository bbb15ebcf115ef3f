//! Results of tools that return files: `{results, artifacts?, display?, meta_data?}`.
//!
//! An object is a file result if it has an answer and, beside it, something that only file results have: files
//! with their content, display hints, or long metadata. Any other object, even an answer alone, already is what a model
//! should see and stays unchanged. So does `{"result": 5}`, in which some servers wrap values that are not objects; the
//! file result is recognised inside such a wrapper as well.

use super::artifact::{Artifact, RefusedArtifact};
use super::display;
use crate::json::{Edit, JsonCursor, Member, ObjectWriter, RawJson, edit_object};
use bytes::Bytes;
use std::convert::Infallible;
use std::ops::Range;

/// Maximum number of characters of metadata that a model is shown.
pub const MAX_META: usize = 4_000;
/// Objects with more members are not file results, and of longer lists only the start is read.
const MAX_MEMBERS: usize = 256;
const MAX_ELEMENTS: usize = 512;

/// The result of a tool that returns files.
#[derive(Debug)]
pub struct FileResult {
    members: Vec<(MemberRole, Member)>,
    wrapping: Wrapping,
    /// Its files, or the reasons why they were refused.
    pub files: Vec<Result<Artifact, RefusedArtifact>>,
    /// Number of files that were not read.
    pub unread: usize,
}

/// How the object was wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapping {
    Bare,
    /// As the only member, `result`, of another object.
    Object,
    /// The same, as a string.
    Text,
}

/// The role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberRole {
    Results,
    Meta,
    Files,
    Display,
    Other,
}

/// The reader that the object is written for.
#[derive(Debug, Clone, Copy)]
pub enum OutputTarget<'a> {
    /// A model: gets the answer under its name, and the names of the files.
    Model,
    /// A client that checks it against this schema: nothing is added, and members that the schema names stay.
    Schema(&'a str),
}

impl FileResult {
    /// Reads an object that may be a file result, wrapped or not.
    pub fn of(value: &RawJson) -> Option<Self> {
        let members = few_members(value)?;
        if let [Member { key, value }] = &members[..] {
            if key != "result" {
                return None;
            }
            let (inner, wrapping) = match value.string() {
                Some(text) => (text_object(&text)?, Wrapping::Text),
                None => (value.clone(), Wrapping::Object),
            };
            return Self::bare(few_members(&inner)?, wrapping);
        }
        Self::bare(members, Wrapping::Bare)
    }

    /// Reads a text that may be such an object.
    pub fn of_text(text: &str) -> Option<Self> {
        Self::bare(few_members(&text_object(text)?)?, Wrapping::Bare)
    }

    fn bare(members: Vec<Member>, wrapping: Wrapping) -> Option<Self> {
        let has = |key: &str| members.iter().any(|member| member.key == key);
        let answer = if has("results") { "results" } else { "result" };
        if !has(answer) {
            return None;
        }
        let mut is_file_result = false;
        let (mut files, mut unread) = (Vec::new(), 0);
        let mut roles = Vec::with_capacity(members.len());
        for member in &members {
            let value = &member.value;
            roles.push(match member.key.as_str() {
                key if key == answer => MemberRole::Results,
                "meta_data" | "meta-data" => {
                    is_file_result |= is_long(value);
                    MemberRole::Meta
                }
                "metadata" if !has("meta_data") && !has("meta-data") => MemberRole::Meta,
                "display" if is_hint(value) => {
                    is_file_result = true;
                    MemberRole::Display
                }
                "artifacts" | "returned_files" if value.as_str().starts_with('[') => {
                    let (read, content): (fn(&RawJson, usize) -> _, _) = match member.key.as_str() {
                        "artifacts" => (Artifact::read, "b64"),
                        _ => (Artifact::read_old, "content_base64"),
                    };
                    let (elements, more) = first_elements(value);
                    is_file_result |= elements.iter().any(|element| element.member(content).is_some());
                    let place = files.len();
                    files.extend(elements.iter().enumerate().map(|(at, one)| read(one, place + at + 1)));
                    unread += more;
                    MemberRole::Files
                }
                "returned_file_contents" if has("returned_file_names") => {
                    let names = members.iter().find(|member| member.key == "returned_file_names");
                    files.extend(paired(&names?.value, value));
                    is_file_result = true;
                    MemberRole::Files
                }
                "returned_file_names" if has("returned_file_contents") => MemberRole::Files,
                _ => MemberRole::Other,
            });
        }
        let members = roles.into_iter().zip(members).collect();
        is_file_result.then_some(Self { members, wrapping, files, unread })
    }

    /// Its display hints.
    pub fn display(&self) -> Option<&RawJson> {
        self.role(MemberRole::Display)
    }

    /// Its metadata, if it is too long to be shown.
    pub fn long_meta(&self) -> Option<&RawJson> {
        self.role(MemberRole::Meta).filter(|meta| is_long(meta))
    }

    fn role(&self, role: MemberRole) -> Option<&RawJson> {
        self.members.iter().rev().find(|(own, _)| *own == role).map(|(_, member)| &member.value)
    }

    /// Writes the object with the names of the stored files.
    pub fn written(&self, names: &[&str], target: OutputTarget<'_>) -> RawJson {
        let object = match target {
            OutputTarget::Model => self.for_model(names),
            OutputTarget::Schema(schema) => self.for_schema(schema),
        };
        let mut wrapped = ObjectWriter::default();
        match self.wrapping {
            Wrapping::Bare => return object,
            Wrapping::Object => wrapped.raw("result", &object),
            Wrapping::Text => wrapped.text("result", object.as_str()),
        };
        wrapped.finish()
    }

    fn for_model(&self, names: &[&str]) -> RawJson {
        let mut writer = ObjectWriter::with_capacity(512);
        for (role, Member { key, value }) in &self.members {
            match role {
                MemberRole::Results => writer.raw("results", value),
                MemberRole::Meta if is_long(value) => {
                    let start: String = value.as_str().chars().take(MAX_META).collect();
                    writer.text("meta_data", &start).raw("meta_data_truncated", &RawJson::from_value(&true))
                }
                MemberRole::Meta => writer.raw("meta_data", value),
                MemberRole::Files | MemberRole::Display => &mut writer,
                MemberRole::Other => writer.raw(key, value),
            };
        }
        if !names.is_empty() {
            writer.raw("returned_file_names", &RawJson::from_value(names));
        }
        writer.finish()
    }

    fn for_schema(&self, schema: &str) -> RawJson {
        let names = |key: &str| schema.contains(&format!("\"{key}\""));
        let mut writer = ObjectWriter::with_capacity(512);
        for (role, Member { key, value }) in &self.members {
            match role {
                MemberRole::Display | MemberRole::Files if !names(key) => &mut writer,
                MemberRole::Files => writer.raw(key, &emptied(value, &names)),
                _ => writer.raw(key, value),
            };
        }
        writer.finish()
    }
}

/// A list of files without their content. If the schema names the content, it becomes an empty string.
fn emptied(list: &RawJson, names: &dyn Fn(&str) -> bool) -> RawJson {
    let empty = || RawJson::trusted(&b"\"\""[..]);
    let (elements, _) = first_elements(list);
    let elements = elements.into_iter().map(|element| {
        if !element.is_object() {
            return if element.as_bytes().len() > 300 { empty() } else { element };
        }
        let edited = edit_object(&element, |key, _| match key {
            "b64" | "content_base64" if names(key) => Edit::Replace(empty()),
            "b64" | "content_base64" => Edit::Drop,
            _ => Edit::Keep,
        });
        edited.unwrap_or_else(|_| RawJson::empty_object())
    });
    let elements: Vec<String> = elements.map(|element| element.to_string()).collect();
    RawJson::trusted(format!("[{}]", elements.join(",")))
}

/// Reads names in one list and contents in another, an older form.
fn paired(names: &RawJson, contents: &RawJson) -> Vec<Result<Artifact, RefusedArtifact>> {
    let ((names, _), (contents, _)) = (first_elements(names), first_elements(contents));
    let pairs = names.iter().zip(&contents).enumerate().map(|(at, (name, content))| {
        let mut object = ObjectWriter::default();
        object.raw("name", name).raw("b64", content);
        Artifact::read(&object.finish(), at + 1)
    });
    pairs.collect()
}

fn is_long(meta: &RawJson) -> bool {
    meta.as_bytes().len() > MAX_META && meta.as_str().chars().nth(MAX_META).is_some()
}

fn is_hint(value: &RawJson) -> bool {
    value.is_object() && display::KNOWN.iter().any(|key| value.member(key).is_some())
}

/// A text that is an object, parsed.
fn text_object(text: &str) -> Option<RawJson> {
    let trimmed = text.trim_start();
    trimmed
        .starts_with('{')
        .then(|| RawJson::parse(Bytes::copy_from_slice(trimmed.as_bytes())).ok())
        .flatten()
}

/// The members of an object; `None` if it has too many.
fn few_members(object: &RawJson) -> Option<Vec<Member>> {
    if !object.is_object() {
        return None;
    }
    let mut members = Vec::new();
    let text = object.as_str();
    JsonCursor::new(text, 0)
        .members(|cursor, key| {
            if members.len() == MAX_MEMBERS {
                return Err(());
            }
            let value = object.share(&text[cursor.skip()]);
            members.push(Member { key: key.into_owned(), value });
            Ok(())
        })
        .ok()?;
    Some(members)
}

/// The first elements of a list, and the number of the others.
fn first_elements(list: &RawJson) -> (Vec<RawJson>, usize) {
    let text = list.as_str();
    let (places, more) = first_ranges(text, MAX_ELEMENTS);
    (places.into_iter().map(|place| list.share(&text[place])).collect(), more)
}

/// The ranges of the first elements of a list, and the number of the others.
pub(super) fn first_ranges(list: &str, most: usize) -> (Vec<Range<usize>>, usize) {
    let (mut places, mut more) = (Vec::new(), 0);
    if !list.starts_with('[') {
        return (places, more);
    }
    let Ok(()) = JsonCursor::new(list, 0).elements::<Infallible>(|cursor| {
        let place = cursor.skip();
        if places.len() < most {
            places.push(place);
        } else {
            more += 1;
        }
        Ok(())
    });
    (places, more)
}
