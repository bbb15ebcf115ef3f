//! Takes a result apart: finds the files to keep and writes the rest.
//!
//! It works in two steps, because the engine stores the files in between: refused files are reported, and only files
//! that were stored are named.

use super::artifact::{Artifact, ArtifactContent, RefusedArtifact, StoredArtifact};
use super::file_result::{FileResult, OutputTarget, first_ranges};
use super::prescan::Prescan;
use super::{ARTIFACTS, DISPLAY, display, media};
use crate::json::{Edit, Member, ObjectWriter, RawJson, edit_object, with_members};
use crate::schema::shortened;
use crate::warning::Warning;
use std::ops::Range;

/// Maximum number of blocks of a result that are inspected.
pub(super) const MAX_BLOCKS: usize = 1_024;

/// The rules for the result of one call.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The beginning of the names of files that the gateway makes.
    pub stem: &'a str,
    /// The tool's output schema.
    pub output_schema: Option<&'a RawJson>,
    /// Maximum number of files of one call.
    pub max_artifacts: usize,
    /// Maximum size of all files of one call.
    pub max_bytes: u64,
    /// Hosts whose pages may be shown in a frame.
    pub hosts: &'a [String],
}

/// A result taken apart.
#[derive(Debug)]
pub struct Inspection {
    result: RawJson,
    structured: Option<FileResult>,
    /// Texts that are file results, each with the range of its block in `content`.
    texts: Vec<(Range<usize>, FileResult)>,
    /// The files to keep, in order.
    artifacts: Vec<Artifact>,
    /// For each block with data the offered name of its file.
    media: Vec<String>,
    refused: Vec<RefusedArtifact>,
    unread: usize,
}

/// A shaped result.
#[derive(Debug)]
pub struct Shaped {
    /// The result without the removed parts.
    pub result: RawJson,
    /// Display hints.
    pub display: Option<RawJson>,
    /// Warnings about refused parts.
    pub warnings: Vec<Warning>,
}

impl Inspection {
    /// Takes a result apart as far as the prescan requires; `None` if it passes unchanged.
    pub fn of(result: &RawJson, prescan: Prescan, rules: &Rules<'_>) -> Option<Self> {
        let may_have_files = prescan.may_be_file_result();
        if !may_have_files && !prescan.media {
            return None;
        }
        let ResultMembers { content, structured } = ResultMembers::of(result)?;
        let structured = structured.filter(|_| may_have_files).and_then(|value| FileResult::of(&value));
        let content = content.unwrap_or_else(RawJson::null);
        let mut found = Self {
            result: result.clone(),
            structured,
            texts: Vec::new(),
            artifacts: Vec::new(),
            media: Vec::new(),
            refused: Vec::new(),
            unread: 0,
        };
        let mut offered = Vec::new();
        found.offer(found.structured.as_ref().map(files_of), &mut offered);
        for (place, block) in blocks_of(&content) {
            if may_have_files
                && let Some(text) = block_text(&block)
                && let Some(file_result) = FileResult::of_text(&text)
            {
                found.offer(Some(files_of(&file_result)), &mut offered);
                found.texts.push((place, file_result));
            } else if prescan.media
                && let Some(media) = media::read(&block, rules.stem, found.media.len() + 1)
            {
                found.media.push(media.artifact.name.clone());
                offered.push(Ok(media.artifact));
            }
        }
        if found.structured.is_none() && found.texts.is_empty() && found.media.is_empty() {
            return None;
        }
        found.keep_long_meta(rules, &mut offered);
        found.bound(offered, rules);
        Some(found)
    }

    /// Adds files that were not offered before: servers often send the same in text and in structured content.
    fn offer(
        &mut self,
        files: Option<(Vec<Result<Artifact, RefusedArtifact>>, usize)>,
        offered: &mut Vec<Result<Artifact, RefusedArtifact>>,
    ) {
        let Some((files, unread)) = files else { return };
        self.unread = self.unread.max(unread);
        for file in files {
            if !offered.contains(&file) {
                offered.push(file);
            }
        }
    }

