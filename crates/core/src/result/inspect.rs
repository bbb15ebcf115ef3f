//! Taking a result apart: what of it is to be kept, and how the rest goes on.
//!
//! In two steps, since between them the files are kept by somebody who may do so: what was refused is told,
//! and a name is shown only for a file that is there.

use super::artifact::{Artifact, Content, Kept, Refused};
use super::contract::{Contract, Fit, first_places};
use super::glance::Glance;
use super::{ARTIFACTS, DISPLAY, display, media};
use crate::call::Warning;
use crate::json::{Edit, Member, ObjectWriter, RawJson, edit_object, with_members};
use crate::schema::shortened;
use std::ops::Range;

/// How many blocks of a result are looked at.
pub(super) const MAX_BLOCKS: usize = 1_024;

/// What is known of the call whose result it is, and how much of it is kept.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// How names of files begin that the gateway itself makes.
    pub stem: &'a str,
    /// What the tool says its structured content is.
    pub output_schema: Option<&'a RawJson>,
    /// The most files of one call.
    pub max_artifacts: usize,
    /// The most bytes of them together.
    pub max_bytes: u64,
    /// Hosts whose pages may stand in a frame.
    pub hosts: &'a [String],
}

/// A result that is taken apart.
#[derive(Debug)]
pub struct Inspection {
    result: RawJson,
    structured: Option<Contract>,
    /// Texts of the contract, each with the place of its block in `content`.
    texts: Vec<(Range<usize>, Contract)>,
    /// The files to keep, in order.
    artifacts: Vec<Artifact>,
    /// For each block with data, the name of its file as it was offered.
    media: Vec<String>,
    refused: Vec<Refused>,
    unread: usize,
}

/// What goes on.
#[derive(Debug)]
pub struct Shaped {
    /// The result, without what was taken out of it.
    pub result: RawJson,
    /// How it wants to be shown.
    pub display: Option<RawJson>,
    /// What was refused.
    pub warnings: Vec<Warning>,
}

