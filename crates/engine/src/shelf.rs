//! Where files that tools return are put, and found again: among the files of the caller's session.

use crate::engine::Engine;
use crate::files::{FileProblem, NewFile};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::convert::Infallible;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::file::{FileOrigin, FileRow};
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

impl Engine {
    /// Keeps a file for the caller's session; else why not.
    pub(crate) async fn keep(&self, maker: &Maker<'_>, artifact: &Artifact) -> Result<Kept, String> {
        let new = NewFile {
            name: artifact.name.clone(),
            mime: artifact.mime.clone(),
            origin: FileOrigin::Artifact {
                call: maker.call,
                server: maker.server.clone(),
                tool: maker.tool.to_owned(),
            },
            description: artifact.description.clone(),
            viewer: artifact.viewer.clone(),
        };
        let files = self.files();
        let kept = match &artifact.content {
            Content::Plain(bytes) => {
                let content = futures_util::stream::iter([Ok::<_, Infallible>(bytes.clone())]);
                files.put(maker.caller, new, content).await
            }
            Content::Base64(text) => {
                let pieces = futures_util::stream::iter(encoded::pieces(text.clone()));
                files.put(maker.caller, new, pieces).await
            }
        };
        kept.map(kept_as).map_err(|problem| match problem {
            // Nothing else ends our own pieces early.
            FileProblem::CutShort => encoded::NotBase64.to_string(),
            problem @ (FileProblem::Store(_) | FileProblem::Blob(_)) => {
                tracing::error!("a file that a tool returned was not kept: {problem}");
                "it could not be kept".to_owned()
            }
            problem => problem.to_string(),
        })
    }

    /// A file of the caller's session, by its name, with its content.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        name: &str,
        most: u64,
    ) -> Result<Option<(Kept, Bytes)>, String> {
        let failed = |problem: FileProblem| {
            tracing::error!("a file was not read: {problem}");
            format!("`{name}` could not be read")
        };
        let Some(row) = self.files().named(caller, name).await.map_err(failed)? else { return Ok(None) };
        let size = row.size_bytes;
        if size > most {
            return Err(format!("`{name}` has {size} bytes; files of up to {most} can be read here"));
        }
        let mut content = self.files().content(&row, 0..size).await.map_err(failed)?;
        let mut bytes = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0));
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece.map_err(|error| failed(error.into()))?);
        }
        Ok(Some((kept_as(row), bytes.freeze())))
    }
}

fn kept_as(row: FileRow) -> Kept {
    Kept {
        id: row.id.to_string(),
        name: row.name.into(),
        version: row.version,
        mime: row.mime,
        size_bytes: row.size_bytes,
        description: row.description,
        viewer: row.viewer,
    }
}