    fn keep_long_meta(&self, rules: &Rules<'_>, offered: &mut Vec<Result<Artifact, RefusedArtifact>>) {
        let all = self.structured.iter().chain(self.texts.iter().map(|(_, file_result)| file_result));
        if let Some(meta) = all.filter_map(FileResult::long_meta).next() {
            offered.push(Ok(Artifact {
                name: format!("{}-meta_data.json", rules.stem),
                mime: Some("application/json".into()),
                description: Some("The complete metadata of the result.".into()),
                viewer: None,
                content: ArtifactContent::Plain(meta.bytes().clone()),
            }));
        }
    }

    /// Accepts as many files as one call may have.
    fn bound(&mut self, offered: Vec<Result<Artifact, RefusedArtifact>>, rules: &Rules<'_>) {
        let mut bytes = 0_u64;
        for file in offered {
            match file {
                Err(refused) => self.refused.push(refused),
                Ok(file) => {
                    let size = file.content.size();
                    let reason = if self.artifacts.len() >= rules.max_artifacts {
                        format!("a call may return {} files", rules.max_artifacts)
                    } else if bytes.saturating_add(size) > rules.max_bytes {
                        format!("the files of a call may have {} bytes together", rules.max_bytes)
                    } else {
                        bytes += size;
                        self.artifacts.push(file);
                        continue;
                    };
                    self.refused.push(RefusedArtifact { name: shortened(&file.name, 100), reason });
                }
            }
        }
    }

    /// The files to keep.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// For each block with data the name under which it was kept.
    pub fn media_names(&self, outcomes: &[Result<StoredArtifact, String>]) -> Vec<Option<String>> {
        let name = |offered: &String| {
            // A name refers to the last file with this name.
            let place = self.artifacts.iter().rposition(|artifact| artifact.name == *offered)?;
            outcomes.get(place)?.as_ref().ok().map(|kept| kept.name.clone())
        };
        self.media.iter().map(name).collect()
    }

    /// Writes the result, given the outcome of each file.
    pub fn finish(self, outcomes: &[Result<StoredArtifact, String>], rules: &Rules<'_>) -> Shaped {
        let kept = |artifact: &Artifact| {
            let place = self.artifacts.iter().position(|other| other.name == artifact.name)?;
            outcomes.get(place)?.as_ref().ok().map(|kept| kept.name.as_str())
        };
        let mut names: Vec<&str> = Vec::new();
        for (_, outcome) in self.artifacts.iter().zip(outcomes) {
            if let Ok(kept) = outcome
                && !names.contains(&kept.name.as_str())
            {
                names.push(&kept.name);
            }
        }
        let mut warnings = Vec::new();
        for RefusedArtifact { name, reason } in self.refused.iter() {
            Warning::add_artifact(&mut warnings, name, reason);
        }
        for (artifact, outcome) in self.artifacts.iter().zip(outcomes) {
            if let Err(reason) = outcome {
                Warning::add_artifact(&mut warnings, &artifact.name, reason);
            }
        }
        for _ in 0..self.unread.min(1) {
            warnings.push(Warning::MoreArtifacts(self.unread));
        }
        let all = || self.structured.iter().chain(self.texts.iter().map(|(_, file_result)| file_result));
        let mut shown = None;
        if let Some(hints) = all().find_map(FileResult::display) {
            let renamed = |name: &str| {
                let artifact = self.artifacts.iter().find(|artifact| artifact.name == name)?;
                kept(artifact).map(str::to_owned)
            };
            let (checked, noted) = display::checked(hints, rules.hosts, &renamed);
            warnings.extend(noted);
            shown = checked;
        } else if let Some(name) = self.picture(outcomes) {
            shown = Some(display::of_picture(name));
        }
        Shaped { result: self.written(&names, rules), display: shown, warnings }
    }