impl Inspection {
    /// Takes a result apart, as far as the glance says it must be; nothing, if it goes on as it is.
    pub fn of(result: &RawJson, glance: Glance, rules: &Rules<'_>) -> Option<Self> {
        let by_contract = glance.may_be_contract();
        if !by_contract && !glance.media {
            return None;
        }
        let Look { content, structured } = Look::at(result)?;
        let structured = structured.filter(|_| by_contract).and_then(|value| Contract::of(&value));
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
            if by_contract
                && let Some(text) = text_of(&block)
                && let Some(contract) = Contract::of_text(&text)
            {
                found.offer(Some(files_of(&contract)), &mut offered);
                found.texts.push((place, contract));
            } else if glance.media
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

    /// Adds files that were not there already: servers say the same in text and in structured content.
    fn offer(
        &mut self,
        files: Option<(Vec<Result<Artifact, Refused>>, usize)>,
        offered: &mut Vec<Result<Artifact, Refused>>,
    ) {
        let Some((files, unread)) = files else { return };
        self.unread = self.unread.max(unread);
        for file in files {
            if !offered.contains(&file) {
                offered.push(file);
            }
        }
    }

    fn keep_long_meta(&self, rules: &Rules<'_>, offered: &mut Vec<Result<Artifact, Refused>>) {
        let all = self.structured.iter().chain(self.texts.iter().map(|(_, contract)| contract));
        if let Some(meta) = all.filter_map(Contract::long_meta).next() {
            offered.push(Ok(Artifact {
                name: format!("{}-meta_data.json", rules.stem),
                mime: Some("application/json".into()),
                description: Some("The metadata of the result, whole.".into()),
                viewer: None,
                content: Content::Plain(meta.bytes().clone()),
            }));
        }
    }

    /// Lets in as many files as one call may have.
    fn bound(&mut self, offered: Vec<Result<Artifact, Refused>>, rules: &Rules<'_>) {
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
                    self.refused.push(Refused { name: shortened(&file.name, 100), reason });
                }
            }
        }
    }

    /// The files to keep.
    pub fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// For each block with data, the name under which it was kept.
    pub fn media_names(&self, outcomes: &[Result<Kept, String>]) -> Vec<Option<String>> {
        let name = |offered: &String| {
            // The last of a name is the one that is found by it.
            let place = self.artifacts.iter().rposition(|artifact| artifact.name == *offered)?;
            outcomes.get(place)?.as_ref().ok().map(|kept| kept.name.clone())
        };
        self.media.iter().map(name).collect()
    }

    /// What goes on, now that it is known what became of each file.
    pub fn finish(self, outcomes: &[Result<Kept, String>], rules: &Rules<'_>) -> Shaped {
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
        for Refused { name, reason } in self.refused.iter() {
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
        let all = || self.structured.iter().chain(self.texts.iter().map(|(_, contract)| contract));
        let mut shown = None;
        if let Some(hints) = all().find_map(Contract::display) {
            let renamed = |name: &str| {
                let artifact = self.artifacts.iter().find(|artifact| artifact.name == name)?;
                kept(artifact).map(str::to_owned)
            };
            let (checked, why) = display::checked(hints, rules.hosts, &renamed);
            warnings.extend(why.map(Warning::Display));
            shown = checked;
        }
        Shaped { result: self.written(&names, rules), display: shown, warnings }
    }

    fn written(&self, names: &[&str], rules: &Rules<'_>) -> RawJson {
        if self.structured.is_none() && self.texts.is_empty() {
            return self.result.clone();
        }
        let edited = edit_object(&self.result, |key, value| match key {
            "structuredContent" => match &self.structured {
                Some(contract) => {
                    let fit = rules.output_schema.map_or(Fit::Free, |schema| Fit::Schema(schema.as_str()));
                    Edit::Replace(contract.written(names, fit))
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
        for (place, contract) in &self.texts {
            let block = content.share(&text[place.clone()]);
            let shown = RawJson::from_value(contract.written(names, Fit::Free).as_str());
            let Ok(block) = with_members(&block, &[("text", shown)]) else { continue };
            out.push_str(&text[from..place.start]);
            out.push_str(block.as_str());
            from = place.end;
        }
        out.push_str(&text[from..]);
        RawJson::trusted(out)
    }
}

/// The first blocks of a result's content, each with its place.
pub(super) fn blocks_of(content: &RawJson) -> impl Iterator<Item = (Range<usize>, RawJson)> + '_ {
    let text = content.as_str();
    let (places, _) = first_places(text, MAX_BLOCKS);
    places.into_iter().map(move |place| {
        let block = content.share(&text[place.clone()]);
        (place, block)
    })
}

fn files_of(contract: &Contract) -> (Vec<Result<Artifact, Refused>>, usize) {
    (contract.files.clone(), contract.unread)
}

/// The text of a text block.
pub(super) fn text_of(block: &RawJson) -> Option<String> {
    let kind = block.member("type")?;
    if kind.string()? != "text" {
        return None;
    }
    block.member("text")?.string().map(|text| text.into_owned())
}

/// The members of a result that may need a look.
pub(super) struct Look {
    pub(super) content: Option<RawJson>,
    pub(super) structured: Option<RawJson>,
}

impl Look {
    pub(super) fn at(result: &RawJson) -> Option<Self> {
        if !result.is_object() {
            return None;
        }
        Some(Self { content: result.member("content"), structured: result.member("structuredContent") })
    }
}

/// Writes into a result's `_meta` which files were kept and how they want to be shown.
pub fn annotated(result: RawJson, kept: &[Kept], display: Option<&RawJson>) -> RawJson {
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
    // Put behind the rest, which stays the text that it was.
    let text = result.as_str().trim_end();
    let open = text.strip_suffix('}').unwrap_or(text);
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    RawJson::trusted(format!("{open}{comma}\"_meta\":{meta}}}"))
}
