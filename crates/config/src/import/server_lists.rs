//! The servers that a client has turned off in a list beside them.

use super::list_entries::ClientSource;
use crate::bounded_file::read_bounded;
use crate::clients::{ClientId, ListEffect, NameList, PROJECT_FILE_LISTS};
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};

/// The lists of a client, as its files have them.
pub(super) struct ServerLists {
    lists: Vec<ReadList>,
}

struct ReadList {
    /// How the list names servers.
    list: &'static NameList,
    value: Json,
    /// The project that the list belongs to.
    project: Option<PathBuf>,
}

/// What a list says about a server.
pub(super) enum TurnedOff {
    /// The client does not use it anywhere. The text says why.
    Everywhere(String),
    /// The client does not use it in these projects.
    InProjects(Vec<PathBuf>),
    /// The client uses it.
    No,
}

impl TurnedOff {
    /// Disables the entry of a server that its client does not use. Returns a remark for the user.
    pub(super) fn apply(self, entry: &mut Map<String, Json>) -> Option<String> {
        match self {
            Self::No => None,
            Self::Everywhere(why) => {
                entry.shift_remove("disabled");
                entry.insert("enabled".into(), false.into());
                Some(why)
            }
            Self::InProjects(projects) => {
                let first = projects.first()?.display();
                let more = match projects.len() {
                    1 => String::new(),
                    others => format!(" and {} more", others - 1),
                };
                Some(format!(
                    "the client does not use it in the project `{first}`{more}; the gateway offers it everywhere"
                ))
            }
        }
    }
}

impl ServerLists {
    /// Reads the lists beside the servers of a file: those in it, in the files of the user, and in files of their own.
    pub(super) fn read(source: &ClientSource<'_>, whole: &Json) -> Self {
        let Some(client) = source.client else { return Self::of_project_file(source) };
        let spec = client.spec();
        let mut read = Self { lists: Vec::new() };
        let own: Vec<&'static NameList> = spec.lists.iter().filter(|list| list.file.is_none()).collect();
        read.add(&own, whole);
        let users = client.user_files(source.sources);
        let others =
            users.iter().filter(|_| !own.is_empty() && !users.iter().any(|file| file == source.path));
        for file in others {
            read.add(&own, &parsed(file));
        }
        for file in client.list_files(source.sources) {
            let lists: Vec<&'static NameList> = spec
                .lists
                .iter()
                .filter(|list| {
                    list.file.is_some_and(|place| place.resolve(source.sources).as_ref() == Some(&file))
                })
                .collect();
            read.add(&lists, &parsed(&file));
        }
        read
    }

    /// The lists about the servers of a project's `.mcp.json`, which Claude Code keeps elsewhere.
    fn of_project_file(source: &ClientSource<'_>) -> Self {
        let mut read = Self { lists: Vec::new() };
        let folder =
            source.path.parent().filter(|_| source.path.file_name().is_some_and(|name| name == ".mcp.json"));
        let Some(folder) = folder else { return read };
        let client = ClientId::ClaudeCode;
        let users = client.user_files(source.sources).into_iter().chain(client.list_files(source.sources));
        let own = ["settings.json", "settings.local.json"].map(|name| folder.join(".claude").join(name));
        let lists: Vec<&'static NameList> = PROJECT_FILE_LISTS.iter().collect();
        for file in users.chain(own) {
            read.add(&lists, &parsed(&file));
        }
        read.lists.retain(|list| list.project.as_deref().is_none_or(|project| project == folder));
        read.lists.iter_mut().for_each(|list| list.project = None);
        read
    }

    fn add(&mut self, lists: &[&'static NameList], file: &Json) {
        for list in lists {
            let found = list.find(file).into_iter().map(|(value, project)| ReadList {
                list,
                value: value.clone(),
                project: project.map(PathBuf::from),
            });
            self.lists.extend(found);
        }
    }

    /// Whether the client uses a server. A server of a project can be turned off in that project only.
    pub(super) fn verdict(&self, name: &str, entry: &Map<String, Json>, project: Option<&Path>) -> TurnedOff {
        let off = |read: &&ReadList| read.list.turns_off(&read.value, name, entry);
        let mut projects = Vec::new();
        for read in self.lists.iter().filter(off) {
            match &read.project {
                Some(place) if Some(place.as_path()) != project => projects.push(place.clone()),
                _ => {
                    let shown = read.list.shown();
                    return TurnedOff::Everywhere(match read.list.effect {
                        ListEffect::Disables => format!("disabled, because it is in `{shown}` of the client"),
                        ListEffect::Allows => {
                            format!("disabled, because `{shown}` of the client does not allow it")
                        }
                    });
                }
            }
        }
        // The list of another project does not concern a server of this project.
        match project.is_none() && !projects.is_empty() {
            true => TurnedOff::InProjects(projects),
            false => TurnedOff::No,
        }
    }
}

/// The content of a file with lists. A file that cannot be read has none: the client has its own defaults then, too.
fn parsed(file: &Path) -> Json {
    let Ok(bytes) = read_bounded(file) else { return Json::Null };
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}');
    let options = jsonc_parser::ParseOptions::default();
    let parsed = jsonc_parser::cst::CstRootNode::parse(text, &options).ok();
    parsed.and_then(|root| root.to_serde_value()).unwrap_or_default()
}
