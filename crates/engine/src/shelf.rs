//! Where files that tools return are put, and found again.

use crate::engine::Engine;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use toolbooth_core::caller::Caller;
use toolbooth_core::names::ServerName;
use toolbooth_core::result::{Artifact, Content, Kept, encoded};
use uuid::Uuid;

/// The call that made a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub(crate) caller: &'a Arc<Caller>,
    pub(crate) call: Uuid,
    pub(crate) server: &'a ServerName,
    pub(crate) tool: &'a str,
}

type Key = (String, Option<String>, String);

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    files: Mutex<HashMap<Key, (Kept, Bytes)>>,
}

impl Engine {
    /// Keeps a file for the caller's session; else why not.
    pub(crate) async fn keep(&self, maker: &Maker<'_>, artifact: &Artifact) -> Result<Kept, String> {
        let bytes = match &artifact.content {
            Content::Plain(bytes) => bytes.clone(),
            Content::Base64(text) => {
                let pieces: Result<Vec<Bytes>, _> = encoded::pieces(text.clone()).collect();
                pieces.map_err(|error| error.to_string())?.concat().into()
            }
        };
        let name = artifact.name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        if name.trim_matches('.').is_empty() {
            return Err("its name has nothing that a file could be called".into());
        }
        let key =
            (maker.caller.user.to_string(), maker.caller.session.as_deref().map(Into::into), name.clone());
        let mut files = self.shelf().files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let version = files.get(&key).map_or(1, |(before, _)| before.version + 1);
        let kept = Kept {
            id: Uuid::now_v7().to_string(),
            name,
            version,
            mime: artifact.mime.clone().unwrap_or_else(|| "application/octet-stream".into()),
            size_bytes: bytes.len() as u64,
            description: artifact.description.clone(),
            viewer: artifact.viewer.clone(),
        };
        files.insert(key, (kept.clone(), bytes));
        Ok(kept)
    }

    /// A file of the caller's session, by its name.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        name: &str,
        most: u64,
    ) -> Result<Option<(Kept, Bytes)>, String> {
        let key = (caller.user.to_string(), caller.session.as_deref().map(Into::into), name.to_owned());
        let files = self.shelf().files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = files.get(&key).cloned();
        match &found {
            Some((kept, _)) if kept.size_bytes > most => Err(format!("`{name}` has more than {most} bytes")),
            _ => Ok(found),
        }
    }
}
