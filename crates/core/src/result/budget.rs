//! The budget of a result: a longer result is kept as a file, and the model gets its start, its size, and how to read
//! the rest. A token counts as four bytes of text; a picture or sound as 1,600 tokens at most.

use super::artifact::{Artifact, ArtifactContent, StoredArtifact};
use super::file_result::first_ranges;
use super::inspect::{MAX_BLOCKS, ResultMembers, block_text};
use super::{media, shrink};
use crate::json::{Edit, ObjectWriter, RawJson, compacted, edit_object};
use crate::schema::PublicSchema;
use crate::warning::Warning;
use bytes::Bytes;

pub use crate::own_names::READER;
/// Number of bytes of text that count as a token.
const TOKEN_BYTES: usize = 4;
/// Maximum number of characters of a preview.
const MAX_PREVIEW: usize = 8_000;

/// The maximum length of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// In bytes of text.
    pub bytes: usize,
}

/// A result that is over its budget, taken apart.
#[derive(Debug)]
pub struct Spill {
    result: RawJson,
    blocks: Vec<BlockOutcome>,
    text: Option<SpilledPart>,
    structured: Option<SpilledPart>,
    artifacts: Vec<Artifact>,
    preview: usize,
    budget: Budget,
}

/// The treatment of a content block.
#[derive(Debug)]
enum BlockOutcome {
    Unchanged(RawJson),
    /// Its data is already stored under this name.
    Stored {
        name: String,
        mime: String,
    },
    /// It is moved into the file; the first such block is replaced by the preview.
    Moved,
}

/// A part that is kept as a file.
#[derive(Debug)]
struct SpilledPart {
    whole: Bytes,
    /// Its index among the artifacts.
    artifact: usize,
}

impl Budget {
    /// The budget of `tokens` tokens; `None` if it is zero.
    pub fn of_tokens(tokens: u32) -> Option<Self> {
        let bytes = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_BYTES);
        (tokens > 0).then_some(Self { bytes })
    }

    /// Takes a result apart if it is over the budget. `kept_media` has the name of the stored file for each block with
    /// data.
    pub fn spill(self, result: &RawJson, stem: &str, kept_media: &[Option<String>]) -> Option<Spill> {
        if result.as_bytes().len() <= self.bytes {
            return None;
        }
        let ResultMembers { content, structured } = ResultMembers::of(result)?;
        let content = content.unwrap_or_else(RawJson::null);
        let (blocks, moved) = self.sort(&content, kept_media);
        let structured = structured.filter(|value| value.as_bytes().len() > self.bytes);
        let named = blocks.iter().any(|block| matches!(block, BlockOutcome::Stored { .. }));
        if moved.is_none() && structured.is_none() && !named {
            return None;
        }
        let mut artifacts = Vec::new();
        let mut keep = |whole: &Bytes, suffix: &str| {
            artifacts.push(file(whole, stem, suffix));
            SpilledPart { whole: whole.clone(), artifact: artifacts.len() - 1 }
        };
        // Servers often send the same in text and in structured content: one file is enough.
        let (text, structured) = match (moved, structured) {
            (Some(text), Some(value)) if equal_except_space(&text, value.as_bytes()) => {
                let piece = keep(value.bytes(), "");
                let twin = SpilledPart { whole: piece.whole.clone(), artifact: piece.artifact };
                (Some(piece), Some(twin))
            }
            (text, value) => {
                (text.map(|text| keep(&text, "")), value.map(|value| keep(value.bytes(), "-structured")))
            }
        };
        let preview = (self.bytes / 4).min(MAX_PREVIEW);
        Some(Spill { result: result.clone(), blocks, text, structured, artifacts, preview, budget: self })
    }

    /// Decides for each block whether it stays, and returns the text of those that do not.
    fn sort(self, content: &RawJson, kept_media: &[Option<String>]) -> (Vec<BlockOutcome>, Option<Bytes>) {
        let text = content.as_str();
        let (places, more) = first_ranges(text, MAX_BLOCKS);
        if more > 0 && text.len() > self.bytes {
            return (vec![BlockOutcome::Moved], Some(content.bytes().clone()));
        }
        let blocks: Vec<RawJson> = places.into_iter().map(|place| content.share(&text[place])).collect();
        let media: Vec<_> = blocks.iter().map(|block| media::read(block, "", 0)).collect();
        let weight = |at: usize| media[at].as_ref().map_or(blocks[at].as_bytes().len(), |media| media.weight);
        let mut left = self.bytes;
        if (0..blocks.len()).map(weight).sum::<usize>() > self.bytes {
            // The preview needs space as well.
            left -= self.bytes / 4;
        }
        let mut names = kept_media.iter();
        let mut sorted = Vec::with_capacity(blocks.len());
        let mut moved: Vec<&RawJson> = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            let name = media[at].as_ref().and_then(|_| names.next().cloned().flatten());
            let fits = weight(at) <= left;
            if fits {
                left -= weight(at);
            }
            sorted.push(match (&media[at], name) {
                _ if fits => BlockOutcome::Unchanged(block.clone()),
                (Some(media), Some(name)) => BlockOutcome::Stored { name, mime: media.mime.clone() },
                // Data that was not stored is not discarded.
                (Some(_), None) => BlockOutcome::Unchanged(block.clone()),
                (None, _) => {
                    moved.push(block);
                    BlockOutcome::Moved
                }
            });
        }
        let moved = match &moved[..] {
            [] => None,
            [one] => Some(block_text(one).map_or_else(|| one.bytes().clone(), Bytes::from)),
            many => {
                let texts: Vec<&str> = many.iter().map(|block| block.as_str()).collect();
                Some(format!("[{}]", texts.join(",")).into())
            }
        };
        (sorted, moved)
    }
}

