//! The contract of tools that return files: `{results, artifacts?, display?, meta_data?}`.
//!
//! An object is meant so when it has an answer and, beside it, something that only the contract knows: files
//! with their content, hints for the canvas, or long metadata. Anything else, also an answer alone, already
//! is what a model should see and stays as it is. So does `{"result": 5}`, which is how some servers wrap what
//! is no object; inside such a wrapping the contract is looked for too.

use super::artifact::{Artifact, Refused};
use super::display;
use crate::cursor::Cursor;
use crate::json::{Edit, Member, ObjectWriter, RawJson, edit_object};
use bytes::Bytes;
use std::convert::Infallible;
use std::ops::Range;

/// The longest metadata that a model is shown, in characters.
pub const MAX_META: usize = 4_000;
/// Objects with more members are not meant so, and of longer lists only the start is read.
const MAX_MEMBERS: usize = 256;
const MAX_ELEMENTS: usize = 512;

/// An object that keeps to the contract.
#[derive(Debug)]
pub struct Contract {
    members: Vec<(Role, Member)>,
    wrapping: Wrapping,
    /// The files in it, each with what is wrong with it.
    pub files: Vec<Result<Artifact, Refused>>,
    /// How many files were not even looked at.
    pub unread: usize,
}

/// How the object stood where it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrapping {
    Bare,
    /// As the only member, `result`, of another object.
    Object,
    /// Likewise, as a text.
    Text,
}

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Results,
    Meta,
    Files,
    Display,
    Other,
}

/// Whom the object is written for.
#[derive(Debug, Clone, Copy)]
pub enum Fit<'a> {
    /// A model: the answer under its name, and the names of the files.
    Free,
    /// A client that checks it against this schema: nothing is added, and what the schema names stays.
    Schema(&'a str),
}

impl Contract {
    /// Reads an object that may be meant so, in a wrapping or without.
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
        let mut is_meant = false;
        let (mut files, mut unread) = (Vec::new(), 0);
        let mut roles = Vec::with_capacity(members.len());
        for member in &members {
            let value = &member.value;
            roles.push(match member.key.as_str() {
                key if key == answer => Role::Results,
                "meta_data" | "meta-data" => {
                    is_meant |= is_long(value);
                    Role::Meta
                }
                "metadata" if !has("meta_data") && !has("meta-data") => Role::Meta,
                "display" if is_hint(value) => {
                    is_meant = true;
                    Role::Display
                }
                "artifacts" | "returned_files" if value.as_str().starts_with('[') => {
                    let (read, content): (fn(&RawJson, usize) -> _, _) = match member.key.as_str() {
                        "artifacts" => (Artifact::read, "b64"),
                        _ => (Artifact::read_old, "content_base64"),
                    };
                    let (elements, more) = first_elements(value);
                    is_meant |= elements.iter().any(|element| element.member(content).is_some());
                    let place = files.len();
                    files.extend(elements.iter().enumerate().map(|(at, one)| read(one, place + at + 1)));
                    unread += more;
                    Role::Files
                }
                "returned_file_contents" if has("returned_file_names") => {
                    let names = members.iter().find(|member| member.key == "returned_file_names");
                    files.extend(paired(&names?.value, value));
                    is_meant = true;
                    Role::Files
                }
                "returned_file_names" if has("returned_file_contents") => Role::Files,
                _ => Role::Other,
            });
        }
        let members = roles.into_iter().zip(members).collect();
        is_meant.then_some(Self { members, wrapping, files, unread })
    }

    /// How it wants to be shown.
    pub fn display(&self) -> Option<&RawJson> {
        self.role(Role::Display)
    }

    /// Its metadata, where it is too long to be shown.
    pub fn long_meta(&self) -> Option<&RawJson> {
        self.role(Role::Meta).filter(|meta| is_long(meta))
    }

    fn role(&self, wanted: Role) -> Option<&RawJson> {
        self.members.iter().rev().find(|(role, _)| *role == wanted).map(|(_, member)| &member.value)
    }

    /// The object as it goes on, with the names of the files that were kept.
    pub fn written(&self, names: &[&str], fit: Fit<'_>) -> RawJson {
        let object = match fit {
            Fit::Free => self.for_model(names),
            Fit::Schema(schema) => self.for_schema(schema),
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
                Role::Results => writer.raw("results", value),
                Role::Meta if is_long(value) => {
                    let start: String = value.as_str().chars().take(MAX_META).collect();
                    writer.text("meta_data", &start).raw("meta_data_truncated", &RawJson::from_value(&true))
                }
                Role::Meta => writer.raw("meta_data", value),
                Role::Files | Role::Display => &mut writer,
                Role::Other => writer.raw(key, value),
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
                Role::Display | Role::Files if !names(key) => &mut writer,
                Role::Files => writer.raw(key, &emptied(value, &names)),
                _ => writer.raw(key, value),
            };
        }
        writer.finish()
    }
}

/// A list of files without their content. A schema that wants the content gets an empty one.
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

/// Names in one list and contents in another, as tools wrote it once.
fn paired(names: &RawJson, contents: &RawJson) -> Vec<Result<Artifact, Refused>> {
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

/// A text as the object that it is.
fn text_object(text: &str) -> Option<RawJson> {
    let trimmed = text.trim_start();
    trimmed
        .starts_with('{')
        .then(|| RawJson::parse(Bytes::copy_from_slice(trimmed.as_bytes())).ok())
        .flatten()
}

/// The members of an object that has not too many.
fn few_members(object: &RawJson) -> Option<Vec<Member>> {
    if !object.is_object() {
        return None;
    }
    let mut members = Vec::new();
    let text = object.as_str();
    Cursor::new(text, 0)
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

/// The first elements of a list, and how many more there are.
fn first_elements(list: &RawJson) -> (Vec<RawJson>, usize) {
    let text = list.as_str();
    let (places, more) = first_places(text, MAX_ELEMENTS);
    (places.into_iter().map(|place| list.share(&text[place])).collect(), more)
}

/// Where the first elements of a list stand, and how many more there are.
pub(super) fn first_places(list: &str, most: usize) -> (Vec<Range<usize>>, usize) {
    let (mut places, mut more) = (Vec::new(), 0);
    if !list.starts_with('[') {
        return (places, more);
    }
    let Ok(()) = Cursor::new(list, 0).elements::<Infallible>(|cursor| {
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