    /// The stored name of the first picture among the blocks with data.
    fn picture<'o>(&self, outcomes: &'o [Result<StoredArtifact, String>]) -> Option<&'o str> {
        let is_picture = |artifact: &Artifact| {
            artifact.mime.as_ref().is_some_and(|mime| mime.starts_with("image/"))
                && self.media.contains(&artifact.name)
        };
        let mut stored = self.artifacts.iter().zip(outcomes).filter(|(artifact, _)| is_picture(artifact));
        stored.find_map(|(_, outcome)| outcome.as_ref().ok()).map(|kept| kept.name.as_str())
    }

    fn written(&self, names: &[&str], rules: &Rules<'_>) -> RawJson {
        if self.structured.is_none() && self.texts.is_empty() {
            return self.result.clone();
        }
        let edited = edit_object(&self.result, |key, value| match key {
            "structuredContent" => match &self.structured {
                Some(file_result) => {
                    let target = rules
                        .output_schema
                        .map_or(OutputTarget::Model, |schema| OutputTarget::Schema(schema.as_str()));
                    Edit::Replace(file_result.written(names, target))
                }
                None => Edit::Keep,
            },
            "content" if !self.texts.is_empty() => {
                Edit::Replace(self.content(&self.result.share(value), names))
            }
            _ => Edit::Keep,
        });
        edited.unwrap_or_else(|_| self.result.clone())
    }

    fn content(&self, content: &RawJson, names: &[&str]) -> RawJson {
        let mut out = String::with_capacity(content.as_bytes().len().min(1 << 16));
        let (text, mut from) = (content.as_str(), 0);
        for (place, file_result) in &self.texts {
            let block = content.share(&text[place.clone()]);
            let shown = RawJson::from_value(file_result.written(names, OutputTarget::Model).as_str());
            let Ok(block) = with_members(&block, &[("text", shown)]) else { continue };
            out.push_str(&text[from..place.start]);
            out.push_str(block.as_str());
            from = place.end;
        }
        out.push_str(&text[from..]);
        RawJson::trusted(out)
    }
}

/// The first blocks of a result's content, each with its range.
pub(super) fn blocks_of(content: &RawJson) -> impl Iterator<Item = (Range<usize>, RawJson)> + '_ {
    let text = content.as_str();
    let (places, _) = first_ranges(text, MAX_BLOCKS);
    places.into_iter().map(move |place| {
        let block = content.share(&text[place.clone()]);
        (place, block)
    })
}

fn files_of(file_result: &FileResult) -> (Vec<Result<Artifact, RefusedArtifact>>, usize) {
    (file_result.files.clone(), file_result.unread)
}

/// The text of a text block.
pub(super) fn block_text(block: &RawJson) -> Option<String> {
    let kind = block.member("type")?;
    if kind.string()? != "text" {
        return None;
    }
    block.member("text")?.string().map(|text| text.into_owned())
}

/// The members of a result that may need inspection.
pub(super) struct ResultMembers {
    pub(super) content: Option<RawJson>,
    pub(super) structured: Option<RawJson>,
}

impl ResultMembers {
    pub(super) fn of(result: &RawJson) -> Option<Self> {
        if !result.is_object() {
            return None;
        }
        Some(Self { content: result.member("content"), structured: result.member("structuredContent") })
    }
}

/// Adds the kept files and display hints to a result's `_meta`.
pub fn annotated(result: RawJson, kept: &[StoredArtifact], display: Option<&RawJson>) -> RawJson {
    if (kept.is_empty() && display.is_none()) || !result.is_object() {
        return result;
    }
    let before = result.member("_meta");
    let mut meta = ObjectWriter::default();
    for Member { key, value } in before.as_ref().and_then(|meta| meta.members().ok()).unwrap_or_default() {
        if key != ARTIFACTS && key != DISPLAY {
            meta.raw(&key, &value);
        }
    }
    if !kept.is_empty() {
        meta.raw(ARTIFACTS, &RawJson::from_value(kept));
    }
    if let Some(display) = display {
        meta.raw(DISPLAY, display);
    }
    let meta = meta.finish();
    if before.is_some() {
        return with_members(&result, &[("_meta", meta)]).unwrap_or(result);
    }
    // Appended, so that the rest keeps its text.
    let text = result.as_str().trim_end();
    let open = text.strip_suffix('}').unwrap_or(text);
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    RawJson::trusted(format!("{open}{comma}\"_meta\":{meta}}}"))
}
