//! Storage of files that tools return (artifacts), among the files of the caller's session.

use super::{CallerFiles, FileProblem, NewFile};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::convert::Infallible;
use std::sync::Arc;
use toolbooth_core::caller::Caller;
use toolbooth_core::file::{FileOrigin, FileRow};
use toolbooth_core::names::ServerName;
use toolbooth_core::result::{Artifact, ArtifactContent, StoredArtifact, encoded};
use uuid::Uuid;

/// The call that produced an artifact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArtifactOrigin<'a> {
    pub(crate) caller: &'a Arc<Caller>,
    pub(crate) call: Uuid,
    pub(crate) server: &'a ServerName,
    pub(crate) tool: &'a str,
}

impl CallerFiles {
    /// Stores an artifact for the caller's session; the error says why it could not be stored.
    pub(crate) async fn store_artifact(
        &self,
        made_by: &ArtifactOrigin<'_>,
        artifact: &Artifact,
    ) -> Result<StoredArtifact, String> {
        let new = NewFile {
            name: artifact.name.clone(),
            mime: artifact.mime.clone(),
            origin: FileOrigin::Artifact {
                call: made_by.call,
                server: made_by.server.clone(),
                tool: made_by.tool.to_owned(),
            },
            description: artifact.description.clone(),
            viewer: artifact.viewer.clone(),
        };
        let kept = match &artifact.content {
            ArtifactContent::Plain(bytes) => {
                let content = futures_util::stream::iter([Ok::<_, Infallible>(bytes.clone())]);
                self.put(made_by.caller, new, content).await
            }
            ArtifactContent::Base64(text) => {
                let pieces = futures_util::stream::iter(encoded::pieces(text.clone()));
                self.put(made_by.caller, new, pieces).await
            }
        };
        kept.map(kept_as).map_err(|problem| match problem {
            // Only invalid base64 ends these pieces early.
            FileProblem::CutShort => encoded::NotBase64.to_string(),
            problem @ (FileProblem::Store(_) | FileProblem::Blob(_)) => {
                tracing::error!("an artifact could not be stored: {problem}");
                "it could not be stored".to_owned()
            }
            problem => problem.to_string(),
        })
    }

    /// A file of the caller's session and its content, by name.
    pub(crate) async fn read_artifact(
        &self,
        caller: &Caller,
        name: &str,
        most: u64,
    ) -> Result<Option<(StoredArtifact, Bytes)>, String> {
        let failed = |problem: FileProblem| {
            tracing::error!("an artifact could not be read: {problem}");
            format!("`{name}` could not be read")
        };
        let Some(row) = self.named(caller, name).await.map_err(failed)? else { return Ok(None) };
        let size = row.size_bytes;
        if size > most {
            return Err(format!("`{name}` has {size} bytes; files of up to {most} can be read here"));
        }
        let mut content = self.content(&row, 0..size).await.map_err(failed)?;
        let mut bytes = BytesMut::with_capacity(usize::try_from(size).unwrap_or(0));
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece.map_err(|error| failed(error.into()))?);
        }
        Ok(Some((kept_as(row), bytes.freeze())))
    }
}

fn kept_as(row: FileRow) -> StoredArtifact {
    let viewer = row.shown_with().map(str::to_owned);
    StoredArtifact {
        id: row.id.to_string(),
        name: row.name.into(),
        version: row.version,
        mime: row.mime,
        size_bytes: row.size_bytes,
        description: row.description,
        viewer,
    }
}