impl Spill {
    /// The files to keep.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// Writes the result within its budget, given which files were stored. If a file was not stored, nothing changes.
    pub fn finish(
        self,
        outcomes: &[Result<StoredArtifact, String>],
        output_schema: Option<&RawJson>,
    ) -> (RawJson, Vec<Warning>) {
        let warnings = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let warnings: Vec<Warning> = warnings.map(|reason| Warning::NotKept(reason.clone())).collect();
        if self.artifacts.len() != outcomes.len() || !warnings.is_empty() {
            return (self.result, warnings);
        }
        let name =
            |piece: &SpilledPart| outcomes[piece.artifact].as_ref().map_or("", |kept| kept.name.as_str());
        let mut notes = Vec::new();
        let mut has_preview = false;
        for block in &self.blocks {
            match block {
                BlockOutcome::Unchanged(block) => notes.push(block.clone()),
                BlockOutcome::Stored { name, mime } => notes.push(text_block(&format!(
                    "[{mime}, kept as `{name}`: it is over the budget of this result. {READER} {} shows it.]",
                    argument("name", name),
                ))),
                BlockOutcome::Moved if has_preview => {}
                BlockOutcome::Moved => {
                    has_preview = true;
                    notes.extend(self.text.as_ref().map(|piece| self.preview_of(piece, name(piece))));
                }
            }
        }
        let mut structured = Edit::Keep;
        if let Some(piece) = &self.structured {
            if !has_preview {
                notes.push(self.preview_of(piece, name(piece)));
            }
            structured = self.structure(piece, output_schema);
        }
        let content = RawJson::trusted(format!(
            "[{}]",
            notes.iter().map(RawJson::as_str).collect::<Vec<_>>().join(",")
        ));
        let edited = edit_object(&self.result, |key, _| match key {
            "content" => Edit::Replace(content.clone()),
            "structuredContent" => std::mem::replace(&mut structured, Edit::Drop),
            _ => Edit::Keep,
        });
        (edited.unwrap_or(self.result), warnings)
    }

    /// Removes structured content without an output schema. A client with a schema gets it smaller, in the same shape,
    /// or whole if a smaller one would not match the schema.
    fn structure(&self, piece: &SpilledPart, output_schema: Option<&RawJson>) -> Edit {
        let Some(schema) = output_schema else { return Edit::Drop };
        let Ok(whole) = RawJson::parse(piece.whole.clone()) else { return Edit::Drop };
        let small = shrink::shrunk(&whole, self.preview);
        let fits = small.as_bytes().len() <= self.budget.bytes;
        if fits && PublicSchema::compile(schema).objections(&small).is_empty() {
            Edit::Replace(small)
        } else {
            Edit::Keep
        }
    }

    fn preview_of(&self, piece: &SpilledPart, name: &str) -> RawJson {
        let text = String::from_utf8_lossy(&piece.whole);
        let characters = text.chars().count();
        let start: String = text.chars().take(self.preview).collect();
        let shown = start.chars().count();
        text_block(&format!(
            "{start}\n\n[This is the start, {shown} of {characters} characters: the result is over its budget. All of it is kept as `{name}`. Read on with {READER} {{{},\"offset\":{shown}}}; search it with \"pattern\" (a regular expression), or take parts of JSON with \"jq\".]",
            argument("name", name).trim_matches(['{', '}']),
        ))
    }
}

fn argument(key: &str, value: &str) -> String {
    let mut writer = ObjectWriter::default();
    writer.text(key, value);
    writer.finish().to_string()
}

/// A text block of a result.
pub fn text_block(text: &str) -> RawJson {
    let mut writer = ObjectWriter::with_capacity(text.len() + 32);
    writer.text("type", "text").text("text", text);
    writer.finish()
}

fn file(whole: &Bytes, stem: &str, suffix: &str) -> Artifact {
    let is_json = whole.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['))
        && RawJson::parse(whole.clone()).is_ok();
    let (ending, mime) = if is_json { ("json", "application/json") } else { ("txt", "text/plain") };
    Artifact {
        name: format!("{stem}{suffix}.{ending}"),
        mime: Some(mime.into()),
        description: Some("The complete result, which is over its budget.".into()),
        viewer: None,
        content: ArtifactContent::Plain(whole.clone()),
    }
}

/// Whether two JSON texts differ only in white space between their parts.
fn equal_except_space(a: &[u8], b: &[u8]) -> bool {
    a == b || compacted(a).is_some_and(|a| compacted(b).is_some_and(|b| a == b))
}
